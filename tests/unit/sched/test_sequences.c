/* Who may have a sequence in hand, what becomes of it afterwards, and which are dropped for others?
 * By table, with a clock that is told; and by many threads at once. */
#include "sched/sequences.h"

#include "unit/sched/fixture.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>

#define PAGE_POSITIONS 64
#define MAX_PAGES 64

static struct ad_version *version;
static size_t base_bytes, page_bytes; /* of an empty sequence, and of a page more */

/* ---- steps ----------------------------------------------------------------------------------- */

/* Plan the next pages of the request's sequence. */
static enum attn_status plan_pages(struct ad_request *request, size_t n_pages)
{
    static const float zeros[MAX_PAGES * PAGE_POSITIONS * 2];
    const struct attn_named_tensor input = {
        "input", {ATTN_F32, 3, {1, n_pages * PAGE_POSITIONS, 2}, zeros}};
    return attn_cache_plan(ad_sequence_cache(request->sequence), &input, 1, NULL, 0,
                           &request->plan, NULL);
}

static void run_plan(struct ad_request *request)
{
    size_t n_scratch;
    ck_assert_int_eq(attn_plan_scratch(request->plan, 1, &n_scratch), ATTN_OK);
    void *scratch = attn_alloc(n_scratch);
    float *output = malloc(sizeof(float) * 2 * MAX_PAGES * PAGE_POSITIONS);
    ck_assert_int_eq(attn_forward(request->plan, &output, scratch, NULL, NULL), ATTN_OK);
    request->advanced = true;
    free(output);
    attn_free(scratch);
}

/* Bytes of a sequence of so many pages. */
static size_t measure(size_t n_pages)
{
    struct ad_sequences_config config = {1, SIZE_MAX, 0};
    struct ad_sequences *sequences = ad_sequences_create(&config);
    struct ad_request *request = fixture_request(version);
    request->sequence_call = (struct ad_sequence_call){.id = "m", .start = true};
    ck_assert_int_eq(ad_sequences_take(sequences, request, 0, NULL), AD_OK);
    if (n_pages > 0) {
        ck_assert_int_eq(plan_pages(request, n_pages), ATTN_OK);
        run_plan(request);
    }
    ad_sequences_give(request, 0);
    size_t n_bytes = ad_sequences_count(sequences).n_bytes;
    ad_request_free(request);
    ad_sequences_free(sequences);
    return n_bytes;
}

static void setup(void)
{
    version = fixture_causal("a");
    base_bytes = measure(0);
    page_bytes = measure(2) - measure(1);
    ck_assert_uint_gt(base_bytes, 0);
    ck_assert_uint_gt(page_bytes, 4 * base_bytes);
}

static void teardown(void)
{
    ck_assert_uint_eq(atomic_load(&version->references), 1);
    ad_version_release(version);
}

/* ---- by table -------------------------------------------------------------------------------- */

/* Requests to sequences of one letter, in words:
 *   sA cA fAB  start, continue, start as a fork of B: A is in hand then
 *   pA3 rA     plan three pages and make room for them; run that
 *   gA eA      give back after success; that was its end
 *   xA         give back after a failure
 *   lA3        it keeps three pages
 *   t7         seven seconds pass
 *   w R        sweep; retire the version
 *   n2 b5 v1   so many are kept; so many pages of them all; so many were evicted
 * followed by what comes of it: "=lost", "=busy", "=limit", "=too_large"; nothing: it succeeds. */
struct scene {
    struct ad_sequences *sequences;
    struct ad_request *requests['Z' + 1]; /* that have a sequence in hand */
    int64_t now_ns;
};

/* The code's end, "lost" of "sequence_lost"; "" for success. */
static const char *outcome(enum ad_status status, const struct ad_error *error)
{
    ck_assert_int_eq(status, error->status);
    if (status == AD_OK) {
        return "";
    }
    ck_assert_ptr_nonnull(error->code);
    const char *name = strchr(error->code, '_') + 1;
    ck_assert_int_eq(status, strcmp(name, "limit") == 0       ? AD_UNAVAILABLE
                             : strcmp(name, "too_large") == 0 ? AD_TOO_LARGE
                                                              : AD_CONFLICT);
    return name;
}

static const char *take(struct scene *scene, char verb, char name, char fork)
{
    const char id[2] = {name, '\0'}, fork_id[2] = {fork, '\0'};
    struct ad_error error = {.status = AD_OK};
    struct ad_request *request = fixture_request(version);
    request->sequence_call = (struct ad_sequence_call){
        .id = id, .fork = verb == 'f' ? fork_id : NULL, .start = verb != 'c'};
    enum ad_status status =
        ad_sequences_take(scene->sequences, request, scene->now_ns, &error);
    request->sequence_call = (struct ad_sequence_call){.id = NULL};
    if (status) {
        ck_assert_ptr_null(request->sequence);
        ad_request_free(request);
    } else {
        ck_assert_ptr_null(scene->requests[(int)name]);
        scene->requests[(int)name] = request;
    }
    return outcome(status, &error);
}

static const char *make_room(struct scene *scene, struct ad_request *request,
                             size_t n_pages)
{
    struct ad_error error = {.status = AD_OK};
    ck_assert_int_eq(plan_pages(request, n_pages), ATTN_OK);
    enum ad_status status = ad_sequences_make_room(scene->sequences, request->sequence,
                                                   scene->now_ns, &error);
    return outcome(status, &error);
}

static const char *give(struct scene *scene, char verb, char name)
{
    struct ad_request *request = scene->requests[(int)name];
    request->sequence_call.end = verb == 'e';
    if (verb == 'x') {
        ad_fail(&request->error, AD_INVALID, "failed");
    }
    ad_sequences_give(request, scene->now_ns);
    ck_assert_ptr_null(request->sequence);
    ck_assert_ptr_null(request->plan);
    ad_request_free(request);
    scene->requests[(int)name] = NULL;
    return "";
}

static void check_count(struct scene *scene, char verb, size_t n)
{
    struct ad_sequences_count count = ad_sequences_count(scene->sequences);
    switch (verb) {
    case 'n':
        ck_assert_uint_eq(count.n, n);
        return;
    case 'b':
        ck_assert_uint_eq(count.n_bytes, count.n * base_bytes + n * page_bytes);
        return;
    default:
        ck_assert_uint_eq(count.n_evicted, n);
    }
}

static const char *act(struct scene *scene, const char *word)
{
    char verb = word[0], name = isupper((unsigned char)word[1]) ? word[1] : '\0';
    size_t number = strtoul(word + (name ? 2 : 1), NULL, 10);
    struct ad_request *request = scene->requests[(int)name];
    switch (verb) {
    case 's':
    case 'c':
    case 'f':
        return take(scene, verb, name, word[2]);
    case 'p':
        return make_room(scene, request, number);
    case 'r':
        run_plan(request);
        return "";
    case 'g':
    case 'e':
    case 'x':
        return give(scene, verb, name);
    case 'l':
        ck_assert_uint_eq(attn_cache_length(ad_sequence_cache(request->sequence)),
                          number * PAGE_POSITIONS);
        return "";
    case 't':
        scene->now_ns += (int64_t)number * NS_PER_S;
        return "";
    case 'w':
        ad_sequences_sweep(scene->sequences, scene->now_ns);
        return "";
    case 'R':
        ad_sequences_retire(scene->sequences, version);
        return "";
    default:
        check_count(scene, verb, number);
        return "";
    }
}

static const struct {
    size_t max, max_pages;
    int64_t idle_s;
    const char *words;
} scenes[] = {
    /* start, steps, end */
    {9, 99, 60, "cA=lost sA n1 gA cA gA cA eA n0 cA=lost"},
    {9, 99, 60, "sA eA n0 cA=lost"},
    {9, 99, 60, "sA pA1 rA lA1 gA cA lA1 pA2 rA lA3 gA b3 cA lA3 eA b0"},
    /* one request at a time */
    {9, 99, 60, "sA cA=busy sA=busy gA cA cA=busy sA=busy gA cA gA n1"},
    {9, 99, 60, "sA sB gA cB=busy cA gB gA n2"},
    /* started again: what was kept is gone */
    {9, 99, 60, "sA pA2 rA gA b2 sA lA0 n1 b0 pA1 rA gA b1 n1 v0"},
    /* forks: the same contents, and then each its own way */
    {9, 99, 60, "sA pA2 rA gA fBA lB2 n2 b4 pB1 rB lB3 gB cA lA2 pA3 rA gA cB lB3 gB b8"},
    {9, 99, 60, "fBA=lost n0 sA fBA=busy gA fBA gB cA gA n2"},
    {9, 99, 60, "sA pA1 rA gA fBA fCA gB gC cA eA cB lB1 gB n2"},
    {9, 99, 60, "sA pA1 rA gA fBA pB1 rB eB cB=lost cA lA1 gA"},
    {9, 99, 60, "sA pA1 rA gA sB pB2 rB gB fBA lB1 gB n2 b2"},
    {9, 99, 60, "sA pA1 rA gA sB fBA=busy xB fBA lB1 gB"},
    /* a failure: of the first request, of a later one, of an answer to a step that was made */
    {9, 99, 60, "sA xA n0 cA=lost"},
    {9, 99, 60, "sA pA1 xA n0 b0"},
    {9, 99, 60, "sA pA1 rA gA cA xA n1 cA lA1 gA"},
    {9, 99, 60, "sA pA1 rA gA cA pA4 xA b1 cA lA1 gA"},
    {9, 99, 60, "sA pA1 rA gA cA pA1 rA xA n0 b0 cA=lost"},
    {9, 99, 60, "sA pA1 rA gA fBA xB n1 cB=lost cA lA1 gA"},
    /* limit by number: the longest idle goes, if it was idle for long enough */
    {2, 99, 60, "sA gA sB gB sC=limit n2 cA gA cB gB"},
    {2, 99, 60, "sA gA t1 sB gB t4 sC gC cA=lost cB gB n2 v1"},
    {2, 99, 60, "sA gA sB gB t6 cA gA sC gC cB=lost cA gA v1"},
    {2, 99, 60, "sA sB t9 sC=limit gA gB sC=limit t5 sC gC n2"},
    {2, 99, 60, "sA gA cA sB gB t9 sC gC cB=lost gA n2"},
    {1, 99, 60, "sA gA sA gA sB=limit sA gA n1 v0"},
    {1, 99, 60, "sA gA t5 fBA gB cA=lost n1"},
    {0, 99, 60, "sA=limit n0"},
    /* limit by bytes; what is counted is what is planned, until that comes to nothing */
    {9, 3, 60, "sA pA3 rA gA b3 sB pB1=limit xB n1 b3 cA gA"},
    {9, 3, 60, "sA pA3 rA gA t5 sB pB1 rB gB n1 b1 cA=lost v1"},
    {9, 3, 60, "sA pA1 rA gA sB pB1 rB gB t3 cB gB t2 sC pC2 rC gC cA=lost cB gB b3 v1"},
    {9, 3, 60, "sA pA2 t9 sB pB2=limit xB rA gA b2"},
    {9, 3, 60, "sA pA2 rA gA cA pA2=too_large xA b2 cA lA2 pA1 rA gA b3"},
    {9, 3, 60, "sA pA4=too_large xA n0 b0"},
    {9, 3, 60, "sA pA2 rA gA fBA b4 pB1=limit xB b2"}, /* each counts what it shares */
    /* idle for too long */
    {9, 99, 60, "sA gA t30 sB gB t29 w n2 t1 w n1 cA=lost cB gB v1 t60 w n0 v2"},
    {9, 99, 60, "sA t99 w n1 gA w n1 t60 w n0"},
    {9, 99, 60, "sA gA t59 cA gA t59 w n1 cA gA"},
    {9, 99, 0, "sA gA w n0"},
    /* a version that serves no new request */
    {9, 99, 60, "sA gA sB gB R n0 cA=lost v0"},
    {9, 99, 60, "sA pA1 rA gA sB pB1 rB R n0 b0 cB=lost gB n0 b0"},
    {9, 99, 60, "sA R pA9 rA xA n0 b0"},
    {9, 99, 60, "sA R eA n0 R n0"},
    {9, 2, 60, "sA R pA9 rA gA n0 b0 sA pA2 rA gA n1 b2"},
};

START_TEST(by_table)
{
    char words[256], *rest = NULL;
    const struct ad_sequences_config config = {
        .max = scenes[_i].max, /* what a few of them take without pages counts little */
        .max_bytes = (scenes[_i].max_pages + 1) * page_bytes - 1,
        .idle_ns = scenes[_i].idle_s * NS_PER_S};
    struct scene scene = {.sequences = ad_sequences_create(&config),
                          .now_ns = 1000 * NS_PER_S};
    snprintf(words, sizeof words, "%s", scenes[_i].words);
    for (char *word = strtok_r(words, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest)) {
        const char *expected = strchr(word, '=') ? strchr(word, '=') + 1 : "";
        const char *came = act(&scene, word);
        ck_assert_msg(strcmp(came, expected) == 0, "%s: %s: '%s'", scenes[_i].words, word,
                      came);
    }
    for (int name = 'A'; name <= 'Z'; name++) {
        ck_assert_ptr_null(scene.requests[name]);
    }
    ad_sequences_free(scene.sequences);
}
END_TEST

/* ---- what the table does not show ------------------------------------------------------------ */

static void on_done(struct ad_request *request)
{
    ck_assert_ptr_null(request->sequence);
    ck_assert_ptr_null(request->plan);
    ck_assert_int_eq(request->error.status, AD_UNAVAILABLE);
    ad_request_free(request);
}

/* A request that is decoded has its sequence in hand while it waits for its turn. */
START_TEST(refused_requests_give_theirs_back)
{
    const struct ad_sequences_config config = {9, SIZE_MAX, NS_PER_S};
    struct scene scene = {.sequences = ad_sequences_create(&config)};
    struct ad_requests expired = {NULL, NULL, 0};
    ck_assert_str_eq(act(&scene, "sA"), "");
    ck_assert_str_eq(act(&scene, "gA"), "");
    ck_assert_str_eq(act(&scene, "cA"), "");
    ck_assert_str_eq(act(&scene, "pA1"), "");
    ck_assert_str_eq(act(&scene, "sB"), "");
    for (int name = 'A'; name <= 'B'; name++) {
        scene.requests[name]->on_done = on_done;
        ad_requests_append(&expired, scene.requests[name]);
        scene.requests[name] = NULL;
    }
    ad_workers_refuse(&expired);
    ck_assert_str_eq(act(&scene, "n1"), "");
    ck_assert_str_eq(act(&scene, "cA"), "");
    ck_assert_str_eq(act(&scene, "lA0"), "");
    ck_assert_str_eq(act(&scene, "eA"), "");
    ad_sequences_free(scene.sequences);
}
END_TEST

START_TEST(versions_have_ids_of_their_own)
{
    const struct ad_sequences_config config = {9, SIZE_MAX, NS_PER_S};
    struct scene scene = {.sequences = ad_sequences_create(&config)};
    struct ad_version *first = version, *other = fixture_causal("a");
    ck_assert_str_eq(act(&scene, "sA"), "");
    ck_assert_str_eq(act(&scene, "gA"), "");
    version = other;
    ck_assert_str_eq(act(&scene, "cA"), "lost");
    ck_assert_str_eq(act(&scene, "sA"), "");
    ck_assert_str_eq(act(&scene, "gA"), "");
    ck_assert_str_eq(act(&scene, "n2"), "");
    ck_assert_str_eq(act(&scene, "R"), "");
    ck_assert_str_eq(act(&scene, "n1"), "");
    ck_assert_uint_eq(atomic_load(&other->references), 1);
    version = first;
    ck_assert_str_eq(act(&scene, "cA"), "");
    ck_assert_str_eq(act(&scene, "eA"), "");
    ad_version_release(other);
    ad_sequences_free(scene.sequences);
}
END_TEST

/* Every position of it attends to those that follow. */
START_TEST(layers_that_cannot_keep_say_why)
{
    const struct ad_sequences_config config = {9, SIZE_MAX, NS_PER_S};
    struct ad_sequences *sequences = ad_sequences_create(&config);
    const struct attn_option options[] = {{.name = "output_shape",
                                           .type = ATTN_OPTION_INTS,
                                           .n_integers = 2,
                                           .integers = {2, 2}},
                                          attn_bool("use_mask", false)};
    struct ad_version *plain = fixture_causal_with("plain", options, 2);
    struct ad_error error = {.status = AD_OK};
    struct ad_request *request = fixture_request(plain);
    request->sequence_call = (struct ad_sequence_call){.id = "x", .start = true};
    ck_assert_int_eq(ad_sequences_take(sequences, request, 0, &error), AD_INVALID);
    ck_assert_msg(strstr(error.message, "sequence 'x' of model 'plain': ") &&
                      strstr(error.message, "causal mask"),
                  "%s", error.message);
    ck_assert_uint_eq(ad_sequences_count(sequences).n, 0);
    ad_sequences_give(request, 0); /* none in hand is fine */
    ad_request_free(request);
    ck_assert_uint_eq(atomic_load(&plain->references), 1);
    ad_version_release(plain);
    ad_sequences_free(sequences);
}
END_TEST

START_TEST(null_is_fine)
{
    ad_sequences_free(NULL);
}
END_TEST

/* ---- many at once ---------------------------------------------------------------------------- */

#define N_THREADS 4
#define N_IDS 6
#define N_ROUNDS 4000

struct crowd {
    struct ad_sequences *sequences;
    atomic_int in_hand[N_IDS]; /* of the version that stays */
    atomic_int n_faults, n_taken, n_refused, n_threads, n_ended;
    atomic_int_fast64_t now_ns; /* moves on with every request */
    struct ad_version *retired; /* again and again */
};

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 16;
}

static void use_sequence(struct crowd *crowd, struct ad_request *request, unsigned choice)
{
    struct ad_error error = {.status = AD_OK};
    if (choice % 4 == 0) {
        return; /* its plan failed, or it brought nothing */
    }
    if (plan_pages(request, 1 + choice % 2) == ATTN_OK &&
        ad_sequences_make_room(crowd->sequences, request->sequence,
                               atomic_load(&crowd->now_ns), &error) == AD_OK) {
        if (choice % 8 != 1) {
            run_plan(request);
        }
        return;
    }
    ad_fail(&request->error, AD_UNAVAILABLE, "%s", error.message);
}

static void one_request(struct crowd *crowd, unsigned *state)
{
    static const char *const ids[N_IDS] = {"a", "b", "c", "d", "e", "f"};
    size_t id = next_random(state) % N_IDS;
    bool stays = next_random(state) % 4 != 0;
    struct ad_request *request = fixture_request(stays ? version : crowd->retired);
    struct ad_sequence_call *call = &request->sequence_call;
    int64_t now_ns = atomic_fetch_add(&crowd->now_ns, NS_PER_S / 10);
    call->id = ids[id];
    call->start = next_random(state) % 8 == 0;
    call->fork = call->start && next_random(state) % 2 ? ids[(id + 1) % N_IDS] : NULL;
    call->end = next_random(state) % 16 == 0;
    if (ad_sequences_take(crowd->sequences, request, now_ns, &request->error) == AD_OK) {
        int before = stays ? atomic_fetch_add(&crowd->in_hand[id], 1) : 0;
        atomic_fetch_add(&crowd->n_faults, before != 0);
        use_sequence(crowd, request, next_random(state));
        if (next_random(state) % 16 == 0) {
            ad_fail(&request->error, AD_NONFINITE, "failed");
        }
        atomic_fetch_sub(&crowd->in_hand[id], stays);
        ad_sequences_give(request, now_ns);
        atomic_fetch_add(&crowd->n_taken, 1);
    } else {
        atomic_fetch_add(&crowd->n_refused, 1);
    }
    ad_request_free(request);
}

static void *make_requests(void *argument)
{
    struct crowd *crowd = argument;
    unsigned state = (unsigned)atomic_fetch_add(&crowd->n_threads, 1) * 7919;
    for (size_t i = 0; i < N_ROUNDS; i++) {
        one_request(crowd, &state);
    }
    atomic_fetch_add(&crowd->n_ended, 1);
    return NULL;
}

START_TEST(one_at_a_time_whatever_happens)
{
    pthread_t threads[N_THREADS];
    const struct ad_sequences_config config = {
        .max = 8, .max_bytes = 12 * page_bytes, .idle_ns = 20 * NS_PER_S};
    struct crowd crowd = {.sequences = ad_sequences_create(&config),
                          .retired = fixture_causal("retired")};
    for (size_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, make_requests, &crowd), 0);
    }
    while (atomic_load(&crowd.n_ended) < N_THREADS) {
        ad_sequences_sweep(crowd.sequences, atomic_load(&crowd.now_ns));
        ad_sequences_retire(crowd.sequences, crowd.retired);
        ck_assert_uint_le(ad_sequences_count(crowd.sequences).n, config.max);
        fixture_nap(100000);
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_int_eq(atomic_load(&crowd.n_faults), 0);
    ck_assert_int_gt(atomic_load(&crowd.n_taken), N_ROUNDS / 10);
    ck_assert_int_gt(atomic_load(&crowd.n_refused), 0);
    ad_sequences_sweep(crowd.sequences, INT64_MAX);
    struct ad_sequences_count count = ad_sequences_count(crowd.sequences);
    ck_assert_uint_eq(count.n, 0);
    ck_assert_uint_eq(count.n_bytes, 0);
    ck_assert_uint_gt(count.n_evicted, 0);
    ck_assert_uint_eq(atomic_load(&crowd.retired->references), 1);
    ad_version_release(crowd.retired);
    ad_sequences_free(crowd.sequences);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sequences");
    TCase *tcase = tcase_create("sequences");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, by_table, 0, sizeof scenes / sizeof *scenes);
    tcase_add_test(tcase, refused_requests_give_theirs_back);
    tcase_add_test(tcase, versions_have_ids_of_their_own);
    tcase_add_test(tcase, layers_that_cannot_keep_say_why);
    tcase_add_test(tcase, null_is_fine);
    tcase_add_test(tcase, one_at_a_time_whatever_happens);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
