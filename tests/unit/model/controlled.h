/* controlled.h - a repository that changes while it is used, for the tests of its control. */
#ifndef TESTS_UNIT_MODEL_CONTROLLED_H
#define TESTS_UNIT_MODEL_CONTROLLED_H

#include "model/repository.h"

#include "unit/model/scratch.h"

#define CONFIG_ONE_HEAD \
    "{\"layer\": {\"kind\": \"routing_mha\", \"embedding_dim\": 4, \"n_heads\": 1}}"

static struct scratch scratch;

/* What on_retired was told. */
static struct {
    size_t n;
    uint64_t numbers[32];
} retired;

static inline void note_retired(void *context, struct ad_version *version)
{
    ck_assert_ptr_eq(context, &retired);
    ck_assert_uint_ge(atomic_load(&version->references), 1);
    retired.numbers[retired.n++ % 32] = version->number;
}

static inline void set_up(void)
{
    scratch_make(&scratch);
    retired.n = 0;
}

static inline void tear_down(void)
{
    scratch_remove(&scratch);
}

static inline struct ad_repository *
open_mode(enum ad_control_mode mode, const char *const *startup, size_t n_startup)
{
    return scratch_open(&(struct ad_repository_config){.root = scratch.root,
                                                       .mode = mode,
                                                       .startup = startup,
                                                       .n_startup = n_startup,
                                                       .on_retired = note_retired,
                                                       .context = &retired});
}

/* Files are old, and no two writes of one have the same time. */
static inline void make_old(const char *path)
{
    static time_t n;
    scratch_age(&scratch, path, 10000 - ++n);
}

/* A model whose files are old. */
static inline void write_model(const char *name, const char *config)
{
    char path[256];
    snprintf(path, sizeof path, "%s/config.json", name);
    scratch_text(&scratch, path, config);
    make_old(path);
}

static inline void write_version(const char *name)
{
    char path[256];
    scratch_version(&scratch, name);
    snprintf(path, sizeof path, "%s/model.safetensors", name);
    make_old(path);
}

static inline struct ad_version *acquired(struct ad_repository *repository,
                                          const char *model, const char *version)
{
    struct ad_version *found;
    struct ad_error error = {0};
    ck_assert_msg(scratch_acquire(repository, model, version, &found, &error) == AD_OK,
                  "%s", error.message);
    return found;
}

static inline size_t n_heads(struct ad_repository *repository, const char *model)
{
    struct ad_version *version = acquired(repository, model, NULL);
    const size_t n = attn_layer_spec(version->layer)->n_heads;
    ad_version_release(version);
    return n;
}

static inline void load_good(struct ad_repository *repository, const char *model)
{
    struct ad_error error = {0};
    ck_assert_msg(ad_repository_load(repository, model, NULL, 0, NULL, 0, &error) ==
                      AD_OK,
                  "%s", error.message);
}

static inline enum ad_version_state state_of(struct ad_repository *repository,
                                             const char *model, size_t version)
{
    struct ad_view view = scratch_view(repository, model);
    ck_assert_uint_lt(version, view.models[0].n_versions);
    const enum ad_version_state state = view.models[0].versions[version].state;
    ad_view_reset(&view);
    return state;
}

static inline void rescan(struct ad_repository *repository, bool everything)
{
    struct ad_error error = {0};
    ck_assert_msg(ad_repository_rescan(repository, everything, &error) == AD_OK, "%s",
                  error.message);
}

#endif
