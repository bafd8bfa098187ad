/* test_move.c - sequences that leave a daemon, come into it and are forgotten, from bytes to bytes. */
#include "codec/sequence_file.h"
#include "unit/codec/serving.h"
#include "unit/support.h"

static struct ad_version *growing, *same, *relations;
static struct ad_serving from, to;
static struct ad_worker worker;

static void setup(void)
{
    growing = fixture_growing();
    same = fixture_growing(); /* another process's, or the same after a reload */
    relations = fixture_relational();
    from = serving_make(2, 1 << 20);
    to = serving_make(2, 1 << 20);
    worker = (struct ad_worker){.team = {.n_workers = 1}};
}

static void teardown(void)
{
    serving_reset(&from);
    serving_reset(&to);
    ad_version_release(growing);
    ad_version_release(same);
    ad_version_release(relations);
    ad_scratch_reset(&worker.scratch);
    ad_scratch_reset(&worker.records);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void must(const struct ad_request *request)
{
    ck_assert_msg(request->error.status == AD_OK, "%s", request->error.message);
    ck_assert_ptr_null(request->sequence);
}

static struct ad_request *step(struct ad_serving *serving, struct ad_version *version,
                               size_t n, const char *parameters)
{
    static const float numbers[2 * 200] = {1, 2, 3, -1, 0.5f, 7};
    char json[512];
    int n_json = snprintf(
        json, sizeof json,
        "{\"inputs\":[{\"name\":\"input\",\"datatype\":\"FP32\",\"shape\":[1,%zu,"
        "2],\"parameters\":{\"binary_data_size\":%zu}}],\"parameters\":{\"binary_"
        "data_output\":true,%s}}",
        n, n * 8, parameters);
    struct ad_request *request =
        fixture_request(version, json, (size_t)n_json, numbers, n * 8);
    serving_serve(serving, request, &worker);
    return request;
}

static void must_step(struct ad_serving *serving, struct ad_version *version, size_t n,
                      const char *parameters)
{
    struct ad_request *request = step(serving, version, n, parameters);
    must(request);
    ad_request_free(request);
}

static struct ad_request *make_move(struct ad_version *version, enum ad_move which,
                                    const char *id, const void *bytes, size_t n)
{
    struct ad_request *request = fixture_request(version, bytes, n, "", 0);
    request->move = which;
    request->sequence_call.id = id;
    return request;
}

static struct ad_request *move(struct ad_serving *serving, struct ad_version *version,
                               enum ad_move which, const char *id, const void *bytes,
                               size_t n)
{
    struct ad_request *request = make_move(version, which, id, bytes, n);
    enum ad_status status = ad_serve_decode(serving, request);
    ck_assert_int_eq(status, request->error.status);
    ck_assert_ptr_null(request->sequence);
    ck_assert(status == AD_OK || !request->reply.data);
    return request;
}

static void must_move(struct ad_serving *serving, struct ad_version *version,
                      enum ad_move which, const char *id, const struct ad_buffer *file)
{
    struct ad_request *request =
        move(serving, version, which, id, file ? file->data : "", file ? file->size : 0);
    must(request);
    ad_request_free(request);
}

static void refuse(struct ad_serving *serving, struct ad_version *version,
                   enum ad_move which, const char *id, const struct ad_buffer *file,
                   enum ad_status status, const char *code)
{
    struct ad_request *request =
        move(serving, version, which, id, file ? file->data : "", file ? file->size : 0);
    ck_assert_msg(request->error.status == status, "%s", request->error.message);
    ck_assert_str_eq(request->error.code ? request->error.code : "", code);
    ad_request_free(request);
}

/* What a sequence keeps, as a file. */
static struct ad_buffer file_of(struct ad_serving *serving, struct ad_version *version,
                                const char *id)
{
    struct ad_request *request = move(serving, version, AD_MOVE_EXPORT, id, "", 0);
    must(request);
    struct ad_buffer file = request->reply;
    ck_assert_uint_eq(request->n_reply_json, 0);
    ad_buffer_init(&request->reply);
    ad_request_free(request);
    return file;
}

static bool is_kept(struct ad_serving *serving, struct ad_version *version,
                    const char *id, size_t length)
{
    struct ad_sequences_view view;
    bool found = false;
    ck_assert_int_eq(ad_sequences_view(serving->sequences, version, 0, &view, NULL),
                     AD_OK);
    for (size_t i = 0; i < view.n; i++) {
        ck_assert(!view.items[i].busy);
        found = found ||
                (strcmp(view.items[i].id, id) == 0 && view.items[i].length == length);
    }
    ad_sequences_view_reset(&view);
    return found;
}

#define START "\"sequence_id\":7,\"sequence_start\":true"
#define GO_ON "\"sequence_id\":\"7\""

/* ---- what holds ------------------------------------------------------------------------------ */

START_TEST(goes_on_elsewhere)
{
    must_step(&from, growing, 65, START);
    struct ad_buffer file = file_of(&from, growing, "7");
    struct ad_request *taken = move(&to, same, AD_MOVE_IMPORT, "7", file.data, file.size);
    must(taken);
    ck_assert_uint_eq(taken->n_reply_json, taken->reply.size);
    ck_assert_ptr_eq(strstr(taken->reply.data, "{\"id\":\"7\",\"length\":65,\"bytes\":"),
                     taken->reply.data);
    ad_request_free(taken);
    for (size_t n = 1; n < 4; n++) {
        struct ad_request *stayed = step(&from, growing, n, GO_ON),
                          *went = step(&to, same, n, GO_ON);
        must(stayed);
        must(went);
        ck_assert_uint_eq(stayed->reply.size, went->reply.size);
        ck_assert_mem_eq(stayed->reply.data, went->reply.data, went->reply.size);
        ad_request_free(stayed);
        ad_request_free(went);
    }
    struct ad_buffer files[] = {file_of(&from, growing, "7"), file_of(&to, same, "7")};
    ck_assert_uint_eq(files[0].size, files[1].size);
    ck_assert_mem_eq(files[0].data, files[1].data, files[0].size);
    ck_assert(is_kept(&to, same, "7", 71));
    ad_buffer_reset(&files[0]);
    ad_buffer_reset(&files[1]);
    ad_buffer_reset(&file);
}
END_TEST

START_TEST(replaces_and_forgets)
{
    must_step(&from, growing, 3, START);
    struct ad_buffer file = file_of(&from, growing, "7");
    must_step(&from, growing, 2, GO_ON);
    ck_assert(is_kept(&from, growing, "7", 5));
    must_move(&from, growing, AD_MOVE_IMPORT, "7", &file);
    ck_assert(is_kept(&from, growing, "7", 3));
    ck_assert_uint_eq(ad_sequences_count(from.sequences).n, 1);
    must_move(&from, growing, AD_MOVE_FORGET, "7", NULL);
    ck_assert_uint_eq(ad_sequences_count(from.sequences).n, 0);
    ck_assert_uint_eq(ad_sequences_count(from.sequences).n_bytes, 0);
    refuse(&from, growing, AD_MOVE_FORGET, "7", NULL, AD_CONFLICT, "sequence_lost");
    refuse(&from, growing, AD_MOVE_EXPORT, "7", NULL, AD_CONFLICT, "sequence_lost");
    ad_buffer_reset(&file);
}
END_TEST

START_TEST(busy_is_left_alone)
{
    must_step(&from, growing, 3, START);
    struct ad_buffer file = file_of(&from, growing, "7");
    struct ad_request *holder = make_move(growing, AD_MOVE_EXPORT, "7", "", 0);
    ck_assert_int_eq(ad_sequences_take(from.sequences, holder, 0, NULL), AD_OK);
    refuse(&from, growing, AD_MOVE_EXPORT, "7", NULL, AD_CONFLICT, "sequence_busy");
    refuse(&from, growing, AD_MOVE_IMPORT, "7", &file, AD_CONFLICT, "sequence_busy");
    refuse(&from, growing, AD_MOVE_FORGET, "7", NULL, AD_CONFLICT, "sequence_busy");
    struct ad_sequences_view view;
    ck_assert_int_eq(ad_sequences_view(from.sequences, growing, 0, &view, NULL), AD_OK);
    ck_assert_uint_eq(view.n, 1);
    ck_assert(view.items[0].busy);
    ad_sequences_view_reset(&view);
    ad_sequences_give(holder, 0);
    ad_request_free(holder);
    ck_assert(is_kept(&from, growing, "7", 3));
    ad_buffer_reset(&file);
}
END_TEST

START_TEST(bad_files_change_nothing)
{
    must_step(&from, growing, 3, START);
    struct ad_buffer file = file_of(&from, growing, "7");
    struct ad_buffer cut = file;
    for (cut.size = 0; cut.size < file.size; cut.size++) {
        refuse(&from, growing, AD_MOVE_IMPORT, "7", &cut, AD_INVALID, "");
    }
    refuse(&from, relations, AD_MOVE_IMPORT, "7", &file, AD_CONFLICT,
           "sequence_mismatch");
    ck_assert(is_kept(&from, growing, "7", 3));
    ck_assert_uint_eq(ad_sequences_count(from.sequences).n, 1);
    ad_buffer_reset(&file);
}
END_TEST

START_TEST(limits_hold)
{
    must_step(&from, growing, 3, START);
    struct ad_buffer file = file_of(&from, growing, "7");
    must_move(&from, growing, AD_MOVE_IMPORT, "8", &file);
    refuse(&from, growing, AD_MOVE_IMPORT, "9", &file, AD_UNAVAILABLE, "sequence_limit");
    struct ad_serving small = serving_make(2, 100);
    refuse(&small, growing, AD_MOVE_IMPORT, "7", &file, AD_TOO_LARGE,
           "sequence_too_large");
    ck_assert_uint_eq(ad_sequences_count(small.sequences).n, 0);
    serving_reset(&small);
    struct ad_request *request = make_move(growing, AD_MOVE_EXPORT, "7", "", 0);
    request->max_output_bytes = 47;
    ck_assert_int_eq(ad_serve_decode(&from, request), AD_TOO_LARGE);
    ck_assert(strstr(request->error.message, "keeps 48 bytes"));
    ck_assert_ptr_null(request->reply.data);
    ad_request_free(request);
    ad_buffer_reset(&file);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("move");
    TCase *tcase = tcase_create("move");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, goes_on_elsewhere);
    tcase_add_test(tcase, replaces_and_forgets);
    tcase_add_test(tcase, busy_is_left_alone);
    tcase_add_test(tcase, bad_files_change_nothing);
    tcase_add_test(tcase, limits_hold);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
