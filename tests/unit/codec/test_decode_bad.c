/* test_decode_bad.c - bad requests: the status, and that the message names what is wrong. */
#include "codec/decode.h"
#include "unit/codec/fixture.h"
#include "unit/support.h"

#include <stdint.h>

static struct ad_version *version;

static void setup(void)
{
    version = fixture_relational();
}

static void teardown(void)
{
    ad_version_release(version);
}

struct bad {
    const char *json; /* or what stands for the part that is tested */
    enum ad_status status;
    const char *message; /* part of it */
};

static void check_bad(const char *json, const void *binary, size_t n_binary,
                      const struct bad *bad)
{
    struct ad_request *request =
        fixture_request(version, json, strlen(json), binary, n_binary);
    struct ad_error error = {.status = AD_OK};
    enum ad_status status = ad_decode_infer(request, &error);
    ck_assert_msg(status == bad->status, "%s: status %d, %s", json, status,
                  error.message);
    ck_assert_int_eq(error.status, status);
    ck_assert_msg(strstr(error.message, bad->message) != NULL, "%s: %s", json,
                  error.message);
    ad_request_free(request);
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

START_TEST(test_envelope)
{
    static const struct bad cases[] = {
        {"", AD_INVALID, "the body is empty"},
        {"not json", AD_INVALID, "expected a JSON object, got 'n'"},
        {"{\"inputs\":[]}x", AD_INVALID, "offset 13: expected nothing after"},
        {"{}", AD_INVALID, "inputs must be a list, got nothing"},
        {"{\"inputs\":{}}", AD_INVALID, "inputs must be a list, got an object"},
        {"{\"inputs\":null}", AD_INVALID, "inputs must be a list, got null"},
        {"{\"inputs\":[3]}", AD_INVALID, "inputs[0] must be an object, got an integer"},
        {"{\"inputs\":[],\"inputs\":[]}", AD_INVALID, "duplicate object key"},
        {"{\"id\":3,\"inputs\":[]}", AD_INVALID, "id must be a string, got an integer"},
        {"{\"id\":null,\"inputs\":[]}", AD_INVALID, "id must be a string, got null"},
        {"{\"outputs\":{},\"inputs\":[]}", AD_INVALID, "outputs must be a list"},
        {"{\"outputs\":[\"a\"],\"inputs\":[]}", AD_INVALID,
         "outputs[0] must be an object"},
        {"{\"outputs\":[{}],\"inputs\":[]}", AD_INVALID,
         "outputs[0].name must be a string"},
        {"{\"outputs\":[{\"name\":\"out\"}],\"inputs\":[]}", AD_INVALID,
         "unknown output 'out'; model 'relations' has output, attention"},
        {"{\"outputs\":[{\"name\":\"output\"},{\"name\":\"output\"}],\"inputs\":[]}",
         AD_INVALID, "outputs[1]: output 'output' is listed twice"},
        {"{\"outputs\":[{\"name\":\"output\",\"parameters\":[]}],\"inputs\":[]}",
         AD_INVALID, "output 'output': parameters must be an object"},
        {"{\"outputs\":[{\"name\":\"output\",\"parameters\":{\"binary_data\":1}}],"
         "\"inputs\":[]}",
         AD_INVALID, "output 'output': parameter binary_data must be a boolean"},
        {"{\"outputs\":[{\"name\":\"output\",\"parameters\":{\"classification\":3}}],"
         "\"inputs\":[]}",
         AD_UNSUPPORTED, "output 'output': parameter classification"},
        {"{\"outputs\":[{\"name\":\"output\",\"parameters\":"
         "{\"shared_memory_region\":\"r\"}}],\"inputs\":[]}",
         AD_UNSUPPORTED, "shared memory"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        check_bad(cases[i].json, "", 0, &cases[i]);
    }
}
END_TEST

START_TEST(test_parameters)
{
    static const struct bad cases[] = {
        {"[]", AD_INVALID, "parameters must be an object, got a list"},
        {"{\"x\":null}", AD_INVALID,
         "parameter x must be a string, a number or a boolean"},
        {"{\"x\":{}}", AD_INVALID, "got an object"},
        {"{\"x\":[1]}", AD_INVALID, "got a list"},
        {"{\"triton_x\":1}", AD_INVALID, "triton_x: names that begin with triton_"},
        {"{\"binary_data_output\":\"true\"}", AD_INVALID,
         "must be a boolean, got a string"},
        {"{\"nonfinite\":true}", AD_INVALID, "nonfinite must be \"error\""},
        {"{\"nonfinite\":\"zero\"}", AD_INVALID, "got \"zero\""},
        {"{\"training\":1}", AD_INVALID, "training must be a boolean"},
        {"{\"training\":null}", AD_INVALID, "training must be"},
        {"{\"samples\":4}", AD_INVALID,
         "parameter samples needs parameter training to be true"},
        {"{\"samples\":4,\"training\":false}", AD_INVALID,
         "parameter samples needs parameter training to be true"},
        {"{\"training\":true,\"samples\":\"4\"}", AD_INVALID,
         "parameter samples must be an integer, got a string"},
        {"{\"training\":true,\"samples\":4.0}", AD_INVALID,
         "parameter samples must be an integer, got a number with a fraction"},
        {"{\"training\":true,\"samples\":0}", AD_INVALID,
         "parameter samples must be 1 to 1024, got 0"},
        {"{\"training\":true,\"samples\":1025}", AD_INVALID,
         "parameter samples must be 1 to 1024, got 1025"},
        {"{\"training\":true,\"samples\":-9223372036854775808}", AD_INVALID,
         "parameter samples must be 1 to 1024, got -9223372036854775808"},
        {"{\"seed\":1.5}", AD_INVALID, "seed must be an integer"},
        {"{\"seed\":true}", AD_INVALID, "seed must be an integer, got true"},
        {"{\"seed\":-1}", AD_INVALID, "parameter seed must not be negative, got -1"},
        {"{\"seed\":9223372036854775808}", AD_INVALID, "9223372036854775808 is beyond"},
        {"{\"gradient_reduction\":1}", AD_INVALID,
         "gradient_reduction must be \"mean\" or \"sum\", got an integer"},
        {"{\"gradient_reduction\":\"max\"}", AD_INVALID,
         "parameter gradient_reduction must be \"mean\" or \"sum\", got \"max\""},
        {"{\"sequence_id\":true}", AD_INVALID,
         "sequence_id must be an integer or a string"},
        {"{\"sequence_fork\":\"s\"}", AD_INVALID, "sequence_fork needs"},
        {"{\"sequence_start\":1}", AD_INVALID, "sequence_start must be a boolean"},
        {"{\"a\":1,\"a\":2}", AD_INVALID, "invalid JSON at offset"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char json[256];
        snprintf(json, sizeof json, "{\"inputs\":[],\"parameters\":%s}", cases[i].json);
        check_bad(json, "", 0, &cases[i]);
    }
}
END_TEST

/* Position in the body, not in the envelope. */
START_TEST(test_duplicate_position)
{
    const struct bad bad = {"", AD_INVALID, "offset 105: duplicate object key"};
    check_bad(
        "{\"inputs\":[{\"name\":\"keys\",\"shape\":[20],\"data\":[1,2,3,4,5,6,7,8,9,10,"
        "11,12,13,14,15,16,17,18,19,20],\"name\":\"b\"}]}",
        "", 0, &bad);
}
END_TEST

START_TEST(test_input_object)
{
    static const struct bad cases[] = {
        {"{}", AD_INVALID, "inputs[0].name must be a string, got nothing"},
        {"{\"name\":5}", AD_INVALID, "inputs[0].name must be a string, got an integer"},
        {"{\"name\":\"query\"}", AD_INVALID,
         "unknown input 'query'; model 'relations' takes queries, keys, values"},
        {"{\"name\":\"keys\"}", AD_INVALID, "input 'keys': datatype must be a string"},
        {"{\"name\":\"keys\",\"datatype\":\"F32\"}", AD_INVALID,
         "input 'keys': unknown datatype 'F32': expected FP32"},
        {"{\"name\":\"keys\",\"datatype\":\"INT8\"}", AD_INVALID,
         "input 'keys': wrong datatype: expected FP32, FP64, FP16 or BF16, got INT8"},
        {"{\"name\":\"keys\",\"datatype\":\"BYTES\"}", AD_INVALID,
         "wrong datatype: expected FP32, FP64, FP16 or BF16, got BYTES"},
        {"{\"name\":\"masked_elements\",\"datatype\":\"UINT8\"}", AD_INVALID,
         "expected BOOL, got UINT8"},
        {"{\"name\":\"edges\",\"datatype\":\"FP32\"}", AD_INVALID,
         "expected INT64 or INT32, got FP32"},
        {"{\"name\":\"keys\",\"datatype\":\"FP32\"}", AD_INVALID,
         "input 'keys': shape must be a list, got nothing"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char json[256];
        snprintf(json, sizeof json, "{\"inputs\":[%s]}", cases[i].json);
        check_bad(json, "", 0, &cases[i]);
    }
}
END_TEST

START_TEST(test_shapes)
{
    static const struct bad cases[] = {
        {"2", AD_INVALID, "shape must be a list, got an integer"},
        {"[-1,4]", AD_INVALID, "shape[0] must not be negative, got -1"},
        {"[4,1.5]", AD_INVALID, "shape[1] must be an integer, got 1.5"},
        {"[2.0]", AD_INVALID, "shape[0] must be an integer, got 2"},
        {"[\"2\"]", AD_INVALID, "shape[0] must be an integer, got a string"},
        {"[null]", AD_INVALID, "shape[0] must be an integer, got null"},
        {"[[1]]", AD_INVALID, "shape[0] must be an integer, got a list"},
        {"[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", AD_INVALID,
         "shape has 20 dimensions, expected at most 8"},
        {"[4294967296,4294967296]", AD_INVALID, "more elements than memory can hold"},
        {"[9223372036854775807,4]", AD_INVALID, "more elements than memory can hold"},
        {"[9223372036854775808]", AD_INVALID,
         "(inputs[0].shape[0]): 9223372036854775808 is beyond the range of 64-bit"},
        {"[1e3]", AD_INVALID, "shape[0] must be an integer, got 1000"},
        {"[1000000000000]", AD_INVALID, "needs 1000000000000 elements, data has 2"},
        {"[3]", AD_INVALID, "shape [3] needs 3 elements, data has 2"},
        {"[1]", AD_INVALID, "shape [1] needs 1 element, data has 2"},
        {"[]", AD_INVALID, "shape [] needs 1 element, data has 2"},
        {"[0]", AD_INVALID, "shape [0] needs 0 elements, data has 2"},
        {"[2,0]", AD_INVALID, "shape [2,0] needs 0 elements, data has 2"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char json[256];
        snprintf(json, sizeof json,
                 "{\"inputs\":[{\"name\":\"keys\",\"datatype\":\"FP32\",\"shape\":%s,"
                 "\"data\":[1,2]}]}",
                 cases[i].json);
        check_bad(json, "", 0, &cases[i]);
    }
}
END_TEST

static void check_data(const char *name, const char *datatype, const char *shape,
                       const struct bad *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char json[1024];
        snprintf(json, sizeof json,
                 "{\"inputs\":[{\"name\":\"%s\",\"datatype\":\"%s\",\"shape\":%s,"
                 "\"data\":%s}]}",
                 name, datatype, shape, cases[i].json);
        check_bad(json, "", 0, &cases[i]);
    }
}

START_TEST(test_data)
{
    static const struct bad cases[] = {
        {"null", AD_INVALID, "data must be a list of 4, got null"},
        {"\"abcd\"", AD_INVALID, "data must be a list of 4, got a string"},
        {"{\"a\":[1,2,3,4]}", AD_INVALID, "data must be a list of 4, got an object"},
        {"1234567", AD_INVALID, "data must be a list of 4, got a number"},
        {"[1,2,3]", AD_INVALID, "shape [2,2] needs 4 elements, data has 3"},
        {"[1,2,3,4,5,6]", AD_INVALID, "shape [2,2] needs 4 elements, data has 6"},
        {"[]", AD_INVALID, "needs 4 elements, data has 0"},
        {"[[1,2],[3]]", AD_INVALID, "data[1] must have length 2 (shape [2,2]), got 1"},
        {"[[1,2,3],[4]]", AD_INVALID,
         "data[0] must have length 2 (shape [2,2]), got more"},
        {"[[1,2]]      ", AD_INVALID, "data must have length 2 (shape [2,2]), got 1"},
        {"[[1,2],[3,4],[5,6]]", AD_INVALID,
         "data must have length 2 (shape [2,2]), got more"},
        {"[[1,2],3,4]", AD_INVALID, "data[1] must be a list of 2, got a number"},
        {"[1,2,[3,4]]", AD_INVALID, "data[2] is a list, nested deeper than shape [2,2]"},
        {"[[[1,2],[3,4]]]", AD_INVALID, "data[0][0] is a list, nested deeper"},
        {"[1,2,null,4]", AD_INVALID, "data[2] must be a number (FP32), got null"},
        {"[1,\"2\",3,4]", AD_INVALID, "data[1] must be a number (FP32), got a string"},
        {"[1,{},3,4]", AD_INVALID, "data[1] must be a number (FP32), got an object"},
        {"[true,1,2,3]", AD_INVALID, "data[0] must be a number (FP32), got a boolean"},
        {"[[1,2],[NaN,4]]", AD_INVALID, "data[1][0] is NaN, which JSON does not have"},
        {"[1,2,3,Infinity]", AD_INVALID, "data[3] is Infinity, which JSON does not"},
        {"[1,2,3,-Infinity]", AD_INVALID, "data[3] is -Infinity, which JSON does not"},
        {"[1,2,3,1e39]", AD_INVALID, "data[3] is beyond the range of FP32: 1e39"},
        {"[1,2,3,-01]", AD_INVALID, "data[3] is not a JSON number: '-01'"},
        {"[1.,2,3,4]", AD_INVALID, "data[0] is not a JSON number: '1.'"},
        {"[.5,2,3,4]", AD_INVALID, "data[0] must be a number (FP32), got something"},
        {"[+1,2,3,4]", AD_INVALID, "data[0] must be a number"},
        {"[0x10,2,3,4]", AD_INVALID, "data[0] is not a JSON number: '0x10'"},
        {"[1 2,3,4]", AD_INVALID, "data[0]: expected ',' or ']' behind it, got a number"},
        {"[1,2,3,4", AD_INVALID, "(inputs[0].data): expected ',' or '}', got ']'"},
        {"[1,2,3,4}", AD_INVALID, "data[3]: expected ',' or ']' behind it"},
        {"[1,,3,4]", AD_INVALID, "data[1] must be a number (FP32), got nothing"},
        {"[1,2,3,4,]", AD_INVALID, "data has 4"},
        {"[1,2,3,]", AD_INVALID, "data[3] must be a number (FP32), got nothing"},
        {"[1,2,3,4]]", AD_INVALID, "expected ',' or '}', got ']'"},
        {"[[1,2],[3,4]", AD_INVALID, "expected ',' or '}', got ']'"},
    };
    check_data("keys", "FP32", "[2,2]", cases, COUNT(cases));
}
END_TEST

START_TEST(test_data_of_other_types)
{
    static const struct bad doubles[] = {
        {"[1e39]", AD_INVALID,
         "input 'keys': data[0] is beyond the range of FP32, in which"},
        {"[1e309]", AD_INVALID, "data[0] is beyond the range"},
    };
    check_data("keys", "FP64", "[1]", doubles, COUNT(doubles));
    static const struct bad halves[] = {
        {"[1]", AD_INVALID,
         "input 'keys': receiving FP16 data via JSON is not supported"},
    };
    check_data("keys", "FP16", "[1]", halves, COUNT(halves));
    static const struct bad booleans[] = {
        {"[1,0]", AD_INVALID, "data[0] must be true or false (BOOL), got a number"},
        {"[true,\"x\"]", AD_INVALID,
         "data[1] must be true or false (BOOL), got a string"},
        {"[true,falsex]", AD_INVALID, "data[1]: expected ',' or ']' behind it"},
        {"[true,tru]", AD_INVALID, "data[1] must be true or false"},
    };
    check_data("masked_elements", "BOOL", "[2]", booleans, COUNT(booleans));
    static const struct bad wide[] = {
        {"[1.0]", AD_INVALID, "data[0] must be an integer (INT64), got 1.0"},
        {"[1e2]", AD_INVALID, "data[0] must be an integer (INT64), got 1e2"},
        {"[true]", AD_INVALID, "data[0] must be an integer (INT64), got a boolean"},
        {"[9223372036854775808]", AD_INVALID, "beyond the range of INT64"},
    };
    check_data("edges", "INT64", "[1]", wide, COUNT(wide));
    static const struct bad narrow[] = {
        {"[2147483648]", AD_INVALID, "data[0] is beyond the range of INT32: 2147483648"},
    };
    check_data("edges", "INT32", "[1]", narrow, COUNT(narrow));
    static const struct bad scalars[] = {
        {"[]", AD_INVALID, "shape [] needs 1 element, data has 0"},
        {"[[1]]", AD_INVALID, "nested deeper than shape []"},
        {"\"x\"", AD_INVALID, "input 'keys': data must be a number (FP32), got a string"},
        {"1[2]", AD_INVALID, "data is not a JSON number: '1[2'"},
    };
    check_data("keys", "FP32", "[]", scalars, COUNT(scalars));
}
END_TEST

START_TEST(test_sources)
{
    static const struct bad cases[] = {
        {"\"x\":1", AD_INVALID,
         "expected data or parameter binary_data_size, got neither"},
        {"\"data\":[1,2],\"data\":[1,2]", AD_INVALID, "duplicate member"},
        {"\"data\":[1,2],\"parameters\":{\"binary_data_size\":8}", AD_INVALID,
         "got both"},
        {"\"parameters\":{\"binary_data_size\":\"8\"}", AD_INVALID,
         "input 'keys': parameter binary_data_size must be an integer, got a string"},
        {"\"parameters\":{\"binary_data_size\":-8}", AD_INVALID, "must not be negative"},
        {"\"parameters\":{\"binary_data_size\":12}", AD_INVALID,
         "input 'keys': binary_data_size must be 8 (FP32, shape [2]), got 12"},
        {"\"parameters\":{\"shared_memory_region\":\"r\"}", AD_UNSUPPORTED,
         "input 'keys': parameter shared_memory_region: shared memory is not offered "
         "(--allow-client-shm)"},
        {"\"parameters\":{\"shared_memory_offset\":0}", AD_UNSUPPORTED, "not offered"},
        {"\"parameters\":{\"shared_memory_byte_size\":8}", AD_UNSUPPORTED, "not offered"},
        {"\"data\":[1,2],\"parameters\":null", AD_INVALID, "must be an object, got null"},
        {"\"data\":[1,2]},{\"name\":\"keys\",\"datatype\":\"FP32\",\"shape\":[0],"
         "\"data\":[]",
         AD_INVALID, "inputs[1]: input 'keys' is given twice"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char json[256];
        snprintf(
            json, sizeof json,
            "{\"inputs\":[{\"name\":\"keys\",\"datatype\":\"FP32\",\"shape\":[2],%s}]}",
            cases[i].json);
        check_bad(json, "", 0, &cases[i]);
    }
}
END_TEST

START_TEST(test_binary)
{
    const char *json =
        "{\"inputs\":[{\"name\":\"keys\",\"datatype\":\"FP32\",\"shape\":[2],"
        "\"parameters\":{\"binary_data_size\":8}}]}";
    static const struct bad cases[] = {
        {"", AD_INVALID,
         "unexpected size for input 'keys', expecting 8 additional bytes for model "
         "'relations'"},
        {"12345", AD_INVALID, "expecting 3 additional bytes"},
        {"123456789", AD_INVALID,
         "unexpected additional input data for model 'relations'"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        check_bad(json, cases[i].json, strlen(cases[i].json), &cases[i]);
    }
    const struct bad left_over = {"", AD_INVALID, "unexpected additional input data"};
    check_bad("{\"inputs\":[]}", "x", 1, &left_over);
    const struct bad raw = {"", AD_INVALID, "expected a JSON object"};
    check_bad("", "12345678", 8, &raw);
}
END_TEST

START_TEST(test_binary_elements)
{
    static const double doubles[2] = {1, 1e39};
    const struct bad range = {"", AD_INVALID, "input 'keys': element 1 (FP64) is beyond"};
    check_bad("{\"inputs\":[{\"name\":\"keys\",\"datatype\":\"FP64\",\"shape\":[2],"
              "\"parameters\":{\"binary_data_size\":16}}]}",
              doubles, sizeof doubles, &range);
    const struct bad flag = {"", AD_INVALID,
                             "input 'masked_elements': element 2 must be 0 or 1 (BOOL), "
                             "got byte 2"};
    check_bad("{\"inputs\":[{\"name\":\"masked_elements\",\"datatype\":\"BOOL\","
              "\"shape\":[3],\"parameters\":{\"binary_data_size\":3}}]}",
              "\0\1\2", 3, &flag);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bad requests");
    TCase *tcase = tcase_create("bad requests");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_envelope);
    tcase_add_test(tcase, test_parameters);
    tcase_add_test(tcase, test_duplicate_position);
    tcase_add_test(tcase, test_input_object);
    tcase_add_test(tcase, test_shapes);
    tcase_add_test(tcase, test_data);
    tcase_add_test(tcase, test_data_of_other_types);
    tcase_add_test(tcase, test_sources);
    tcase_add_test(tcase, test_binary);
    tcase_add_test(tcase, test_binary_elements);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
