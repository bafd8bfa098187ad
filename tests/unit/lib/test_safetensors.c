/* test_safetensors.c - safetensors files, good and bad: what is read, and what is said. */
#include "attention.h"
#include "unit/lib/safetensors_file.h"
#include "unit/support.h"

#include <stdio.h>

#define LENGTH(array) ((int)(sizeof(array) / sizeof *(array)))

/* ---- good files ------------------------------------------------------------------------ */

START_TEST(tensors_in_order_of_data)
{
    struct file file = make_file(TWO_TENSORS, strlen(TWO_TENSORS), 11);
    attn_weights *weights = parse_good(&file);
    ck_assert_uint_eq(attn_weights_count(weights), 2);
    const struct attn_named_tensor *first = attn_weights_at(weights, 0);
    ck_assert_str_eq(first->name, "b.ool");
    ck_assert_int_eq(first->tensor.dtype, ATTN_BOOL);
    ck_assert_uint_eq(first->tensor.rank, 1);
    ck_assert_uint_eq(first->tensor.shape[0], 3);
    ck_assert_mem_eq(first->tensor.data, "\0\1\2", 3);
    const struct attn_named_tensor *second = attn_weights_at(weights, 1);
    ck_assert_str_eq(second->name, "late");
    ck_assert_int_eq(second->tensor.dtype, ATTN_F32);
    ck_assert_uint_eq(second->tensor.rank, 2);
    ck_assert_uint_eq(second->tensor.shape[0], 2);
    ck_assert_uint_eq(second->tensor.shape[1], 1);
    ck_assert_mem_eq(second->tensor.data, "\3\4\5\6\7\10\11\12", 8);
    attn_weights_free(weights);
    free(file.bytes);
}
END_TEST

START_TEST(no_tensors)
{
    static const char *const headers[] = {"{}", "{ }  ", "{\"__metadata__\":{}}"};
    for (size_t i = 0; i < 3; i++) {
        struct file file = make_file(headers[i], strlen(headers[i]), 0);
        attn_weights *weights = parse_good(&file);
        ck_assert_uint_eq(attn_weights_count(weights), 0);
        ck_assert_ptr_null(attn_weights_find(weights, "x", NULL));
        attn_weights_free(weights);
        free(file.bytes);
    }
    attn_weights_free(NULL);
}
END_TEST

START_TEST(scalar_and_empty_tensors)
{
    static const char header[] =
        "{\"z\":{\"dtype\":\"F64\",\"shape\":[5,0,18446744073709551615],\"data_offsets\":"
        "[0,0]},"
        "\"scalar\":{\"dtype\":\"I16\",\"shape\":[],\"data_offsets\":[0,2]},"
        "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
        "\"end\":{\"dtype\":\"I64\",\"shape\":[1,1,1,1,1,1,1,0],\"data_offsets\":[2,2]}}";
    struct file file = make_file(header, strlen(header), 2);
    attn_weights *weights = parse_good(&file);
    static const char *const order[] = {"z", "a", "scalar", "end"};
    ck_assert_uint_eq(attn_weights_count(weights), 4);
    for (size_t i = 0; i < 4; i++) {
        ck_assert_str_eq(attn_weights_at(weights, i)->name, order[i]);
    }
    ck_assert_uint_eq(attn_weights_find(weights, "scalar", NULL)->rank, 0);
    ck_assert_uint_eq(attn_weights_find(weights, "end", NULL)->rank, 8);
    ck_assert_uint_eq(attn_weights_find(weights, "z", NULL)->shape[2], SIZE_MAX);
    attn_weights_free(weights);
    free(file.bytes);
}
END_TEST

START_TEST(every_dtype)
{
    for (int dtype = ATTN_F32; dtype <= ATTN_F8_E5M2; dtype++) {
        enum attn_dtype type = (enum attn_dtype)dtype;
        size_t size = attn_dtype_size(type);
        char header[200];
        int n =
            snprintf(header, sizeof header,
                     "{\"t\":{\"dtype\":\"%s\",\"shape\":[3],\"data_offsets\":[0,%zu]}}",
                     attn_dtype_name(type), 3 * size);
        struct file file = make_file(header, (size_t)n, 3 * size);
        attn_weights *weights = parse_good(&file);
        ck_assert_int_eq(attn_weights_at(weights, 0)->tensor.dtype, type);
        attn_weights_free(weights);
        free(file.bytes);
    }
}
END_TEST

/* A name as JSON writes it, and what it is. */
static const struct {
    const char *json, *name;
} names[] = {
    {"", ""},
    {"\\\"\\\\\\/\\b\\f\\n\\r\\t", "\"\\/\b\f\n\r\t"},
    {"\\u0041\\u00e9\\u20AC", "A\303\251\342\202\254"},
    {"\\ud83d\\uDE00", "\360\237\230\200"},
    {"\\ud800\\udc00\\udbff\\udfff", "\360\220\200\200\364\217\277\277"},
    {"\303\251\342\202\254\360\237\230\200\x7f",
     "\303\251\342\202\254\360\237\230\200\x7f"},
    {"\\u0001\\u07ff\\u0800\\uffff", "\1\337\277\340\240\200\357\277\277"},
    {"__metadata__x", "__metadata__x"},
};

START_TEST(names_are_decoded)
{
    char header[300];
    int n = snprintf(header, sizeof header,
                     "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                     names[_i].json);
    struct file file = make_file(header, (size_t)n, 1);
    attn_weights *weights = parse_good(&file);
    ck_assert_str_eq(attn_weights_at(weights, 0)->name, names[_i].name);
    ck_assert_ptr_eq(attn_weights_find(weights, names[_i].name, NULL),
                     &attn_weights_at(weights, 0)->tensor);
    attn_weights_free(weights);
    free(file.bytes);
}
END_TEST

/* ---- bad files ------------------------------------------------------------------------- */

/* Headers, each with 4 bytes of data; the tensor at fault; the message or its beginning. */
static const struct {
    const char *header, *field, *message;
} bad[] = {
    /* JSON */
    {"", "", "header is not valid JSON at its byte 0: expected '{'"},
    {"   ", "", "header is not valid JSON at its byte 3: expected '{'"},
    {"[]", "", "header is not valid JSON at its byte 0: expected '{'"},
    {"null", "", "header is not valid JSON at its byte 0: expected '{'"},
    {"{", "", "header is not valid JSON at its byte 1: expected a string"},
    {"{,}", "", "header is not valid JSON at its byte 1: expected a string"},
    {"{1:2}", "", "header is not valid JSON at its byte 1: expected a string"},
    {"{\"w\"", "", "header is not valid JSON at its byte 4: expected ':'"},
    {"{\"w\":", "w",
     "tensor \"w\": header is not valid JSON at its byte 5: expected a value"},
    {"{\"w\":{", "w",
     "tensor \"w\": header is not valid JSON at its byte 6: expected a string"},
    {"{\"w\":{\"dtype\":\"F32\" \"shape\":[1]}}", "w",
     "tensor \"w\": header is not valid JSON at its byte 20: expected ',' or '}'"},
    {ONE("F32", "[1,]", "[0,4]"), "w",
     "tensor \"w\": header is not valid JSON at its byte 31: expected a value"},
    {ONE("F32", "[,1]", "[0,4]"), "w",
     "tensor \"w\": header is not valid JSON at its byte 29: expected a value"},
    {ONE("F32", "[1 1]", "[0,4]"), "w",
     "tensor \"w\": header is not valid JSON at its byte 31: expected ',' or ']'"},
    {ONE("F32", "[01]", "[0,4]"), "w",
     "tensor \"w\": header is not valid JSON at its byte 31: number with a leading zero"},
    {ONE("F32", "[+1]", "[0,4]"), "w",
     "tensor \"w\": header is not valid JSON at its byte 29: expected a value"},
    {ONE("F32", "[-]", "[0,4]"), "w",
     "tensor \"w\": header is not valid JSON at its byte 30: expected a digit"},
    {ONE("F32", "[1.]", "[0,4]"), "w",
     "tensor \"w\": header is not valid JSON at its byte 31: expected a digit"},
    {ONE("F32", "[1e]", "[0,4]"), "w",
     "tensor \"w\": header is not valid JSON at its byte 31: expected a digit"},
    {"{" TENSOR("w", "F32", "[1]", "[0,4]") ",}", "",
     "header is not valid JSON at its byte 54: expected a string"},
    {"{" TENSOR("w", "F32", "[1]", "[0,4]"), "",
     "header is not valid JSON at its byte 53: expected ',' or '}'"},
    {ONE("F32", "[1]", "[0,4]") "}", "",
     "header goes on after its JSON object, at its byte 54"},
    {ONE("F32", "[1]", "[0,4]") "  \n ", "",
     "header goes on after its JSON object, at its byte 56"},
    {ONE("F32", "[1]", "[0,4]") " {}", "",
     "header goes on after its JSON object, at its byte 55"},
    /* strings */
    {"{\"w", "", "header is not valid JSON at its byte 3: string without an end"},
    {"{\"w\\", "", "header is not valid JSON at its byte 3: string without an end"},
    {"{\"\\u004", "", "header is not valid JSON at its byte 2: \\u needs four"},
    {"{\"\\u00g0\"", "", "header is not valid JSON at its byte 2: \\u needs four"},
    {"{\"\\x\"", "",
     "header is not valid JSON at its byte 2: unknown escape in a string"},
    {"{\"a\tb\"", "", "header is not valid JSON at its byte 3: control character"},
    {"{\"\\ud83d\"", "",
     "header is not valid JSON at its byte 8: half of a surrogate pair"},
    {"{\"\\ud83dx\"", "", "header is not valid JSON at its byte 8: half of a surrogate"},
    {"{\"\\ud83d\\u0041\"", "", "header is not valid JSON at its byte 14: half of a"},
    {"{\"\\ude00\"", "",
     "header is not valid JSON at its byte 8: half of a surrogate pair"},
    {"{\"\xff\"", "", "header is not valid JSON at its byte 2: not valid UTF-8"},
    {"{\"\x80\"", "", "header is not valid JSON at its byte 2: not valid UTF-8"},
    {"{\"\xc3\"", "", "header is not valid JSON at its byte 2: not valid UTF-8"},
    {"{\"\xc3", "", "header is not valid JSON at its byte 2: not valid UTF-8"},
    {"{\"\xc0\xaf\"", "", "header is not valid JSON at its byte 2: not valid UTF-8"},
    {"{\"\xed\xa0\x80\"", "", "header is not valid JSON at its byte 2: not valid UTF-8"},
    {"{\"\xf4\x90\x80\x80\"", "",
     "header is not valid JSON at its byte 2: not valid UTF-8"},
    {"{\xc3\xa9", "", "header is not valid JSON at its byte 1: expected a string"},
    {"\xef\xbb\xbf{}", "", "header is not valid JSON at its byte 0: expected '{'"},
    /* names */
    {NAMED("a\\u0000b"), "", "tensor name \"a...\" has a NUL in it"},
    {NAMED(NAME_127 "7"), "",
     "tensor name \"" TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
     "...\" is too long: 128 bytes, at most 127"},
    {"{" TENSOR("v", "U8", "[2]", "[0,2]") "," TENSOR("\\u0076", "U8", "[2]",
                                                      "[2,4]") "}",
     "v", "tensor \"v\" is there more than once"},
    {"{" TENSOR("v", "U8", "[4]", "[0,4]") "," TENSOR("v", "U8", "[4]", "[0,4]") "}", "v",
     "tensor \"v\" is there more than once"},
    /* metadata */
    {"{\"__metadata__\":[]}", "", "__metadata__: expected an object, got an array"},
    {"{\"__metadata__\":null}", "", "__metadata__: expected an object, got null"},
    {"{\"__metadata__\":{\"a\":1}}", "",
     "__metadata__ \"a\": expected a string, got a number"},
    {"{\"__metadata__\":{\"a\":{}}}", "",
     "__metadata__ \"a\": expected a string, got an object"},
    {"{\"__metadata__\":{\"a\":x}}", "",
     "header is not valid JSON at its byte 21: expected a"},
    {"{\"__metadata__\":{\"a\"}}", "",
     "header is not valid JSON at its byte 20: expected ':'"},
    {"{\"__metadata__\":{\"a\":\"\\q\"}}", "",
     "header is not valid JSON at its byte 22: unknown"},
    {"{\"__metadata__\":{\"a\":\"b\"", "",
     "header is not valid JSON at its byte 24: expected ','"},
    {"{\"__metadata__\":{},\"__meta\\u0064ata__\":{}}", "",
     "header has more than one __metadata__"},
    /* keys */
    {"{\"w\":[]}", "w",
     "tensor \"w\": its description: expected an object, got an array"},
    {"{\"w\":true}", "w",
     "tensor \"w\": its description: expected an object, got a boolean"},
    {"{\"w\":{}}", "w", "tensor \"w\": has no dtype"},
    {"{\"w\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", "w",
     "tensor \"w\": has no shape"},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1]}}", "w",
     "tensor \"w\": has no data_offsets"},
    {"{\"w\":{\"type\":\"F32\"}}", "w", "tensor \"w\": unknown key \"type\""},
    {"{\"w\":{\"dtype\\u0000\":\"F32\"}}", "w", "tensor \"w\": unknown key \"dtype\""},
    {"{\"w\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", "w",
     "tensor \"w\": has more than one dtype"},
    {"{\"w\":{\"shape\":[],\"sh\\u0061pe\":[]}}", "w",
     "tensor \"w\": has more than one shape"},
    {"{\"w\":{\"data_offsets\":[0,4],\"data_offsets\":[0,4]}}", "w",
     "tensor \"w\": has more than one data_offsets"},
    /* dtype */
    {ONE("f32", "[1]", "[0,4]"), "w", "tensor \"w\": unknown dtype \"f32\""},
    {ONE("", "[1]", "[0,4]"), "w", "tensor \"w\": unknown dtype \"\""},
    {ONE("F\\u0085\\u202e\\u001b[2\xe2\x80\xa8", "[1]", "[0,4]"), "w",
     "tensor \"w\": unknown dtype \"F??"
     "????[2???\""},
    {ONE("F32\\u0000", "[1]", "[0,4]"), "w", "tensor \"w\": unknown dtype \"F32\""},
    {"{\"w\":{\"dtype\":32}}", "w",
     "tensor \"w\": dtype: expected a string, got a number"},
    /* shape */
    {ONE("F32", "1", "[0,4]"), "w",
     "tensor \"w\": shape: expected an array, got a number"},
    {ONE("F32", "{}", "[0,4]"), "w",
     "tensor \"w\": shape: expected an array, got an object"},
    {ONE("F32", "[\"1\"]", "[0,4]"), "w",
     "tensor \"w\": shape[0]: expected a whole number, got a string"},
    {ONE("F32", "[1,[[[[1]]]]]", "[0,4]"), "w",
     "tensor \"w\": shape[1]: expected a whole number, got an array"},
    {ONE("F32", "[1,-1]", "[0,4]"), "w", "tensor \"w\": shape[1]: -1 is negative"},
    {ONE("F32", "[-0]", "[0,4]"), "w", "tensor \"w\": shape[0]: -0 is negative"},
    {ONE("F32", "[1.0]", "[0,4]"), "w",
     "tensor \"w\": shape[0]: 1.0 is not written as a whole number"},
    {ONE("F32", "[1E0]", "[0,4]"), "w",
     "tensor \"w\": shape[0]: 1E0 is not written as a whole number"},
    {ONE("F32", "[1e-7]", "[0,4]"), "w",
     "tensor \"w\": shape[0]: 1e-7 is not written as a whole number"},
    {ONE("F32", "[18446744073709551616]", "[0,4]"), "w",
     "tensor \"w\": shape[0]: 18446744073709551616 is too large"},
    {ONE("F32", "[9" TEN TEN TEN TEN TEN "]", "[0,4]"), "w",
     "tensor \"w\": shape[0]: 9" TEN TEN TEN "012345678 is too large"},
    {ONE("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), "w",
     "tensor \"w\": shape has more than 8 dimensions"},
    {ONE("F32", "[4294967296,4294967296]", "[0,4]"), "w",
     "tensor \"w\": shape [4294967296, 4294967296] of F32 has more bytes than can be "
     "counted"},
    {ONE("F32", "[4611686018427387905]", "[0,4]"), "w",
     "tensor \"w\": shape [4611686018427387905] of F32 has more bytes than can be "
     "counted"},
    /* offsets */
    {ONE("F32", "[1]", "{}"), "w",
     "tensor \"w\": data_offsets: expected an array, got an obj"},
    {ONE("F32", "[1]", "[]"), "w",
     "tensor \"w\": data_offsets: expected 2 numbers, got 0"},
    {ONE("F32", "[1]", "[0]"), "w",
     "tensor \"w\": data_offsets: expected 2 numbers, got 1"},
    {ONE("F32", "[1]", "[0,4,4]"), "w",
     "tensor \"w\": data_offsets: expected 2 numbers, got more"},
    {ONE("F32", "[1]", "[0,null]"), "w",
     "tensor \"w\": data_offsets[1]: expected a whole number, got null"},
    {ONE("F32", "[1]", "[-4,0]"), "w", "tensor \"w\": data_offsets[0]: -4 is negative"},
    {ONE("F32", "[1]", "[0,4.5]"), "w",
     "tensor \"w\": data_offsets[1]: 4.5 is not written as a whole number"},
    {ONE("F32", "[1]", "[0,99999999999999999999]"), "w",
     "tensor \"w\": data_offsets[1]: 99999999999999999999 is too large"},
    {ONE("F32", "[1]", "[4,0]"), "w",
     "tensor \"w\": data_offsets [4, 0] end before they begin"},
    {ONE("F32", "[2]", "[0,8]"), "w",
     "tensor \"w\": data_offsets [0, 8] go past the 4 bytes of data in the file"},
    {ONE("U8", "[1]", "[18446744073709551614,18446744073709551615]"), "w",
     "tensor \"w\": data_offsets [18446744073709551614, 18446744073709551615] go past "
     "the 4"},
    {ONE("U8", "[0]", "[5,5]"), "w",
     "tensor \"w\": data_offsets [5, 5] go past the 4 bytes"},
    {ONE("F32", "[2]", "[0,4]"), "w",
     "tensor \"w\": shape [2] of F32 takes 8 bytes, but data_offsets [0, 4] hold 4"},
    {ONE("F32", "[0]", "[0,4]"), "w",
     "tensor \"w\": shape [0] of F32 takes 0 bytes, but data_offsets [0, 4] hold 4"},
    {ONE("U8", "[]", "[0,4]"), "w",
     "tensor \"w\": shape [] of U8 takes 1 bytes, but data_offsets [0, 4] hold 4"},
    /* together */
    {"{}", "", "the last 4 bytes of data belong to no tensor"},
    {ONE("U8", "[3]", "[0,3]"), "", "the last 1 bytes of data belong to no tensor"},
    {ONE("U8", "[3]", "[1,4]"), "w",
     "tensor \"w\": its data begin at 1, and the 1 bytes before belong to no tensor"},
    {"{" TENSOR("w", "U8", "[1]", "[3,4]") "," TENSOR("v", "U8", "[2]", "[0,2]") "}", "w",
     "tensor \"w\": its data begin at 3, and the 1 bytes before belong to no tensor"},
    {"{" TENSOR("w", "U8", "[3]", "[1,4]") "," TENSOR("v", "U8", "[2]", "[0,2]") "}", "w",
     "tensor \"w\": its data begin at 1, inside those of \"v\", which end at 2"},
    {"{" TENSOR("w", "U8", "[4]", "[0,4]") "," TENSOR("v", "U8", "[4]", "[0,4]") "}", "v",
     "tensor \"v\": its data begin at 0, inside those of \"w\", which end at 4"},
    {"{" TENSOR("w", "U8", "[4]", "[0,4]") "," TENSOR("v", "U8", "[0]", "[2,2]") "}", "v",
     "tensor \"v\": its data begin at 2, inside those of \"w\", which end at 4"},
};

static void check_bad(const struct file *file, const char *field, const char *message)
{
    struct attn_error error = {0};
    attn_weights *weights = (attn_weights *)&error;
    ck_assert_int_eq(attn_weights_parse(file->bytes, file->n_bytes, &weights, &error),
                     ATTN_FORMAT);
    ck_assert_ptr_null(weights);
    ck_assert_int_eq(error.status, ATTN_FORMAT);
    ck_assert_str_eq(error.field, field);
    ck_assert_msg(strncmp(error.message, message, strlen(message)) == 0,
                  "\"%s\" does not begin with \"%s\"", error.message, message);
    ck_assert_int_eq(attn_weights_parse(file->bytes, file->n_bytes, &weights, NULL),
                     ATTN_FORMAT);
}

START_TEST(bad_headers)
{
    struct file file = make_file(bad[_i].header, strlen(bad[_i].header), 4);
    check_bad(&file, bad[_i].field, bad[_i].message);
    free(file.bytes);
}
END_TEST

START_TEST(longest_name)
{
    struct file file = make_file(NAMED(NAME_127), strlen(NAMED(NAME_127)), 4);
    attn_weights *weights = parse_good(&file);
    ck_assert_ptr_nonnull(attn_weights_find(weights, NAME_127, NULL));
    ck_assert_ptr_null(attn_weights_find(weights, NAME_127 "7", NULL));
    attn_weights_free(weights);
    free(file.bytes);
}
END_TEST

START_TEST(bad_lengths)
{
    unsigned char zeros[8] = {0};
    for (size_t n = 0; n < 8; n++) {
        struct file file = {.bytes = n ? zeros : NULL, .n_bytes = n};
        char message[80];
        snprintf(message, sizeof message, "file of %zu bytes is too short", n);
        check_bad(&file, "", message);
    }
    static const struct {
        const char *length, *message;
    } rows[] = {
        {"\3\0\0\0\0\0\0\0",
         "header length 3 goes past the end of the file, which has 10"},
        {"\0\341\365\5\0\0\0\0", "header length 100000000 goes past the end of the file"},
        {"\1\341\365\5\0\0\0\0",
         "header length 100000001 is over the limit of 100000000"},
        {"\377\377\377\377\377\377\377\377",
         "header length 18446744073709551615 is over"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct file file = make_file("{}", 2, 0);
        memcpy(file.bytes, rows[i].length, 8);
        check_bad(&file, "", rows[i].message);
        free(file.bytes);
    }
}
END_TEST

/* Whatever is cut off a good file leaves a bad one. */
START_TEST(every_cut)
{
    struct file file = make_file(TWO_TENSORS, strlen(TWO_TENSORS), 11);
    for (size_t n = 0; n < file.n_bytes; n++) {
        struct file cut = {.bytes = malloc(n + !n), .n_bytes = n};
        memcpy(cut.bytes, file.bytes, n);
        check_bad(&cut, n < 8 + strlen(TWO_TENSORS) ? "" : "late", "");
        free(cut.bytes);
    }
    free(file.bytes);
}
END_TEST

int main(void)
{
    TCase *good = tcase_create("good");
    tcase_add_test(good, tensors_in_order_of_data);
    tcase_add_test(good, no_tensors);
    tcase_add_test(good, scalar_and_empty_tensors);
    tcase_add_test(good, every_dtype);
    tcase_add_loop_test(good, names_are_decoded, 0, LENGTH(names));
    tcase_add_test(good, longest_name);
    TCase *broken = tcase_create("bad");
    tcase_add_loop_test(broken, bad_headers, 0, LENGTH(bad));
    tcase_add_test(broken, bad_lengths);
    tcase_add_test(broken, every_cut);
    Suite *suite = suite_create("safetensors");
    suite_add_tcase(suite, good);
    suite_add_tcase(suite, broken);
    return support_run(suite);
}
