/* test_swap.c - threads acquire, view and use versions while they are reloaded, unloaded and changed:
 * every acquire of a model that is loaded succeeds, and every version that was made is freed. */
#include "model/repository.h"
#include "model/version.h"

#include "unit/model/scratch.h"
#include "unit/support.h"

#include <pthread.h>

#define N_THREADS 4
#define N_RELOADS 60

static struct scratch scratch;

struct shared {
    struct ad_repository *repository;
    atomic_bool done;
    atomic_size_t n_acquired;
    atomic_size_t n_failed; /* acquires of what is always loaded */
};

static void use(struct shared *shared, const char *model, bool steady)
{
    struct ad_version *version;
    if (scratch_acquire(shared->repository, model, NULL, &version, NULL) != AD_OK) {
        atomic_fetch_add(&shared->n_failed, steady);
        return;
    }
    const struct attn_spec *spec = attn_layer_spec(version->layer);
    if (spec->n_heads != 1 && spec->n_heads != 2) {
        atomic_fetch_add(&shared->n_failed, 1);
    }
    atomic_fetch_add(&shared->n_acquired, 1);
    ad_version_release(version);
}

static void *use_all(void *argument)
{
    struct shared *shared = argument;
    while (!atomic_load(&shared->done)) {
        use(shared, "steady", true);
        use(shared, "coming", false);
        struct ad_view view;
        if (ad_repository_view(shared->repository, NULL, &view, NULL) == AD_OK) {
            ad_view_reset(&view);
        }
        (void)ad_repository_ready(shared->repository, true);
    }
    return NULL;
}

/* The versions that were retired, to see later that they are gone. */
struct graves {
    struct ad_presence *items[4 * N_RELOADS];
    size_t n;
};

static void bury(void *context, struct ad_version *version)
{
    struct graves *graves = context;
    graves->items[graves->n++] = ad_presence_hold(version->presence);
}

static void reload_all(struct ad_repository *repository)
{
    static const char *const configs[] = {
        SCRATCH_CONFIG,
        "{\"layer\": {\"kind\": \"routing_mha\", \"embedding_dim\": 4, \"n_heads\": 1}}",
        "{\"layer\": {\"kind\": "};
    for (size_t i = 0; i < N_RELOADS; i++) {
        scratch_text(&scratch, "steady/config.json", configs[i % 3]);
        enum ad_status status =
            ad_repository_load(repository, "steady", NULL, 0, NULL, 0, NULL);
        ck_assert_int_eq(status, i % 3 == 2 ? AD_INVALID : AD_OK);
        status = i % 2 == 0
                     ? ad_repository_load(repository, "coming", NULL, 0, NULL, 0, NULL)
                     : ad_repository_unload(repository, "coming", NULL);
        ck_assert_int_eq(status, AD_OK);
    }
}

START_TEST(test_swap_under_acquires)
{
    static struct graves graves;
    static const char *const startup[] = {"steady"};
    scratch_make(&scratch);
    scratch_text(&scratch, "steady/config.json", SCRATCH_CONFIG);
    scratch_version(&scratch, "steady/1");
    scratch_version(&scratch, "steady/2");
    scratch_text(&scratch, "coming/config.json", SCRATCH_CONFIG);
    scratch_version(&scratch, "coming/1");
    struct shared shared = {
        .repository =
            scratch_open(&(struct ad_repository_config){.root = scratch.root,
                                                        .mode = AD_CONTROL_EXPLICIT,
                                                        .startup = startup,
                                                        .n_startup = 1,
                                                        .on_retired = bury,
                                                        .context = &graves}),
    };
    pthread_t threads[N_THREADS];
    for (size_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use_all, &shared), 0);
    }
    reload_all(shared.repository);
    atomic_store(&shared.done, true);
    for (size_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_uint_eq(atomic_load(&shared.n_failed), 0);
    ck_assert_uint_gt(atomic_load(&shared.n_acquired), 0);
    /* two thirds of the reloads of two versions, and every unload of one */
    ck_assert_uint_eq(graves.n, N_RELOADS / 3 * 4 + N_RELOADS / 2);
    for (size_t i = 0; i < graves.n; i++) {
        ck_assert(ad_presence_is_gone(graves.items[i]));
        ad_presence_release(graves.items[i]);
    }
    ad_repository_free(shared.repository);
    scratch_remove(&scratch);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("swap");
    TCase *tests = tcase_create("swap");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_swap_under_acquires);
    suite_add_tcase(suite, tests);
    return support_run(suite);
}
