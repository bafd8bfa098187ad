/* test_predict.c - instances of the first KServe protocol: what they become, and which are refused for which
 * reason. */
#include "unit/codec/serving.h"
#include "unit/support.h"

#include <math.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static struct ad_version *version_of(const char *model)
{
    return strcmp(model, "relations") == 0 ? fixture_relational()
           : strcmp(model, "tokens") == 0  ? fixture_causal()
           : strcmp(model, "words") == 0   ? fixture_growing()
                                           : fixture_scores();
}

/* Serve a body; the request is the caller's to free. */
static struct ad_request *serve(const char *model, const char *json, enum ad_form form)
{
    struct ad_version *version = version_of(model);
    struct ad_request *request = fixture_json(version, json);
    struct ad_serving serving = serving_make(1, 10000);
    struct ad_worker worker = {.team = {.n_workers = 1}};
    request->form = form;
    serving_serve(&serving, request, &worker);
    serving_reset(&serving);
    ad_scratch_reset(&worker.scratch);
    ad_version_release(version);
    return request;
}

/* ---- taken ----------------------------------------------------------------------------------- */

#define PLACE(v0, v1)                                                                  \
    "{\"queries\":[[[1,2],[3,4]]],\"keys\":[[[1,2],[3,4]]],\"values\":[[[" v0 "],[" v1 \
    "]]]"

static const struct {
    const char *model, *body, *reply;
} good[] = {
    {"words", "{\"instances\":[[[1,2]]]}", "{\"predictions\":[[[1,2]]]}"},
    {"words", "{\"instances\":[[[1,2]],[[3,-4.5e1]],[[0.1,7]]]}",
     "{\"predictions\":[[[1,2]],[[3,-45]],[[0.1,7]]]}"},
    {"words", "{\"instances\":[{\"input\":[[1,2]]},{\"input\":[[3,4]]}]}",
     "{\"predictions\":[[[1,2]],[[3,4]]]}"},
    {"words",
     " \n{ \"instances\" :\t[ [ [ 1 , 2 ] , [ 1 , 2 ] ] , [ [ 3 , 4 ] , [ 3 , 4 ] ] ] } ",
     "{\"predictions\":[[[1,2],[1,2]],[[3,4],[3,4]]]}"},
    {"words", "{\"inst\\u0061nces\":[{\"inp\\u0075t\":[[1,2]]}]}",
     "{\"predictions\":[[[1,2]]]}"},
    /* members that mean nothing here, before and behind */
    {"words",
     "{\"signature_name\":\"serving_default\",\"\\u00e9\":{\"a\":[1,{\"b\":\"],}\"}]},"
     "\"instances\":[[[1,2]]],\"parameters\":{\"training\":true,\"timeout\":\"x\"},"
     "\"n\":null,\"m\":-1.5e3}",
     "{\"predictions\":[[[1,2]]]}"},
    /* nothing behind an empty list says how long it would be; the port does */
    {"words", "{\"instances\":[[],[]]}", "{\"predictions\":[[],[]]}"},
    {"words", "{\"instances\":[[]]}", "{\"predictions\":[[]]}"},
    {"relations", "{\"instances\":[" PLACE("5", "0.25") "}]}",
     "{\"predictions\":[[[5,0.25,5.25]]]}"},
    {"relations", "{\"instances\":[" PLACE("5", "0.25") "}," PLACE("1", "2") "}]}",
     "{\"predictions\":[[[5,0.25,5.25]],[[1,2,3]]]}"},
    {"relations",
     "{\"instances\":[{\"values\":[[[1],[2]]],\"keys\":[[[1,2],[3,4]]],\"queries\":[[[1,"
     "2]"
     ",[3,4]]]}," PLACE("1", "2") "}]}",
     "{\"predictions\":[[[1,2,3]],[[1,2,3]]]}"},
    /* booleans; whole numbers for all instances in the first */
    {"relations", "{\"instances\":[" PLACE("5", "1") ",\"masked_elements\":[[false]]}]}",
     "{\"predictions\":[[[5,1,6]]]}"},
    {"relations",
     "{\"instances\":[" PLACE("5", "1") ",\"masked_elements\":[[true]]}," PLACE(
         "5", "1") ",\"masked_elements\":[[false]]}]}",
     "{\"predictions\":[[[0,0,0]],[[5,1,6]]]}"},
    {"relations",
     "{\"instances\":[" PLACE("5",
                              "1") ",\"edges\":[[0,0,0],[1,0,0]],\"edge_types\":[0,1]"
                                   "}," PLACE("1", "1") "}]}",
     "{\"predictions\":[[[5,1,6]],[[1,1,2]]]}"},
    {"relations", "{\"instances\":[" PLACE("5", "1") ",\"edges\":[],\"edge_types\":[]}]}",
     "{\"predictions\":[[[5,1,6]]]}"},
    {"scores", "{\"instances\":[{\"query\":[[3]],\"key\":[[1],[2]]}]}",
     "{\"predictions\":[[[3,6]]]}"},
    {"scores", "{\"instances\":[{\"query\":[],\"key\":[]}]}", "{\"predictions\":[[]]}"},
};

/* The same text, but for what processors differ in. */
static bool is_close(const char *a, const char *b)
{
    while (*a && *b) {
        char *a_end = NULL, *b_end = NULL;
        bool number = strchr("-0123456789", *a) && strchr("-0123456789", *b);
        double x = number ? strtod(a, &a_end) : *a, y = number ? strtod(b, &b_end) : *b;
        if (fabs(x - y) > (number ? 1e-5 * (1 + fabs(y)) : 0)) {
            return false;
        }
        a = number ? a_end : a + 1;
        b = number ? b_end : b + 1;
    }
    return *a == *b;
}

START_TEST(what_is_taken)
{
    struct ad_request *request = serve(good[_i].model, good[_i].body, AD_FORM_PREDICT);
    ck_assert_msg(request->error.status == AD_OK, "%s: %s", good[_i].body,
                  request->error.message);
    ck_assert_msg(is_close(request->reply.data, good[_i].reply), "%s: %s", good[_i].body,
                  request->reply.data);
    ck_assert_uint_eq(request->reply.size, request->n_reply_json);
    ck_assert_uint_eq(request->reply.size, strlen(request->reply.data));
    ad_request_free(request);
}
END_TEST

/* The numbers of a reply, without what stands around them. */
static void numbers_of(const struct ad_request *request, const char *behind,
                       char text[4096])
{
    const char *at = strstr(request->reply.data, behind);
    ck_assert_ptr_nonnull(at);
    size_t n = 0;
    for (at += strlen(behind); *at; at++) {
        if (!strchr("[]}", *at) && n < 4095) {
            text[n++] = *at;
        }
    }
    text[n] = '\0';
}

START_TEST(the_same_as_infer)
{
    static const char data[] = "[[[1,2],[3,4]],[[0.5,-1],[1,1]],[[9,8],[7,6]]]";
    char body[512], expected[4096], got[4096];
    snprintf(body, sizeof body,
             "{\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\",\"shape\":[3,2,2],"
             "\"data\":%s}]}",
             data);
    struct ad_request *infer = serve("tokens", body, AD_FORM_INFER);
    snprintf(body, sizeof body, "{\"instances\":%s}", data);
    struct ad_request *predict = serve("tokens", body, AD_FORM_PREDICT);
    ck_assert_int_eq(infer->error.status, AD_OK);
    ck_assert_int_eq(predict->error.status, AD_OK);
    ck_assert_uint_eq(infer->n_items, predict->n_items);
    numbers_of(infer, "\"data\":", expected);
    numbers_of(predict, "\"predictions\":", got);
    ck_assert_str_eq(got, expected);
    ad_request_free(infer);
    ad_request_free(predict);
}
END_TEST

/* More instances than fit the first guess at memory, and long rows. */
START_TEST(many_instances)
{
    struct ad_buffer body, reply;
    ad_buffer_init(&body);
    ad_buffer_init(&reply);
    ck_assert(ad_buffer_printf(&body, "{\"instances\":["));
    ck_assert(ad_buffer_printf(&reply, "{\"predictions\":["));
    for (size_t i = 0; i < 5000; i++) {
        const char *comma = i > 0 ? "," : "";
        ck_assert(ad_buffer_printf(&body, "%s[[%zu,%zu]]", comma, i, i + 1));
        ck_assert(ad_buffer_printf(&reply, "%s[[%zu,%zu]]", comma, i, i + 1));
    }
    ck_assert(ad_buffer_printf(&body, "]}") && ad_buffer_printf(&reply, "]}"));
    struct ad_request *request = serve("words", body.data, AD_FORM_PREDICT);
    ck_assert_msg(request->error.status == AD_OK, "%s", request->error.message);
    ck_assert(is_close(request->reply.data, reply.data));
    ck_assert_uint_eq(request->n_items, 5000);
    ad_request_free(request);
    ad_buffer_reset(&body);
    ad_buffer_reset(&reply);
}
END_TEST

/* ---- refused --------------------------------------------------------------------------------- */

static const struct {
    const char *model, *body;
    enum ad_status status;
    const char *message;
} bad[] = {
    {"words", "", AD_INVALID, "the body is empty: expected a JSON object with instances"},
    {"words", "[]", AD_INVALID, "at offset 0: expected a JSON object, got '['"},
    {"words", "{}", AD_INVALID, "expected a member instances"},
    {"words", "{\"inputs\":[[1]]}", AD_INVALID, "expected a member instances"},
    {"words", "{\"instances\"", AD_INVALID, "expected ':', got the end of the text"},
    {"words", "{\"instances\":", AD_INVALID, "instances must be a list, got nothing"},
    {"words", "{\"instances\":{}}", AD_INVALID, "must be a list, got an object"},
    {"words", "{\"instances\":[]}", AD_INVALID, "must have at least one entry"},
    {"words", "{\"instances\":[", AD_INVALID, "instances[0] must be a list"},
    {"words", "{\"instances\":[[[1,2]]", AD_INVALID, "expected ',' or ']', got the end"},
    {"words", "{\"instances\":[[[1,2]]]", AD_INVALID, "expected ',' or '}'"},
    {"words", "{\"instances\":[[[1,2]]]}x", AD_INVALID, "nothing after the JSON object"},
    {"words", "{\"instances\":[[[1,2]]],}", AD_INVALID, "a member's name"},
    {"words", "{\"instances\":[[[1,2]],]}", AD_INVALID,
     "instances[1] must be a list, got nothing"},
    {"words", "{\"instances\":[[[1,2]]],\"instances\":[[[1,2]]]}", AD_INVALID,
     "instances is given twice"},
    {"words", "{\"a\":tru,\"instances\":[[[1,2]]]}", AD_INVALID,
     "invalid JSON at offset"},
    {"words", "{\"a\":[1,2,\"instances\":[[[1,2]]]}", AD_INVALID,
     "invalid JSON at offset"},
    {"words", "{\"a\":,\"instances\":[[[1,2]]]}", AD_INVALID, "a value that ends"},
    {"words", "{\"\\ud800\":1,\"instances\":[[[1,2]]]}", AD_INVALID,
     "a valid member's name"},
    {"words", "{\"\xff\":1,\"instances\":[[[1,2]]]}", AD_INVALID,
     "a valid member's name"},
    {"words", "{\"a\x01\":1,\"instances\":[[[1,2]]]}", AD_INVALID,
     "a valid member's name"},
    {"words", "{a:1}", AD_INVALID, "a member's name in double quotes, got 'a'"},
    /* how deep */
    {"words", "{\"instances\":[5]}", AD_INVALID,
     "instances[0] must be a list, nested 2 deep (shape [-1,2] of one sample), got a "
     "number"},
    {"words", "{\"instances\":[\"x\"]}", AD_INVALID, "got a string"},
    {"words", "{\"instances\":[null]}", AD_INVALID, "got null"},
    {"words", "{\"instances\":[[1,2]]}", AD_INVALID,
     "instances[0] must be nested 2 deep (shape [-1,2] of one sample), got 1"},
    {"words", "{\"instances\":[[[[1,2]]]]}", AD_INVALID, "got 3"},
    {"words", "{\"instances\":[[[[[[[[[[[[1]]]]]]]]]]]]}", AD_INVALID, "got 8 or more"},
    {"words", "{\"instances\":[{\"input\":[1,2]}]}", AD_INVALID,
     "instances[0].input must be nested 2 deep"},
    /* ragged */
    {"words", "{\"instances\":[[[1,2],[3]]]}", AD_INVALID,
     "instances[0][1] must have length 2, as the first list in its place, got 1"},
    {"words", "{\"instances\":[[[1,2],[3,4,5]]]}", AD_INVALID,
     "instances[0][1] must have length 2, as the first list in its place, got more"},
    {"words", "{\"instances\":[[[1,2]],[[1,2],[3,4]]]}", AD_INVALID,
     "instances[1] must have length 1, as the first list in its place, got more"},
    {"words", "{\"instances\":[[[1,2],[3,4]],[[1,2]]]}", AD_INVALID,
     "instances[1] must have length 2, as the first list in its place, got 1"},
    {"words", "{\"instances\":[[[1,2]],[[1,[2]]]]}", AD_INVALID,
     "instances[1][0][1] must be a number, got a list"},
    {"words", "{\"instances\":[[[1,2],3]]}", AD_INVALID,
     "instances[0][1] must be a list, got a number"},
    {"words", "{\"instances\":[[],[[1,2]]]}", AD_INVALID,
     "instances[1] must have length 0"},
    {"words", "{\"instances\":[[[],[]],[[],[1]]]}", AD_INVALID,
     "instances[1][1] must have length 0"},
    {"words", "{\"instances\":[[[1,2]],5]}", AD_INVALID,
     "instances[1] must be a list, got a number"},
    {"relations", "{\"instances\":[" PLACE("1", "2") "}," PLACE("1", "2,3") "}]}",
     AD_INVALID, "instances[1].values[0][1] must have length 1"},
    /* a few long lists must not make room for many */
    {"words",
     "{\"instances\":[[[1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9],[],[],[],[],[],[],[],[]]]}",
     AD_INVALID, "instances[0][1] must have length 18"},
    /* elements */
    {"words", "{\"instances\":[[[1,\"2\"]]]}", AD_INVALID,
     "instances[0][0][1] must be a number, got a string"},
    {"words", "{\"instances\":[[[1,\"2,]\"],[3,4]]]}", AD_INVALID, "got a string"},
    {"words", "{\"instances\":[[[1,{\"a\":[1,2],\"b\":2}],[3,4]]]}", AD_INVALID,
     "got an object"},
    {"words", "{\"instances\":[[[1,true]]]}", AD_INVALID, "got a boolean"},
    {"words", "{\"instances\":[[[1,]]]}", AD_INVALID,
     "instances[0][0][1] must be a number, got nothing"},
    {"words", "{\"instances\":[[[1 2]]]}", AD_INVALID,
     "instances[0][0][0]: expected ',' or ']' behind it, got a number"},
    {"words", "{\"instances\":[[[1,NaN]]]}", AD_INVALID,
     "instances[0][0][1] is NaN, which JSON does not have"},
    {"words", "{\"instances\":[[[1,-Infinity]]]}", AD_INVALID, "is -Infinity"},
    {"words", "{\"instances\":[[[1,01]]]}", AD_INVALID, "must be a JSON number, got 01"},
    {"words", "{\"instances\":[[[1,1e39]]]}", AD_INVALID,
     "must be in the range of FP32, got 1e39"},
    {"relations", "{\"instances\":[" PLACE("1", "2") ",\"masked_elements\":[[0]]}]}",
     AD_INVALID,
     "instances[0].masked_elements[0][0] must be true or false, got a number"},
    {"relations",
     "{\"instances\":[" PLACE("1", "2") ",\"edges\":[[0,0,0.0]],\"edge_types\":[0]}]}",
     AD_INVALID, "instances[0].edges[0][2] must be an integer, got 0.0"},
    {"relations",
     "{\"instances\":[" PLACE("1", "2") ",\"edges\":[[0,0,9223372036854775808]]}]}",
     AD_INVALID, "must be in the range of INT64"},
    /* which inputs */
    {"relations", "{\"instances\":[[[[1]]]]}", AD_INVALID,
     "must be an object with the inputs of model 'relations' by name (it requires "
     "queries, "
     "keys, values), got a list"},
    {"relations", "{\"instances\":[{}]}", AD_INVALID, "queries"},
    {"relations", "{\"instances\":[" PLACE("1", "2") "},[[[1]]]]}", AD_INVALID,
     "instances[1] must be an object, as instances[0] is, got a list"},
    {"words", "{\"instances\":[[[1,2]],{\"input\":[[1,2]]}]}", AD_INVALID,
     "instances[1] must be a list, got an object"},
    {"words", "{\"instances\":[{\"input\":[[1,2]]},{}]}", AD_INVALID,
     "instances[1] has no input 'input', which instances[0] has"},
    {"words", "{\"instances\":[{\"inputs\":[[1,2]]}]}", AD_INVALID,
     "instances[0]: unknown input 'inputs'; model 'words' takes input"},
    {"words", "{\"instances\":[{\"input\":[[1,2]]},{\"x\":1}]}", AD_INVALID,
     "instances[1]: unknown input 'x'"},
    {"words", "{\"instances\":[{\"input\":[[1,2]],\"input\":[[1,2]]}]}", AD_INVALID,
     "instances[0]: input 'input' is given twice"},
    {"words",
     "{\"instances\":[{\"input\":[[1,2]]},{\"input\":[[1,2]],\"input\":[[1,2]]}]}",
     AD_INVALID, "instances[1]: input 'input' is given twice"},
    {"words", "{\"instances\":[{\"input\":[[1,2]],}]}", AD_INVALID, "a member's name"},
    {"words", "{\"instances\":[{\"input\":[[1,2]]]}", AD_INVALID, "expected ',' or '}'"},
    {"words", "{\"instances\":[{\"input\"[[1,2]]}]}", AD_INVALID, "expected ':'"},
    {"relations",
     "{\"instances\":[" PLACE("1", "2") "}," PLACE(
         "1", "2") ",\"masked_elements\":[[true]]}]}",
     AD_INVALID, "instances[1].masked_elements: instances[0] has no such input"},
    {"relations",
     "{\"instances\":[" PLACE("1", "2") ",\"edges\":[[0,0,0]],\"edge_types\":[0]}," PLACE(
         "1", "2") ",\"edges\":[[1,0,0]],\"edge_types\":[0]}]}",
     AD_INVALID, "instances[1].edges: an input without a batch axis is for all"},
    /* what the layer says */
    {"words", "{\"instances\":[[[1,2,3]]]}", AD_INVALID, "input"},
    {"relations",
     "{\"instances\":[" PLACE("1", "2") ",\"edges\":[[1,0,0]],\"edge_types\":[0]}]}",
     AD_INVALID, "edges"},
    {"scores",
     "{\"instances\":[{\"query\":[[3]],\"key\":[[1],[2]],\"mask\":[[true,false]]}]}",
     AD_NONFINITE,
     "output 'logits' holds -Infinity at [0,0,0], which JSON does not have; ask for it "
     "in "
     "binary, at /v2/models/MODEL/infer"},
    {"scores",
     "{\"instances\":[{\"query\":[[3]],\"key\":[[1],[2]],\"mask\":[[false,false]]},"
     "{\"query\":[[3]],\"key\":[[1],[2]],\"mask\":[[false,true]]}]}",
     AD_NONFINITE, "at [1,0,1]"},
};

START_TEST(what_is_refused)
{
    struct ad_request *request = serve(bad[_i].model, bad[_i].body, AD_FORM_PREDICT);
    ck_assert_msg(request->error.status == bad[_i].status, "%s: %d %s", bad[_i].body,
                  request->error.status, request->error.message);
    ck_assert_msg(strstr(request->error.message, bad[_i].message) != NULL,
                  "%s: %s, expected %s", bad[_i].body, request->error.message,
                  bad[_i].message);
    ck_assert_uint_eq(request->reply.size, 0);
    ad_request_free(request);
}
END_TEST

/* Every text that ends early is refused, and nothing is read behind its end. */
START_TEST(texts_cut_short)
{
    for (size_t i = 0; i < COUNT(good); i++) {
        char text[1024];
        const size_t n_text = (size_t)(strrchr(good[i].body, '}') - good[i].body);
        for (size_t n = 0; n <= n_text; n++) {
            ck_assert_uint_lt(n, sizeof text);
            memcpy(text, good[i].body, n);
            text[n] = '\0';
            struct ad_request *request = serve(good[i].model, text, AD_FORM_PREDICT);
            ck_assert_msg(request->error.status == AD_INVALID, "%s", text);
            ad_request_free(request);
        }
    }
}
END_TEST

START_TEST(a_sequence_is_refused)
{
    struct ad_version *version = fixture_growing();
    struct ad_request *request = fixture_json(version, "{\"instances\":[[[1,2]]]}");
    struct ad_serving serving = serving_make(1, 10000);
    request->form = AD_FORM_PREDICT;
    request->sequence_header = "17";
    ck_assert_int_eq(ad_serve_decode(&serving, request), AD_INVALID);
    ck_assert(strstr(request->error.message, "X-Sequence-Id") != NULL);
    ad_request_free(request);
    serving_reset(&serving);
    ad_version_release(version);
}
END_TEST

START_TEST(members_that_take_too_much)
{
    struct ad_buffer body;
    ad_buffer_init(&body);
    ck_assert(ad_buffer_printf(&body, "{\"a\":[0"));
    while (body.size < (1 << 20)) {
        ck_assert(ad_buffer_append(&body, ",0,0,0,0,0,0,0,0", 16));
    }
    ck_assert(ad_buffer_printf(&body, "],\"instances\":[[[1,2]]]}"));
    struct ad_request *request = serve("words", body.data, AD_FORM_PREDICT);
    ck_assert_int_eq(request->error.status, AD_TOO_LARGE);
    ad_request_free(request);
    ad_buffer_reset(&body);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("predict");
    TCase *tcase = tcase_create("predict");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, what_is_taken, 0, (int)COUNT(good));
    tcase_add_test(tcase, the_same_as_infer);
    tcase_add_test(tcase, many_instances);
    tcase_add_loop_test(tcase, what_is_refused, 0, (int)COUNT(bad));
    tcase_add_test(tcase, texts_cut_short);
    tcase_add_test(tcase, a_sequence_is_refused);
    tcase_add_test(tcase, members_that_take_too_much);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
