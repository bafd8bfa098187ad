/* Is the JSON that we write valid whatever text is in it, and the body of an index
 * request read strictly? */
#include "http/json_writer.h"

#include "http/describe.h"
#include "http/index_request.h"
#include "http/reply.h"
#include "unit/support.h"

#include <stdint.h>
#include <string.h>

START_TEST(nesting_and_commas)
{
    struct ad_buffer out;
    ad_buffer_init(&out);
    struct ad_json json = ad_json_to(&out);
    ad_json_open(&json, '{');
    ad_json_string_member(&json, "a", "x");
    ad_json_key(&json, "b");
    ad_json_open(&json, '[');
    ad_json_integer(&json, INT64_MIN);
    ad_json_integer(&json, INT64_MAX);
    ad_json_open(&json, '[');
    ad_json_close(&json, ']');
    ad_json_open(&json, '{');
    ad_json_close(&json, '}');
    ad_json_bool(&json, true);
    ad_json_close(&json, ']');
    ad_json_bool_member(&json, "c", false);
    ad_json_close(&json, '}');
    ck_assert(ad_json_ok(&json));
    ck_assert_str_eq(out.data, "{\"a\":\"x\",\"b\":[-9223372036854775808,"
                               "9223372036854775807,[],{},true],\"c\":false}");
    ad_buffer_reset(&out);
}
END_TEST

static const struct {
    const char *text;
    const char *json;
} strings[] = {
    {"", "\"\""},
    {"plain", "\"plain\""},
    {"a\"b\\c/", "\"a\\\"b\\\\c/\""},
    {"\n\t\r\b\x01\x1f\x7f", "\"\\u000a\\u0009\\u000d\\u0008\\u0001\\u001f\\u007f\""},
    {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\""},
    {"\xc2\x85\xe2\x80\xa9\xe2\x81\xa6", "\"\\u0085\\u2029\\u2066\""},
    {"\xff", "\"\xef\xbf\xbd\""},
    {"a\xc3", "\"a\xef\xbf\xbd\""},
    {"\xc0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\""},
};

START_TEST(string_escapes)
{
    struct ad_buffer out;
    ad_buffer_init(&out);
    struct ad_json json = ad_json_to(&out);
    ad_json_string(&json, strings[_i].text);
    ck_assert(ad_json_ok(&json));
    ck_assert_str_eq(out.data, strings[_i].json);
    ad_buffer_reset(&out);
}
END_TEST

static const struct {
    const char *text;
    bool good;
    bool ready_only;
} index_bodies[] = {
    {"", true, false},
    {" \r\n", true, false},
    {"{}", true, false},
    {" { } ", true, false},
    {"{\"ready\":true}", true, true},
    {"{\"ready\":false}", true, false},
    {"\t{ \"ready\" : true }\n", true, true},
    {"{", false, false},
    {"}", false, false},
    {"{}}", false, false},
    {"{}{}", false, false},
    {"[]", false, false},
    {"null", false, false},
    {"true", false, false},
    {"{\"ready\"}", false, false},
    {"{\"ready\":}", false, false},
    {"{\"ready\":1}", false, false},
    {"{\"ready\":\"true\"}", false, false},
    {"{\"ready\":truetrue}", false, false},
    {"{\"ready\":tru", false, false},
    {"{\"ready\":true", false, false},
    {"{\"ready\":true,}", false, false},
    {"{\"ready\":true,\"ready\":true}", false, false},
    {"{\"other\":true}", false, false},
    {"{ready:true}", false, false},
};

START_TEST(index_body)
{
    struct ad_error error = {.status = AD_OK};
    bool ready_only = true;
    const char *text = index_bodies[_i].text;
    enum ad_status status =
        ad_index_request_parse(text, strlen(text), &ready_only, &error);
    ck_assert_int_eq(status, index_bodies[_i].good ? AD_OK : AD_INVALID);
    if (index_bodies[_i].good) {
        ck_assert_int_eq(ready_only, index_bodies[_i].ready_only);
    }
}
END_TEST

START_TEST(index_body_is_not_a_string)
{
    bool ready_only = true;
    ck_assert_int_eq(ad_index_request_parse(NULL, 0, &ready_only, NULL), AD_OK);
    ck_assert(!ready_only);
    ck_assert_int_eq(ad_index_request_parse("{}x", 2, &ready_only, NULL), AD_OK);
    ck_assert_int_eq(ad_index_request_parse("{}\0", 3, &ready_only, NULL), AD_INVALID);
    ck_assert_int_eq(ad_index_request_parse("\0", 1, &ready_only, NULL), AD_INVALID);
}
END_TEST

static void check_index(const struct ad_view *view, bool ready_only, const char *expected)
{
    struct ad_buffer out;
    ad_buffer_init(&out);
    struct ad_json json = ad_json_to(&out);
    ad_describe_index(&json, view, ready_only);
    ck_assert_str_eq(out.data, expected);
    ad_buffer_reset(&out);
}

START_TEST(index_of_models)
{
    struct ad_view_version versions[] = {
        {.text = "1",
         .state = AD_VERSION_UNAVAILABLE,
         .reason = (char[]){"bad \"file\""}},
        {.text = "20", .state = AD_VERSION_READY},
        {.text = "21", .state = AD_VERSION_LOADING},
        {.text = "22", .state = AD_VERSION_UNLOADING, .reason = (char[]){"unloaded"}}};
    struct ad_view_model models[] = {
        {.name = (char[]){"a"},
         .state = AD_VERSION_UNAVAILABLE,
         .reason = (char[]){"no config.json"}},
        {.name = (char[]){"b"}, .versions = versions, .n_versions = 4},
        {.name = (char[]){"c"}, .state = AD_VERSION_UNAVAILABLE},
        {.name = (char[]){"d"}, .state = AD_VERSION_LOADING}};
    const struct ad_view view = {models, 4};
    check_index(
        &view, false,
        "[{\"name\":\"a\",\"version\":\"\",\"state\":\"UNAVAILABLE\","
        "\"reason\":\"no config.json\"},"
        "{\"name\":\"b\",\"version\":\"1\",\"state\":\"UNAVAILABLE\","
        "\"reason\":\"bad \\\"file\\\"\"},"
        "{\"name\":\"b\",\"version\":\"20\",\"state\":\"READY\",\"reason\":\"\"},"
        "{\"name\":\"b\",\"version\":\"21\",\"state\":\"LOADING\","
        "\"reason\":\"\"},"
        "{\"name\":\"b\",\"version\":\"22\",\"state\":\"UNLOADING\","
        "\"reason\":\"unloaded\"},"
        "{\"name\":\"c\"},"
        "{\"name\":\"d\",\"version\":\"\",\"state\":\"LOADING\",\"reason\":\"\"}]");
    check_index(
        &view, true,
        "[{\"name\":\"b\",\"version\":\"20\",\"state\":\"READY\",\"reason\":\"\"}]");
}
END_TEST

START_TEST(metadata_of_a_version)
{
    const struct ad_version version = {
        .model = (char[]){"m"},
        .text = "3",
        .inputs = {{.name = "q", .dtype = ATTN_F32, .rank = 2, .shape = {-1, 8}},
                   {.name = "mask", .dtype = ATTN_BOOL, .optional = true}},
        .n_inputs = 2,
        .outputs = {{.name = "o", .dtype = ATTN_I64, .rank = 1, .shape = {4}}},
        .n_outputs = 1};
    struct ad_view_version versions[] = {{.text = "3", .state = AD_VERSION_READY},
                                         {.text = "4", .state = AD_VERSION_UNAVAILABLE}};
    struct ad_view_model model = {
        .name = version.model, .versions = versions, .n_versions = 2};
    const struct ad_view view = {&model, 1};
    struct ad_buffer out;
    ad_buffer_init(&out);
    struct ad_json json = ad_json_to(&out);
    ad_describe_metadata(&json, &view, &version);
    ck_assert_str_eq(
        out.data,
        "{\"name\":\"m\",\"versions\":[\"3\"],\"platform\":\"attentiond\",\"inputs\":["
        "{\"name\":\"q\",\"datatype\":\"FP32\",\"shape\":[-1,8]},"
        "{\"name\":\"mask\",\"datatype\":\"BOOL\",\"shape\":[],\"optional\":true}],"
        "\"outputs\":[{\"name\":\"o\",\"datatype\":\"INT64\",\"shape\":[4]}]}");
    ad_buffer_reset(&out);
}
END_TEST

START_TEST(config_of_a_version)
{
    const struct attn_option options[] = {attn_bool("use_tanh", true)};
    struct attn_spec spec = {.size = sizeof spec};
    struct ad_version version = {
        .model = (char[]){"m"},
        .text = "3",
        .settings = {.max_batch_rows = 5,
                     .max_batch_requests = 6,
                     .max_queue_delay_us = 7,
                     .max_queue_size = 8,
                     .n_priorities = 4,
                     .default_priority = 2,
                     .default_timeout_us = 9},
        .config = (char[]){"{\"version_policy\":{\"all\":{}}}"},
        .inputs = {{.name = "q", .dtype = ATTN_F32, .rank = 2, .shape = {-1, 8}}},
        .n_inputs = 1};
    ck_assert_int_eq(attn_spec_preset(&spec, "routing_score", options, 1, NULL), ATTN_OK);
    ck_assert_int_eq(attn_layer_create(&spec, NULL, &version.layer, NULL), ATTN_OK);
    struct ad_buffer out;
    ad_buffer_init(&out);
    struct ad_json json = ad_json_to(&out);
    ad_describe_config(&json, &version);
    ck_assert_str_eq(
        out.data,
        "{\"name\":\"m\",\"platform\":\"attentiond\",\"backend\":\"attentiond\","
        "\"version_policy\":{\"all\":{}},\"max_batch_size\":0,"
        "\"input\":[{\"name\":\"q\",\"data_type\":\"TYPE_FP32\",\"dims\":[-1,8]}],"
        "\"output\":[],\"instance_group\":[{\"name\":\"m\",\"kind\":\"KIND_CPU\","
        "\"count\":1}],\"dynamic_batching\":{\"preferred_batch_size\":[],"
        "\"max_queue_delay_microseconds\":7,\"priority_levels\":4,"
        "\"default_priority_level\":2,\"default_queue_policy\":{"
        "\"timeout_action\":\"REJECT\",\"default_timeout_microseconds\":9,"
        "\"allow_timeout_override\":true,\"max_queue_size\":8},"
        "\"max_batch_rows\":5,\"max_batch_requests\":6},"
        "\"parameters\":{\"kind\":{\"string_value\":\"routing_score\"}}}");
    ad_buffer_reset(&out);
    attn_layer_free(version.layer);
}
END_TEST

START_TEST(error_reply)
{
    static const unsigned codes[] = {
        [AD_OK] = 200,           [AD_INVALID] = 400,   [AD_UNAUTHORIZED] = 401,
        [AD_FORBIDDEN] = 403,    [AD_NOT_FOUND] = 404, [AD_METHOD] = 405,
        [AD_CONFLICT] = 409,     [AD_TOO_LARGE] = 413, [AD_HEADERS_TOO_LARGE] = 431,
        [AD_RATE_LIMITED] = 429, [AD_MEDIA] = 415,     [AD_NONFINITE] = 422,
        [AD_UNSUPPORTED] = 501,  [AD_CANCELED] = 499,  [AD_UNAVAILABLE] = 503,
        [AD_INTERNAL] = 500};
    for (int status = AD_OK; status <= AD_INTERNAL; status++) {
        ck_assert_uint_eq(ad_reply_code((enum ad_status)status), codes[status]);
    }
    struct ad_reply reply = {.status = AD_OK};
    struct ad_error error = {.status = AD_OK};
    ad_fail(&error, AD_MEDIA, "a \"b\"");
    ad_reply_set_error(&reply, &error);
    ck_assert_int_eq(reply.status, AD_MEDIA);
    ck_assert_str_eq(reply.body.data, "{\"error\":\"a \\\"b\\\"\"}");
    ck_assert_uint_eq(reply.n_json, reply.body.size);
    ad_reply_reset(&reply);
    ck_assert_ptr_null(reply.body.data);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json");
    TCase *tcase = tcase_create("json");
    tcase_add_test(tcase, nesting_and_commas);
    tcase_add_loop_test(tcase, string_escapes, 0, sizeof strings / sizeof strings[0]);
    tcase_add_loop_test(tcase, index_body, 0,
                        sizeof index_bodies / sizeof index_bodies[0]);
    tcase_add_test(tcase, index_body_is_not_a_string);
    tcase_add_test(tcase, index_of_models);
    tcase_add_test(tcase, metadata_of_a_version);
    tcase_add_test(tcase, config_of_a_version);
    tcase_add_test(tcase, error_reply);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
