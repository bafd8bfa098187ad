/* test_status.c - what an error record says: every status has a text, the first failure stays, and whatever
 * a caller's own strings hold, a message is one printable line. */
#include "unit/lib/layers.h"

START_TEST(texts)
{
    static const char *const expected[] = {
        "ok",        "invalid value", "shape mismatch",     "wrong data type",
        "missing",   "unknown name",  "index out of range", "malformed file",
        "too large", "out of memory", "input/output error"};
    for (size_t i = 0; i < COUNT(expected); i++) {
        ck_assert_str_eq(attn_status_text((enum attn_status)i), expected[i]);
    }
    ck_assert_str_eq(attn_status_text((enum attn_status)COUNT(expected)),
                     "unknown status");
    ck_assert_str_eq(attn_version(), ATTN_VERSION);
}
END_TEST

static enum attn_status fail_kind(const char *kind, struct attn_error *error)
{
    struct attn_spec spec = {.size = sizeof spec};
    return attn_spec_preset(&spec, kind, NULL, 0, error);
}

START_TEST(first_failure_stays)
{
    struct attn_error error = {0};
    ck_assert_int_eq(fail_kind("one", &error), ATTN_UNKNOWN);
    struct attn_error first = error;
    ck_assert_ptr_nonnull(strstr(first.message, "got 'one'"));
    ck_assert_int_eq(fail_kind("other", &error), ATTN_UNKNOWN);
    ck_assert_mem_eq(&error, &first, sizeof error);
    ck_assert_int_eq(fail_kind("routing_score", &error), ATTN_OK);
    ck_assert_mem_eq(&error, &first, sizeof error); /* success leaves it alone */

    attn_error_clear(&error);
    ck_assert(error.status == ATTN_OK && !error.field[0] && !error.message[0]);
    ck_assert_int_eq(fail_kind("other", &error), ATTN_UNKNOWN);
    ck_assert_ptr_nonnull(strstr(error.message, "got 'other'"));
}
END_TEST

START_TEST(without_a_record)
{
    attn_error_clear(NULL);
    ck_assert_int_eq(fail_kind("one", NULL), ATTN_UNKNOWN);
}
END_TEST

/* Bytes of a caller's string, and what a message has in their place. */
static const struct {
    const char *given, *shown;
} strings[] = {
    {"plain ~", "plain ~"},
    {"line\nbreak\ttab\r", "line?break?tab?"},
    {"\x1b[31m\x01\x7f", "?[31m??"},
    {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
    {"\xc2\xa0 \xdf\xbf \xe0\xa0\x80 \xef\xbf\xbf",
     "\xc2\xa0 \xdf\xbf \xe0\xa0\x80 \xef\xbf\xbf"},
    {"\xc2\x80 \xc2\x9b \xc2\x9f", "?? ?? ??"},                /* C1 */
    {"\xe2\x80\xa8 \xe2\x80\xae \xe2\x81\xa9", "??? ??? ???"}, /* lines, directions */
    {"\xed\x9f\xbf \xee\x80\x80 \xf4\x8f\xbf\xbf",
     "\xed\x9f\xbf \xee\x80\x80 \xf4\x8f\xbf\xbf"},
    {"\x80 \xbf \xff \xfe", "? ? ? ?"},            /* bytes that begin nothing */
    {"\xc3 \xe2\x82 \xf0\x9f\x98 ", "? ?? ??? "},  /* cut short by another byte */
    {"\xc0\xaf \xc1\xbf", "?? ??"},                /* longer than they need be */
    {"\xe0\x9f\xbf \xf0\x8f\xbf\xbf", "??? ????"}, /* the same */
    {"\xed\xa0\x80 \xed\xbf\xbf", "??? ???"},      /* halves of a pair */
    {"\xf4\x90\x80\x80 \xf8\x88\x80\x80\x80", "???? ?????"}, /* beyond the last */
};

START_TEST(messages_are_printable)
{
    for (size_t i = 0; i < COUNT(strings); i++) {
        struct attn_error error = {0};
        char expected[80];
        snprintf(expected, sizeof expected, "got '%s'", strings[i].shown);
        ck_assert_int_eq(fail_kind(strings[i].given, &error), ATTN_UNKNOWN);
        ck_assert_msg(strstr(error.message, expected) != NULL, "expected %s in: %s",
                      expected, error.message);
    }
}
END_TEST

/* A field is cut to its length, which leaves no half of a character at its end. */
START_TEST(long_names_are_cut)
{
    struct attn_spec spec = good_spec("routing_score", NULL, 0);
    attn_layer *layer = NULL;
    attn_plan *plan = NULL;
    ck_assert_int_eq(attn_layer_create(&spec, NULL, &layer, NULL), ATTN_OK);
    for (size_t lead = 0; lead < 4; lead++) {
        char name[1003];
        for (size_t i = 0; i < sizeof name - 1; i++) {
            name[i] = i < lead ? 'x' : "\xf0\x9f\x98\x80"[(i - lead) % 4];
        }
        name[sizeof name - 1] = '\0';
        const struct attn_named_tensor input = {name, {.dtype = ATTN_F32}};
        struct attn_error error = {0};
        ck_assert_int_eq(attn_plan_create(layer, NULL, &input, 1, NULL, 0, &plan, &error),
                         ATTN_UNKNOWN);
        size_t n = strlen(error.field), whole = lead + (n - lead) / 4 * 4;
        ck_assert_uint_eq(n, sizeof error.field - 1);
        ck_assert_mem_eq(error.field, name, whole);
        ck_assert_uint_eq(strspn(error.field + whole, "?"), n - whole);
        ck_assert_uint_eq(strlen(error.message), sizeof error.message - 1);
    }
    attn_layer_free(layer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("status");
    TCase *tcase = tcase_create("status");
    tcase_add_test(tcase, texts);
    tcase_add_test(tcase, first_failure_stays);
    tcase_add_test(tcase, without_a_record);
    tcase_add_test(tcase, messages_are_printable);
    tcase_add_test(tcase, long_names_are_cut);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
