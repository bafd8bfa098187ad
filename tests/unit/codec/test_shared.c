/* test_shared.c - tensors in shared memory: which places are taken, and what becomes of a request whose
 * region changes under it. */
#include "unit/codec/serving.h"
#include "unit/support.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define SIZE 256

static char folder[64], path[128];
static struct ad_regions *regions;
static struct ad_version *version;
static struct ad_serving serving;
static struct ad_worker worker;

/* Floats 1, 2, ... from the object's begin; r is the whole of it, p what follows 100 bytes, twin the whole
 * again. */
static void setup(void)
{
    strcpy(folder, "/tmp/attentiond-shared.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/object", folder);
    regions = ad_regions_create(folder);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    float values[SIZE / 4];
    for (size_t i = 0; i < COUNT(values); i++) {
        values[i] = (float)(i + 1);
    }
    ck_assert_uint_eq(fwrite(values, 1, SIZE, file), SIZE);
    fclose(file);
    struct ad_error error = {.status = AD_OK};
    ck_assert_int_eq(ad_regions_register(regions, "r", "object", 0, SIZE, &error), AD_OK);
    ck_assert_int_eq(ad_regions_register(regions, "p", "object", 100, SIZE - 100, &error),
                     AD_OK);
    ck_assert_int_eq(ad_regions_register(regions, "twin", "object", 0, SIZE, &error),
                     AD_OK);
    version = fixture_growing();
    serving = serving_make(1, 10000);
    worker = (struct ad_worker){.team = {.n_workers = 1}};
}

static void teardown(void)
{
    serving_reset(&serving);
    ad_scratch_reset(&worker.scratch);
    ad_version_release(version);
    ad_regions_free(regions);
    remove(path);
    rmdir(folder);
}

static float float_at(size_t offset)
{
    float value = 0;
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fseek(file, (long)offset, SEEK_SET), 0);
    ck_assert_uint_eq(fread(&value, sizeof value, 1, file), 1);
    fclose(file);
    return value;
}

/* A request with these parameters of its input, of the given type and shape, and these outputs. */
static struct ad_request *make(const char *tensor, const char *input, const char *outputs)
{
    char json[1024];
    snprintf(json, sizeof json,
             "{\"inputs\":[{\"name\":\"input\",%s,\"parameters\":{%s}}]%s%s}", tensor,
             input, outputs[0] ? "," : "", outputs);
    struct ad_request *request = fixture_json(version, json);
    request->regions = regions;
    return request;
}

static struct ad_request *serve(const char *tensor, const char *input,
                                const char *outputs)
{
    struct ad_request *request = make(tensor, input, outputs);
    serving_serve(&serving, request, &worker);
    return request;
}

#define FP32 "\"datatype\":\"FP32\",\"shape\":[1,1,2]"
#define IN(region, offset, size)               \
    "\"shared_memory_region\":\"" region "\"," \
    "\"shared_memory_offset\":" #offset ","    \
    "\"shared_memory_byte_size\":" #size
#define OUT(region, offset, size) \
    "\"outputs\":[{\"name\":\"output\",\"parameters\":{" IN(region, offset, size) "}}]"
#define TWO(region_a, offset_a, size_a, region_b, offset_b, size_b)                  \
    "\"outputs\":[{\"name\":\"output\",\"parameters\":{" IN(                         \
        region_a, offset_a,                                                          \
        size_a) "}},{\"name\":\"attention\",\"parameters\":{" IN(region_b, offset_b, \
                                                                 size_b) "}}]"

START_TEST(in_and_out)
{
    struct ad_request *request = serve(FP32, IN("p", 4, 8), OUT("r", 200, 20));
    ck_assert_msg(request->error.status == AD_OK, "%s", request->error.message);
    ck_assert(fabsf(float_at(200) - 27) < 1e-3F && fabsf(float_at(204) - 28) < 1e-3F);
    ck_assert(float_at(208) == 53.0F && float_at(196) == 50.0F);
    ck_assert(strstr(request->reply.data,
                     "\"shape\":[1,1,2],\"parameters\":{\"shared_memory_region\":\"r\","
                     "\"shared_memory_offset\":200,\"shared_memory_byte_size\":8}}]}"));
    ck_assert_uint_eq(request->reply.size, request->n_reply_json);
    ad_request_free(request);
}
END_TEST

/* Beside outputs that go with the reply, as text and as bytes. */
START_TEST(some_outputs)
{
    static const char *const others[] = {"false", "true"};
    for (size_t i = 0; i < COUNT(others); i++) {
        char outputs[512];
        snprintf(
            outputs, sizeof outputs,
            "\"parameters\":{\"binary_data_output\":true},\"outputs\":[{\"name\":"
            "\"attention\",\"parameters\":{\"binary_data\":%s}},{\"name\":\"output\","
            "\"parameters\":{\"shared_memory_region\":\"r\","
            "\"shared_memory_byte_size\":8}}]",
            others[i]);
        struct ad_request *request = serve(FP32, IN("r", 0, 8), outputs);
        ck_assert_msg(request->error.status == AD_OK, "%s", request->error.message);
        ck_assert_uint_eq(request->reply.size - request->n_reply_json, i * 4);
        ck_assert(strstr(request->reply.data, "\"parameters\":{\"shared_memory_region\":"
                                              "\"r\",\"shared_memory_byte_size\":8}}]}"));
        ad_request_free(request);
    }
}
END_TEST

/* Half floats become floats; what has no elements needs no room. */
START_TEST(types_and_sizes)
{
    struct ad_request *request =
        serve("\"datatype\":\"FP16\",\"shape\":[1,1,2]", IN("r", 0, 4), "");
    ck_assert_msg(request->error.status == AD_OK, "%s", request->error.message);
    ad_request_free(request);
    request = serve("\"datatype\":\"FP32\",\"shape\":[1,0,2]", IN("r", 256, 0),
                    OUT("r", 256, 0));
    ck_assert_msg(request->error.status == AD_OK, "%s", request->error.message);
    ad_request_free(request);
}
END_TEST

static const struct {
    const char *tensor, *input, *outputs;
    enum ad_status status;
    const char *message;
} requests[] = {
    {FP32, IN("x", 0, 8), "", AD_INVALID,
     "input 'input': unknown shared memory region 'x'; register it first"},
    {FP32, IN("r", 0, 12), "", AD_INVALID,
     "input 'input': shared_memory_byte_size must be 8 (FP32, shape [1,1,2]), got 12"},
    {FP32, IN("r", 249, 8), "", AD_INVALID,
     "input 'input': 8 bytes at offset 249 are not inside shared memory region 'r'"},
    {FP32, IN("p", 149, 8), "", AD_INVALID, "not inside shared memory region 'p'"},
    {FP32, IN("r", 9223372036854775807, 8), "", AD_INVALID, "not inside"},
    {FP32, IN("r", 9223372036854775808, 8), "", AD_INVALID, "beyond the range"},
    {FP32, IN("r", -1, 8), "", AD_INVALID,
     "input 'input': parameter shared_memory_offset must not be negative, got -1"},
    {FP32, IN("r", 0, -8), "", AD_INVALID, "must not be negative"},
    {FP32, IN("r", 0.5, 8), "", AD_INVALID, "must be an integer"},
    {FP32, IN("r", "0", 8), "", AD_INVALID, "must be an integer, got a string"},
    {FP32, IN("", 0, 8), "", AD_INVALID, "must be the name of a region"},
    {FP32, "\"shared_memory_region\":5", "", AD_INVALID, "must be the name of a region"},
    {FP32, "\"shared_memory_region\":\"r\"", "", AD_INVALID,
     "needs parameter shared_memory_byte_size"},
    {FP32, "\"shared_memory_offset\":0", "", AD_INVALID,
     "shared_memory_offset needs parameter shared_memory_region"},
    {FP32 ",\"data\":[1,2]", "\"shared_memory_byte_size\":8", "", AD_INVALID,
     "shared_memory_byte_size needs parameter shared_memory_region"},
    {FP32 ",\"data\":[1,2]", IN("r", 0, 8), "", AD_INVALID,
     "expected either data, parameter binary_data_size or shared_memory_region, got "
     "several"},
    {FP32, "\"binary_data_size\":8," IN("r", 0, 8), "", AD_INVALID, "got several"},
    {FP32, "", "", AD_INVALID,
     "expected data, parameter binary_data_size or shared_memory_region, got none"},
    {FP32, IN("r", 0, 8), OUT("x", 0, 8), AD_INVALID,
     "output 'output': unknown shared memory region 'x'"},
    {FP32, IN("r", 0, 8), OUT("r", 0, 4), AD_INVALID,
     "output 'output' takes 8 bytes, its shared_memory_byte_size is 4"},
    {FP32, IN("r", 0, 8), OUT("r", 252, 8), AD_INVALID,
     "output 'output': 8 bytes at offset 252 are not inside shared memory region 'r' of "
     "256 bytes"},
    {FP32, IN("r", 0, 8), OUT("r", 0, 9223372036854775807), AD_INVALID, "not inside"},
    {FP32, IN("r", 0, 8),
     "\"outputs\":[{\"name\":\"output\",\"parameters\":{\"binary_data\":true," IN(
         "r", 0, 8) "}}]",
     AD_INVALID, "expected parameter binary_data or shared_memory_region, got both"},
    {FP32, IN("r", 0, 8), TWO("r", 0, 8, "r", 4, 8), AD_INVALID,
     "outputs 'output' and 'attention' overlap in shared memory object '/object'"},
    {FP32, IN("r", 0, 8), TWO("r", 100, 8, "p", 0, 8), AD_INVALID, "overlap"},
    {FP32, IN("r", 0, 8), TWO("twin", 4, 8, "r", 0, 8), AD_OK, ""},
    {FP32, IN("r", 0, 8), TWO("r", 0, 8, "r", 8, 4), AD_OK, ""},
};

START_TEST(what_becomes_of)
{
    struct ad_request *request =
        serve(requests[_i].tensor, requests[_i].input, requests[_i].outputs);
    ck_assert_msg(request->error.status == requests[_i].status, "%d: %s",
                  request->error.status, request->error.message);
    ck_assert_msg(strstr(request->error.message, requests[_i].message) != NULL, "%s",
                  request->error.message);
    ad_request_free(request);
}
END_TEST

START_TEST(cut_short_meanwhile)
{
    struct ad_request *request = make(FP32, IN("r", 0, 8), OUT("r", 128, 8));
    ck_assert_int_eq(truncate(path, 130), 0);
    ck_assert_int_eq(ad_serve_decode(&serving, request), AD_INVALID);
    ck_assert_msg(strstr(request->error.message, "has 130 bytes now") != NULL, "%s",
                  request->error.message);
    ad_request_free(request);
    ck_assert_int_eq(truncate(path, SIZE), 0);

    /* between decoding and the answer */
    request = make(FP32, IN("r", 0, 8), OUT("r", 128, 8));
    ck_assert_int_eq(ad_serve_decode(&serving, request), AD_OK);
    ad_regions_unregister(regions, "r");
    ck_assert_int_eq(truncate(path, 0), 0);
    struct ad_requests batch = {NULL, NULL, 0};
    ad_requests_append(&batch, request);
    serving_run(&serving, &batch, &worker);
    ck_assert_int_eq(request->error.status, AD_INVALID);
    ck_assert_msg(strstr(request->error.message, "output 'output': the shared memory "
                                                 "object '/object' has 0 bytes now"),
                  "%s", request->error.message);
    ck_assert_uint_eq(request->reply.size, 0);
    ad_request_free(request);
}
END_TEST

START_TEST(limits)
{
    struct ad_request *request = make(FP32, IN("r", 0, 8), "");
    request->max_input_bytes = 7;
    ck_assert_int_eq(ad_serve_decode(&serving, request), AD_TOO_LARGE);
    ck_assert(strstr(request->error.message, "--http-max-input-size") != NULL);
    ad_request_free(request);

    struct ad_budget budget = {.limit = 15};
    request = make(FP32, IN("r", 0, 8), "");
    request->budget = &budget;
    ck_assert_int_eq(ad_serve_decode(&serving, request), AD_TOO_LARGE);
    ck_assert(strstr(request->error.message, "--queue-memory") != NULL);
    ad_request_free(request);
    budget.limit = 16;
    atomic_store(&budget.total, 9);
    request = make(FP32, IN("r", 0, 8), "");
    request->budget = &budget;
    ck_assert_int_eq(ad_serve_decode(&serving, request), AD_UNAVAILABLE);
    ck_assert_str_eq(request->error.code, "memory");
    ad_request_free(request);
    atomic_store(&budget.total, 0);
    request = make(FP32, IN("r", 0, 8), "");
    request->budget = &budget;
    ck_assert_int_eq(ad_serve_decode(&serving, request), AD_OK);
    ck_assert_uint_eq(budget.total, 8);
    ad_request_free(request);
    ck_assert_uint_eq(budget.total, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shared");
    TCase *tcase = tcase_create("shared");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, in_and_out);
    tcase_add_test(tcase, some_outputs);
    tcase_add_test(tcase, types_and_sizes);
    tcase_add_loop_test(tcase, what_becomes_of, 0, (int)COUNT(requests));
    tcase_add_test(tcase, cut_short_meanwhile);
    tcase_add_test(tcase, limits);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
