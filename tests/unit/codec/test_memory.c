/* test_memory.c - memory that runs out, at every allocation in turn: an error, no crash, no leak.
 *
 * The program's own malloc family counts and fails; a sanitizer brings its own, so there the test
 * only serves once. */
#include "codec/serve.h"
#include "unit/codec/fixture.h"
#include "unit/support.h"

#include <errno.h>

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

/* Serve with the n-th allocation failing; true when all went well. */
static bool serve(struct ad_version *version, bool gradient, size_t n)
{
    static const double keys[4] = {1, 2, 3, 4};
    const char *json = gradient ? gradients : inference;
    struct ad_request *request =
        fixture_request(version, json, strlen(json), keys, sizeof keys);
    request->mode.gradient = gradient;
    struct ad_worker worker = {.team = {NULL, 0, 1}};
    n_until_failure = n;
    ad_serve_infer(request, &worker);
    n_until_failure = 0;
    enum ad_status status = request->error.status;
    /* jansson drops a byte of a string whose buffer cannot grow, so that a name may turn into an
     * unknown one: refused too, if for the wrong reason. */
    ck_assert_msg(status == AD_OK || status == AD_INTERNAL || status == AD_INVALID,
                  "allocation %zu: %s", n, request->error.message);
    ck_assert(status != AD_INTERNAL || strstr(request->error.message, "memory"));
    ck_assert_int_eq(status == AD_OK, request->reply.size > 0);
    ad_request_free(request);
    ad_scratch_reset(&worker.scratch);
    return status == AD_OK;
}

static void fail_each(bool gradient)
{
    struct ad_version *version = fixture_relational();
    ck_assert(serve(version, gradient, 0));
#ifndef SANITIZED
    size_t n = 0;
    bool served = false;
    while (!served && n < 1000) {
        size_t before = n_allocated - n_freed;
        served = serve(version, gradient, ++n);
        ck_assert_msg(n_allocated - n_freed == before, "allocation %zu: a leak", n);
    }
    ck_assert_uint_gt(n, 10);
    ck_assert(served);
#endif
    ad_version_release(version);
}

START_TEST(test_inference)
{
    fail_each(false);
}
END_TEST

START_TEST(test_gradients)
{
    fail_each(true);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory");
    TCase *tcase = tcase_create("memory");
    tcase_add_test(tcase, test_inference);
    tcase_add_test(tcase, test_gradients);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
