/* test_parameters.c - how long a request may wait, how urgent it is and which sequence it is of: what is
 * taken, and what is refused for which reason. */
#include "codec/parameters.h"
#include "unit/support.h"

#include <stdio.h>
#include <string.h>

static struct ad_request *request;

static void setup(void)
{
    request = ad_request_create();
    ck_assert_ptr_nonnull(request);
}

static void teardown(void)
{
    ad_request_free(request);
}

/* Read what is given as the members of `parameters`. */
static enum ad_status read(const char *members, struct ad_error *error)
{
    char text[1024];
    json_error_t fault;
    snprintf(text, sizeof text, "{\"parameters\":{%s}}", members);
    json_t *root = json_loads(text, JSON_ALLOW_NUL, &fault);
    ck_assert_msg(root != NULL, "%s: %s", text, fault.text);
    *error = (struct ad_error){.status = AD_OK};
    enum ad_status status = ad_parameters_of_request(request, root, error);
    ck_assert_int_eq(status, error->status);
    json_decref(root);
    return status;
}

static void check_text(const char *text, const char *expected)
{
    ck_assert_str_eq(text ? text : "(none)", expected ? expected : "(none)");
}

/* ---- taken ----------------------------------------------------------------------------------- */

#define LONGEST                                                        \
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" \
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" \
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" \
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct {
    const char *members, *header;
    const char *id, *fork;
    bool start, end;
    uint64_t timeout_us, priority;
} good[] = {
    {.members = ""},
    {.members = "\"timeout\":5,\"priority\":2", .timeout_us = 5, .priority = 2},
    {.members = "\"timeout\":0,\"priority\":0"},
    {.members = "\"timeout\":9223372036854775807,\"priority\":9223372036854775807",
     .timeout_us = INT64_MAX,
     .priority = INT64_MAX},
    {.members = "\"sequence_id\":\"a b\"", .id = "a b"},
    {.members = "\"sequence_id\":17", .id = "17"},
    {.members = "\"sequence_id\":9223372036854775807", .id = "9223372036854775807"},
    {.members = "\"sequence_id\":\"0\"", .id = "0"},
    {.members = "\"sequence_id\":\"" LONGEST "\"", .id = LONGEST},
    {.members = "\"sequence_id\":\"\\u00e9\"", .id = "\xc3\xa9"},
    /* none, as clients say it that always say something */
    {.members = "\"sequence_id\":0,\"sequence_start\":false,\"sequence_end\":false"},
    {.members = "\"sequence_id\":\"\",\"sequence_fork\":\"\""},
    {.members = "\"sequence_start\":false"},
    {.members = "\"sequence_id\":1,\"sequence_start\":true", .id = "1", .start = true},
    {.members = "\"sequence_end\":true,\"sequence_id\":1", .id = "1", .end = true},
    {.members = "\"sequence_id\":1,\"sequence_start\":true,\"sequence_end\":true",
     .id = "1",
     .start = true,
     .end = true},
    {.members = "\"sequence_fork\":2,\"sequence_id\":\"x\",\"sequence_start\":true",
     .id = "x",
     .fork = "2",
     .start = true},
    {.members = "\"sequence_id\":1,\"sequence_fork\":0", .id = "1"},
    {.members = "\"sequence_id\":17", .header = "17", .id = "17"},
    {.members = "\"sequence_id\":\"17\"", .header = "17", .id = "17"},
};

START_TEST(what_is_taken)
{
    struct ad_error error;
    request->sequence_header = good[_i].header;
    ck_assert_msg(read(good[_i].members, &error) == AD_OK, "%s", error.message);
    check_text(request->sequence_call.id, good[_i].id);
    check_text(request->sequence_call.fork, good[_i].fork);
    ck_assert(request->sequence_call.start == good[_i].start);
    ck_assert(request->sequence_call.end == good[_i].end);
    ck_assert_uint_eq(request->timeout_us, good[_i].timeout_us);
    ck_assert_uint_eq(request->priority, good[_i].priority);
}
END_TEST

/* ---- refused --------------------------------------------------------------------------------- */

static const struct {
    const char *members, *header;
    const char *message;
    bool gradient;
} bad[] = {
    {.members = "\"timeout\":-1",
     .message = "parameter timeout must not be negative, got -1"},
    {.members = "\"timeout\":1.5",
     .message = "parameter timeout must be an integer, got a number with a fraction or "
                "exponent"},
    {.members = "\"timeout\":\"5\"",
     .message = "parameter timeout must be an integer, got a string"},
    {.members = "\"timeout\":null",
     .message = "parameter timeout must be a string, a number or a boolean, got null"},
    {.members = "\"priority\":true",
     .message = "parameter priority must be an integer, got true"},
    {.members = "\"priority\":-3", .message = "must not be negative, got -3"},
    {.members = "\"sequence_id\":-1",
     .message = "parameter sequence_id must not be negative, got -1"},
    {.members = "\"sequence_id\":1.0",
     .message = "parameter sequence_id must be an "
                "integer or a string, got a number"},
    {.members = "\"sequence_id\":true",
     .message = "parameter sequence_id must be an integer or a string, got true"},
    {.members = "\"sequence_id\":[1]", .message = "parameter sequence_id must be a"},
    {.members = "\"sequence_id\":\"" LONGEST "x\"",
     .message = "parameter sequence_id must be at most 256 bytes without NUL, got 257"},
    {.members = "\"sequence_id\":\"a\\u0000b\"",
     .message = "parameter sequence_id must be at most 256 bytes without NUL, got 3"},
    {.members = "\"sequence_fork\":false",
     .message = "parameter sequence_fork must be an integer or a string, got false"},
    {.members = "\"sequence_start\":1",
     .message = "parameter sequence_start must be a boolean, got an integer"},
    {.members = "\"sequence_end\":\"true\"",
     .message = "parameter sequence_end must be a boolean, got a string"},
    /* together */
    {.members = "\"sequence_start\":true",
     .message = "parameter sequence_start needs parameter sequence_id"},
    {.members = "\"sequence_end\":true,\"sequence_id\":0",
     .message = "parameter sequence_end needs parameter sequence_id"},
    {.members = "\"sequence_fork\":\"a\"",
     .message = "parameter sequence_fork needs parameter sequence_id"},
    {.members = "\"sequence_id\":1,\"sequence_fork\":2",
     .message = "parameter sequence_fork needs parameter sequence_start to be true and "
                "names another sequence, got '2'"},
    {.members = "\"sequence_id\":1,\"sequence_fork\":\"1\",\"sequence_start\":true",
     .message = "names another sequence, got '1'"},
    {.members = "\"sequence_id\":1,\"training\":true",
     .message = "parameter sequence_id: a sequence is for inference, not for training"},
    {.members = "\"sequence_id\":1",
     .gradient = true,
     .message = "parameter sequence_id: a sequence is for inference, not for gradients"},
    /* the header and the parameter */
    {.members = "",
     .header = "a",
     .message = "header X-Sequence-Id is 'a', but parameter sequence_id is not given: "
                "they must agree"},
    {.members = "\"sequence_id\":0",
     .header = "0",
     .message = "header X-Sequence-Id is '0', but parameter sequence_id is not given"},
    {.members = "\"sequence_id\":1",
     .header = "01",
     .message = "header X-Sequence-Id is '01', but parameter sequence_id is '1': they "
                "must agree"},
    {.members = "\"sequence_id\":\"a\"",
     .header = "",
     .message = "header X-Sequence-Id is '', but parameter sequence_id is 'a'"},
};

START_TEST(what_is_refused)
{
    struct ad_error error;
    request->sequence_header = bad[_i].header;
    request->mode.gradient = bad[_i].gradient;
    ck_assert_int_eq(read(bad[_i].members, &error), AD_INVALID);
    ck_assert_msg(strstr(error.message, bad[_i].message) != NULL, "%s", error.message);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("parameters");
    TCase *tcase = tcase_create("parameters");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, what_is_taken, 0, sizeof good / sizeof *good);
    tcase_add_loop_test(tcase, what_is_refused, 0, sizeof bad / sizeof *bad);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
