/* test_decode.c - good requests: what the decoder makes of them. */
#include "codec/decode.h"
#include "unit/codec/fixture.h"
#include "unit/support.h"

#include <math.h>
#include <stdint.h>

static struct ad_version *version;
static struct ad_request *request;

static void setup(void)
{
    version = fixture_relational();
    request = NULL;
}

static void teardown(void)
{
    ad_request_free(request);
    ad_version_release(version);
}

static void decode_both(const char *json, const void *binary, size_t n_binary)
{
    ad_request_free(request);
    request = fixture_request(version, json, strlen(json), binary, n_binary);
    struct ad_error error = {.status = AD_OK};
    enum ad_status status = ad_decode_infer(request, &error);
    ck_assert_msg(status == AD_OK, "%s: %s", json, error.message);
    ck_assert_int_eq(error.status, AD_OK);
}

static void decode(const char *json)
{
    decode_both(json, "", 0);
}

static const struct attn_tensor *input(const char *name)
{
    for (size_t i = 0; i < request->n_inputs; i++) {
        if (strcmp(request->inputs[i].name, name) == 0) {
            return &request->inputs[i].tensor;
        }
    }
    ck_abort_msg("no input %s", name);
    return NULL;
}

static void check_floats(const char *name, const float *expected, size_t n)
{
    const struct attn_tensor *tensor = input(name);
    size_t count;
    ck_assert_int_eq(tensor->dtype, ATTN_F32);
    ck_assert_int_eq(attn_tensor_count(tensor, &count), ATTN_OK);
    ck_assert_uint_eq(count, n);
    ck_assert_uint_eq((uintptr_t)tensor->data % sizeof(float), 0);
    if (n > 0) {
        ck_assert_mem_eq(tensor->data, expected, n * sizeof(float));
    }
}

START_TEST(test_layouts)
{
    static const char *const data[] = {"[1,2,3,4,5,6]", "[[1,2,3],[4,5,6]]",
                                       " [ [ 1 , 2 , 3 ] , [ 4.0e0,\n5 ,\t6 ] ] ",
                                       "[1.0, 20e-1,3,4,5,6.00]"};
    for (size_t i = 0; i < sizeof data / sizeof *data; i++) {
        char json[256];
        snprintf(
            json, sizeof json,
            "{\"inputs\":[{\"name\":\"queries\",\"datatype\":\"FP32\",\"shape\":[2,3],"
            "\"data\":%s}]}",
            data[i]);
        decode(json);
        check_floats("queries", (const float[]){1, 2, 3, 4, 5, 6}, 6);
        ck_assert_uint_eq(input("queries")->rank, 2);
        ck_assert_uint_eq(input("queries")->shape[1], 3);
    }
}
END_TEST

START_TEST(test_ranks)
{
    static const struct {
        const char *shape, *data;
        size_t n;
    } cases[] = {
        {"[]", "1", 1},
        {"[]", "[1]", 1},
        {"[1]", "[1]", 1},
        {"[1,1,1]", "[[[1]]]", 1},
        {"[1,1,1]", "[1]", 1},
        {"[0]", "[]", 0},
        {"[0,3]", "[]", 0},
        {"[2,0]", "[]", 0},
        {"[2,0]", "[[],[]]", 0},
        {"[2,0,9]", "[[],[]]", 0},
        {"[0,9223372036854775807,9223372036854775807]", "[ ]", 0},
        {"[2,1,1,1,1,1,1,1]", "[[[[[[[[1]]]]]]],[[[[[[[2]]]]]]]]", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[256];
        snprintf(json, sizeof json,
                 "{\"inputs\":[{\"name\":\"keys\",\"datatype\":\"FP32\",\"shape\":%s,"
                 "\"data\":%s}]}",
                 cases[i].shape, cases[i].data);
        decode(json);
        check_floats("keys", (const float[]){1, 2}, cases[i].n);
    }
}
END_TEST

START_TEST(test_datatypes_in_json)
{
    decode("{\"inputs\":["
           "{\"name\":\"values\",\"datatype\":\"FP64\",\"shape\":[2],\"data\":[0.1,-1e-"
           "300]},"
           "{\"name\":\"masked_elements\",\"datatype\":\"BOOL\",\"shape\":[3],"
           "\"data\":[true,false,true]},"
           "{\"name\":\"edges\",\"datatype\":\"INT64\",\"shape\":[1,3],"
           "\"data\":[[-9223372036854775808,0,9223372036854775807]]},"
           "{\"name\":\"edge_types\",\"datatype\":\"INT32\",\"shape\":[2],"
           "\"data\":[-2147483648,2147483647]}]}");
    check_floats("values", (const float[]){0.1f, -0.0f}, 2);
    static const unsigned char flags[3] = {1, 0, 1};
    ck_assert_int_eq(input("masked_elements")->dtype, ATTN_BOOL);
    ck_assert_mem_eq(input("masked_elements")->data, flags, 3);
    static const int64_t edges[3] = {INT64_MIN, 0, INT64_MAX};
    ck_assert_int_eq(input("edges")->dtype, ATTN_I64);
    ck_assert_mem_eq(input("edges")->data, edges, sizeof edges);
    static const int32_t types[2] = {INT32_MIN, INT32_MAX};
    ck_assert_int_eq(input("edge_types")->dtype, ATTN_I32);
    ck_assert_mem_eq(input("edge_types")->data, types, sizeof types);
}
END_TEST

START_TEST(test_binary)
{
    /* one byte of bool first, so that what follows is not aligned */
    static const float floats[3] = {1.5f, NAN, -INFINITY};
    static const double doubles[2] = {0.1, 1e-60};
    static const uint16_t halves[2] = {0x3c00, 0xc000};
    static const int32_t types[2] = {7, -8};
    static const int64_t edges[1] = {INT64_MIN};
    unsigned char binary[64];
    size_t n = 0;
    binary[n++] = 1;
    memcpy(binary + n, floats, sizeof floats);
    n += sizeof floats;
    memcpy(binary + n, doubles, sizeof doubles);
    n += sizeof doubles;
    memcpy(binary + n, halves, sizeof halves);
    n += sizeof halves;
    memcpy(binary + n, types, sizeof types);
    n += sizeof types;
    memcpy(binary + n, edges, sizeof edges);
    n += sizeof edges;
    decode_both("{\"inputs\":["
                "{\"name\":\"masked_elements\",\"datatype\":\"BOOL\",\"shape\":[1],"
                "\"parameters\":{\"binary_data_size\":1}},"
                "{\"name\":\"queries\",\"datatype\":\"FP32\",\"shape\":[3],"
                "\"parameters\":{\"binary_data_size\":12}},"
                "{\"name\":\"keys\",\"datatype\":\"FP64\",\"shape\":[2],"
                "\"parameters\":{\"binary_data_size\":16}},"
                "{\"name\":\"dense_relations_kq\",\"datatype\":\"FP32\",\"shape\":[1],"
                "\"data\":[9]},"
                "{\"name\":\"values\",\"datatype\":\"FP16\",\"shape\":[2],"
                "\"parameters\":{\"binary_data_size\":4}},"
                "{\"name\":\"edge_types\",\"datatype\":\"INT32\",\"shape\":[2],"
                "\"parameters\":{\"binary_data_size\":8}},"
                "{\"name\":\"edges\",\"datatype\":\"INT64\",\"shape\":[1],"
                "\"parameters\":{\"binary_data_size\":8}}]}",
                binary, n);
    check_floats("queries", floats, 3);
    check_floats("keys", (const float[]){0.1f, 0}, 2);
    check_floats("values", (const float[]){1, -2}, 2);
    check_floats("dense_relations_kq", (const float[]){9}, 1);
    ck_assert_int_eq(input("masked_elements")->dtype, ATTN_BOOL);
    ck_assert_int_eq(*(const unsigned char *)input("masked_elements")->data, 1);
    ck_assert_int_eq(input("edge_types")->dtype, ATTN_I32);
    ck_assert_mem_eq(input("edge_types")->data, types, sizeof types);
    ck_assert_int_eq(input("edges")->dtype, ATTN_I64);
    ck_assert_mem_eq(input("edges")->data, edges, sizeof edges);
}
END_TEST

START_TEST(test_binary_is_viewed_when_aligned)
{
    char json[256];
    int n =
        snprintf(json, sizeof json,
                 "{\"inputs\":[{\"name\":\"keys\",\"datatype\":\"FP32\",\"shape\":[2],"
                 "\"parameters\":{\"binary_data_size\":8}}]}");
    static const float floats[2] = {1, 2};
    for (int spaces = 0; spaces < 4; spaces++) {
        decode_both(json, floats, sizeof floats);
        check_floats("keys", floats, 2);
        const char *bytes = request->body.data + n;
        bool viewed = (uintptr_t)bytes % 4 == 0;
        ck_assert_int_eq(input("keys")->data == (const void *)bytes, viewed);
        json[n++] = ' ';
        json[n] = '\0';
    }
}
END_TEST

START_TEST(test_empty_binary)
{
    decode("{\"inputs\":[{\"name\":\"keys\",\"datatype\":\"FP32\",\"shape\":[0,4],"
           "\"parameters\":{\"binary_data_size\":0}},"
           "{\"name\":\"values\",\"datatype\":\"FP64\",\"shape\":[0],"
           "\"parameters\":{\"binary_data_size\":0}},"
           "{\"name\":\"edges\",\"datatype\":\"INT64\",\"shape\":[0,3],"
           "\"parameters\":{\"binary_data_size\":0}}]}");
    ck_assert_uint_eq(request->n_inputs, 3);
    check_floats("keys", NULL, 0);
}
END_TEST

START_TEST(test_wishes)
{
    decode("{\"inputs\":[]}");
    ck_assert_ptr_null(request->id);
    ck_assert_uint_eq(request->n_wanted, 0);
    ck_assert(!request->binary_default);
    ck_assert_int_eq(request->nonfinite, AD_NONFINITE_ERROR);

    decode("{\"id\":\"\",\"outputs\":[],\"inputs\":[],\"parameters\":"
           "{\"nonfinite\":\"null\"},\"model_name\":[{\"x\":null}]}");
    ck_assert_ptr_null(request->id);
    ck_assert_uint_eq(request->n_wanted, 0);
    ck_assert_int_eq(request->nonfinite, AD_NONFINITE_NULL);

    decode("{\"id\":\"\\u00e9\\\"1\",\"inputs\":[],\"outputs\":["
           "{\"name\":\"attention\",\"parameters\":{\"binary_data\":false}},"
           "{\"name\":\"output\"}],"
           "\"parameters\":{\"binary_data_output\":true,\"nonfinite\":\"literal\"}}");
    ck_assert_str_eq(request->id, "\xc3\xa9\"1");
    ck_assert_uint_eq(request->n_wanted, 2);
    ck_assert_str_eq(request->wanted[0].name, "attention");
    ck_assert(!request->wanted[0].binary && request->wanted[1].binary);
    ck_assert(request->binary_default);
    ck_assert_int_eq(request->nonfinite, AD_NONFINITE_LITERAL);
}
END_TEST

START_TEST(test_harmless_parameters)
{
    decode("{\"inputs\":[],\"parameters\":{\"timeout\":5,\"priority\":1,\"x\":\"y\","
           "\"z\":1.5,"
           "\"training\":false,\"seed\":3,\"sequence_id\":0,\"sequence_start\":false,"
           "\"sequence_end\":false,\"sequence_fork\":\"\",\"nonfinite\":\"error\"}}");
    decode("{\"inputs\":[{\"name\":\"keys\",\"datatype\":\"FP32\",\"shape\":[1],\"data\":"
           "[1],"
           "\"parameters\":{\"y\":true}}],\"outputs\":[{\"name\":\"output\","
           "\"parameters\":{\"w\":\"v\"}}]}");
    ck_assert(!request->wanted[0].binary);
}
END_TEST

START_TEST(test_escaped_names)
{
    decode(
        "{\"inputs\":[{\"\\u006eame\":\"k\\u0065ys\",\"datatype\":\"FP32\",\"shape\":[1],"
        "\"dat\\u0061\":[4]}]}");
    check_floats("keys", (const float[]){4}, 1);
}
END_TEST

/* A short body must not make the decoder ask for much memory. */
START_TEST(test_large_data)
{
    size_t n = 20000, size = n * 8 + 256, at;
    char *json = malloc(size);
    at = (size_t)snprintf(
        json, size,
        "{\"inputs\":[{\"name\":\"keys\",\"datatype\":\"FP32\",\"shape\":"
        "[%zu],\"data\":[",
        n);
    for (size_t i = 0; i < n; i++) {
        at += (size_t)snprintf(json + at, size - at, "%s%zu", i ? "," : "", i);
    }
    snprintf(json + at, size - at, "]}]}");
    decode(json);
    const float *floats = input("keys")->data;
    for (size_t i = 0; i < n; i++) {
        ck_assert(floats[i] == (float)i);
    }
    ck_assert_uint_lt(request->arena.total, n * sizeof(float) + 65536);
    free(json);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("decode");
    TCase *tcase = tcase_create("decode");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_layouts);
    tcase_add_test(tcase, test_ranks);
    tcase_add_test(tcase, test_datatypes_in_json);
    tcase_add_test(tcase, test_binary);
    tcase_add_test(tcase, test_binary_is_viewed_when_aligned);
    tcase_add_test(tcase, test_empty_binary);
    tcase_add_test(tcase, test_wishes);
    tcase_add_test(tcase, test_harmless_parameters);
    tcase_add_test(tcase, test_escaped_names);
    tcase_add_test(tcase, test_large_data);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
