/* test_memory.c - memory that runs out, at every allocation in turn: an error, no crash, no leak.
 *
 * The program's own malloc family counts and fails; a sanitizer brings its own, so there the test
 * only serves once. */
#include "codec/pack.h"
#include "codec/unpack.h"
#include "unit/codec/packed.h"
#include "unit/codec/serving.h"
#include "unit/support.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

static size_t n_until_failure; /* 0: never */

#ifndef SANITIZED

static size_t n_allocated, n_freed;

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *memory);
void *memalign(size_t alignment, size_t size);

static bool fails(void)
{
    if (n_until_failure > 0 && --n_until_failure == 0) {
        errno = ENOMEM;
        return true;
    }
    return false;
}

static void *count(void *memory)
{
    n_allocated += memory != NULL;
    return memory;
}

void *malloc(size_t size)
{
    return fails() ? NULL : count(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : count(__libc_calloc(n, size));
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : count(__libc_memalign(alignment, size));
}

void *memalign(size_t alignment, size_t size)
{
    return aligned_alloc(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    *memory = aligned_alloc(alignment, size);
    return *memory ? 0 : ENOMEM;
}

void *realloc(void *memory, size_t size)
{
    if (fails()) {
        return NULL;
    }
    n_freed += memory != NULL;
    return count(__libc_realloc(memory, size));
}

void free(void *memory)
{
    n_freed += memory != NULL;
    __libc_free(memory);
}

#endif

static const char inference[] =
    "{\"id\":\"memory\",\"inputs\":["
    "{\"name\":\"queries\",\"datatype\":\"FP32\",\"shape\":[1,1,2,2],\"data\":[1,2,3,4]},"
    "{\"name\":\"keys\",\"datatype\":\"FP64\",\"shape\":[1,1,2,2],"
    "\"parameters\":{\"binary_data_size\":32}},"
    "{\"name\":\"values\",\"datatype\":\"FP32\",\"shape\":[1,1,2,1],"
    "\"data\":[[[[5],[0.25]]]]}],"
    "\"outputs\":[{\"name\":\"output\"},"
    "{\"name\":\"attention\",\"parameters\":{\"binary_data\":true}}]}";

static const char gradients[] =
    "{\"parameters\":{\"training\":true},\"inputs\":["
    "{\"name\":\"queries\",\"datatype\":\"FP32\",\"shape\":[1,1,2,2],\"data\":[1,2,3,4]},"
    "{\"name\":\"keys\",\"datatype\":\"FP64\",\"shape\":[1,1,2,2],"
    "\"parameters\":{\"binary_data_size\":32}},"
    "{\"name\":\"values\",\"datatype\":\"FP32\",\"shape\":[1,1,2,1],\"data\":[5,0.25]},"
    "{\"name\":\"grad_output\",\"datatype\":\"FP32\",\"shape\":[1,1,3],"
    "\"data\":[1,2,3]}]}";

/* jansson writes past the end of a string whose buffer cannot grow for its closing quote, as that of
 * "sequence_start" would have to: a longer string comes before. */
static const char step[] =
    "{\"id\":\"a string that is longer than the "
    "others\",\"parameters\":{\"sequence_id\":1,\"sequence_start\":true,\"sequence_end\":"
    "true},"
    "\"inputs\":["
    "{\"name\":\"queries\",\"datatype\":\"FP32\",\"shape\":[1,1,2,2],\"data\":[1,2,3,4]},"
    "{\"name\":\"keys\",\"datatype\":\"FP64\",\"shape\":[1,1,2,2],"
    "\"parameters\":{\"binary_data_size\":32}},"
    "{\"name\":\"values\",\"datatype\":\"FP32\",\"shape\":[1,1,2,1],\"data\":[5,0.25]}]}";

static const char instances[] =
    "{\"\\u0061\":[\"more than is read\"],\"instances\":["
    "{\"queries\":[[[1,2],[3,4]]],\"keys\":[[[1,2],[3,4]]],\"values\":[[[5],[0.25]]]},"
    "{\"queries\":[[[1,2],[3,4]]],\"k\\u0065ys\":[[[1,2],[3,4]]],\"values\":[[[1],[2]]]}"
    "]}";

/* What is served: one request, or several in one pass. */
struct problem {
    const char *json;
    bool gradient;
    size_t n_together;
    enum ad_form form;
};

#define MOST_TOGETHER 3

static bool check_status(const struct ad_request *request, size_t n)
{
    enum ad_status status = request->error.status;
    /* jansson drops a byte of a string whose buffer cannot grow, so that a name may turn into an
     * unknown one: refused too, if for the wrong reason. */
    ck_assert_msg(status == AD_OK || status == AD_INTERNAL || status == AD_INVALID,
                  "allocation %zu: %s", n, request->error.message);
    ck_assert(status != AD_INTERNAL || strstr(request->error.message, "memory"));
    ck_assert_int_eq(status == AD_OK, request->reply.size > 0);
    return status == AD_OK;
}

/* Serve with the n-th allocation failing; true when all went well since there are less. */
static bool serve(struct ad_version *version, const struct problem *problem, size_t n)
{
    static const double keys[4] = {1, 2, 3, 4};
    struct ad_serving serving = serving_make(2, 1 << 20);
    struct ad_worker worker = {.team = {.n_workers = 1}};
    struct ad_request *requests[MOST_TOGETHER];
    bool all = true;
    for (size_t i = 0; i < problem->n_together; i++) {
        requests[i] = fixture_request(version, problem->json, strlen(problem->json), keys,
                                      problem->form == AD_FORM_INFER ? sizeof keys : 0);
        requests[i]->form = problem->form;
        requests[i]->mode.gradient = problem->gradient;
    }
    n_until_failure = n;
    serving_serve_many(&serving, requests, problem->n_together, &worker);
    bool failed = n > 0 && n_until_failure == 0;
    n_until_failure = 0;
    for (size_t i = 0; i < problem->n_together; i++) {
        all = check_status(requests[i], n) && all;
        ad_request_free(requests[i]);
    }
    ck_assert_uint_eq(ad_sequences_count(serving.sequences).n, 0);
    ad_scratch_reset(&worker.scratch);
    ad_scratch_reset(&worker.records);
    serving_reset(&serving);
    ck_assert(failed || all);
    return !failed;
}

static void fail_each(struct problem problem)
{
    struct ad_version *version = fixture_relational();
    ck_assert(serve(version, &problem, 0));
#ifndef SANITIZED
    size_t n = 0;
    bool served = false;
    while (!served && n < 1000) {
        size_t before = n_allocated - n_freed;
        served = serve(version, &problem, ++n);
        ck_assert_msg(n_allocated - n_freed == before, "allocation %zu: a leak", n);
    }
    ck_assert_uint_gt(n, 10);
    ck_assert(served);
#endif
    ad_version_release(version);
}

START_TEST(test_inference)
{
    fail_each((struct problem){inference, false, 1, AD_FORM_INFER});
}
END_TEST

START_TEST(test_gradients)
{
    fail_each((struct problem){gradients, true, 1, AD_FORM_INFER});
}
END_TEST

START_TEST(test_sequence)
{
    fail_each((struct problem){step, false, 1, AD_FORM_INFER});
}
END_TEST

START_TEST(test_together)
{
    fail_each((struct problem){inference, false, MOST_TOGETHER, AD_FORM_INFER});
}
END_TEST

START_TEST(test_predict)
{
    fail_each((struct problem){instances, false, 1, AD_FORM_PREDICT});
}
END_TEST

/* A registry and a region in it, with the n-th allocation failing; true when there are less. */
static bool register_region(const char *folder, size_t n)
{
    n_until_failure = n;
    struct ad_regions *regions = ad_regions_create(folder);
    enum ad_status status = AD_INTERNAL;
    if (regions) {
        status = ad_regions_register(regions, "name", "object", 0, 1, NULL);
    }
    bool failed = n > 0 && n_until_failure == 0;
    n_until_failure = 0;
    ad_regions_free(regions);
    /* the C library gets over some failures of its own */
    ck_assert(status == AD_OK || (failed && status == AD_INTERNAL));
    return !failed;
}

START_TEST(test_regions)
{
    char folder[] = "/tmp/attentiond-memory.XXXXXX", path[64];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/object", folder);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    ck_assert_int_eq(ftruncate(fd, 1), 0);
    close(fd);
    ck_assert(register_region(folder, 0));
#ifndef SANITIZED
    size_t n = 0;
    bool done = false;
    while (!done && n < 100) {
        size_t before = n_allocated - n_freed;
        done = register_region(folder, ++n);
        ck_assert_msg(n_allocated - n_freed == before, "allocation %zu: a leak", n);
    }
    ck_assert(done && n > 5);
#endif
    remove(path);
    rmdir(folder);
}
END_TEST

#ifndef SANITIZED
static const enum ad_coding codings[] = {AD_CODING_GZIP, AD_CODING_DEFLATE,
                                         AD_CODING_ZSTD};

/* Unpack, and pack what came out, with the n-th allocation failing; true when none was left to fail. */
static bool pack_again(struct ad_request *request, enum ad_coding coding, size_t n)
{
    struct ad_error error = {.status = AD_OK};
    n_until_failure = n;
    enum ad_status status = ad_unpack_body(request, &error);
    if (status == AD_OK) {
        request->reply = request->body;
        ad_buffer_init(&request->body);
        request->reply_coding = coding;
        request->reply_level = 1;
        ad_pack_reply(request);
    }
    bool failed = n_until_failure == 0;
    n_until_failure = 0;
    ck_assert_msg(status == AD_OK ||
                      (status == AD_INTERNAL && strstr(error.message, "memory")),
                  "allocation %zu: %s", n, error.message);
    ck_assert(failed || request->reply_coded == coding);
    return !failed;
}
#endif

/* Without memory a body is refused, and a reply goes out as it is. */
START_TEST(test_codings)
{
#ifndef SANITIZED
    enum ad_coding coding = codings[_i];
    char *text = calloc(1, 300000);
    ck_assert_ptr_nonnull(text);
    struct packed packed = coding == AD_CODING_ZSTD ? pack_zstd(text, 300000, false, 0)
                                                    : pack_bytes(coding, text, 300000);
    bool done = false;
    for (size_t n = 1; !done; n++) {
        size_t before = n_allocated - n_freed;
        struct ad_request *request = ad_request_create();
        ck_assert_ptr_nonnull(request);
        ck_assert(ad_buffer_append(&request->body, packed.bytes, packed.n));
        request->coding = coding;
        request->n_json = AD_ALL_JSON;
        request->max_input_bytes = 1 << 20;
        done = pack_again(request, coding, n);
        ad_request_free(request);
        ck_assert_msg(n_allocated - n_freed == before, "allocation %zu: a leak", n);
        ck_assert_uint_lt(n, 100);
    }
    packed_free(&packed);
    free(text);
#endif
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory");
    TCase *tcase = tcase_create("memory");
    tcase_add_test(tcase, test_inference);
    tcase_add_loop_test(tcase, test_codings, 0, 3);
    tcase_add_test(tcase, test_gradients);
    tcase_add_test(tcase, test_sequence);
    tcase_add_test(tcase, test_together);
    tcase_add_test(tcase, test_predict);
    tcase_add_test(tcase, test_regions);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
