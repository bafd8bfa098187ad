/* test_weights.c - safetensors files from disk, and the names a layer looks tensors up by. */
#include "attention.h"
#include "unit/lib/failing_malloc.h"
#include "unit/lib/safetensors_file.h"
#include "unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- names of a layer ------------------------------------------------------------------ */

START_TEST(prefix_and_renamed)
{
    static const char header[] = "{" TENSOR("enc.w", "U8", "[1]", "[0,1]") "," TENSOR(
        "w", "U8", "[1]", "[1,2]") "," TENSOR("other", "U8", "[1]", "[2,3]") "}";
    struct file file = make_file(header, strlen(header), 3);
    attn_weights *weights = parse_good(&file);
    struct attn_error error = {0};
    char name[2 * ATTN_NAME_SIZE];
    ck_assert_ptr_eq(attn_weights_find(weights, "w", name),
                     &attn_weights_at(weights, 1)->tensor);
    ck_assert_str_eq(name, "w");

    ck_assert_int_eq(attn_weights_set_prefix(weights, "enc.", &error), ATTN_OK);
    ck_assert_ptr_eq(attn_weights_find(weights, "w", name),
                     &attn_weights_at(weights, 0)->tensor);
    ck_assert_str_eq(name, "enc.w");
    ck_assert_ptr_null(attn_weights_find(weights, "b", name));
    ck_assert_str_eq(name, "enc.b");

    ck_assert_int_eq(attn_weights_rename(weights, "b", "other", &error), ATTN_OK);
    ck_assert_int_eq(attn_weights_rename(weights, "a", "w", &error), ATTN_OK);
    ck_assert_ptr_eq(attn_weights_find(weights, "b", name),
                     &attn_weights_at(weights, 2)->tensor);
    ck_assert_str_eq(name, "other");
    ck_assert_ptr_eq(attn_weights_find(weights, "a", NULL),
                     &attn_weights_at(weights, 1)->tensor);
    ck_assert_uint_eq(attn_weights_n_renamed(weights), 2);
    ck_assert_str_eq(attn_weights_renamed(weights, 0), "b");
    ck_assert_str_eq(attn_weights_renamed(weights, 1), "a");
    ck_assert_int_eq(error.status, ATTN_OK);

    ck_assert_int_eq(attn_weights_set_prefix(weights, "", NULL), ATTN_OK);
    ck_assert_ptr_eq(attn_weights_find(weights, "w", NULL),
                     &attn_weights_at(weights, 1)->tensor);
    attn_weights_free(weights);
    free(file.bytes);
}
END_TEST

START_TEST(names_that_are_refused)
{
    struct file file = make_file(NAMED("w"), strlen(NAMED("w")), 4);
    attn_weights *weights = parse_good(&file);
    struct attn_error error = {0};
    ck_assert_int_eq(attn_weights_rename(weights, "p", "x", &error), ATTN_MISSING);
    ck_assert_str_eq(error.field, "p");
    ck_assert_str_eq(error.message, "parameter \"p\": the weights have no tensor \"x\"");
    ck_assert_uint_eq(attn_weights_n_renamed(weights), 0);

    attn_error_clear(&error);
    ck_assert_int_eq(attn_weights_rename(weights, "p", "w", &error), ATTN_OK);
    ck_assert_int_eq(attn_weights_rename(weights, "p", "w", &error), ATTN_INVALID);
    ck_assert_str_eq(error.message, "parameter \"p\" was given a name twice");

    attn_error_clear(&error);
    ck_assert_int_eq(attn_weights_rename(weights, NAME_127 "7", "w", &error),
                     ATTN_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "is too long: 128 bytes, at most 127"));

    attn_error_clear(&error);
    ck_assert_int_eq(attn_weights_set_prefix(weights, NAME_127 "7", &error),
                     ATTN_INVALID);
    ck_assert_str_eq(error.field, "prefix");
    ck_assert_ptr_nonnull(strstr(error.message, "is too long: 128 bytes, at most 127"));

    /* the longest of both is too long for any tensor, but is no fault */
    char name[2 * ATTN_NAME_SIZE];
    ck_assert_int_eq(attn_weights_set_prefix(weights, NAME_127, NULL), ATTN_OK);
    ck_assert_ptr_null(attn_weights_find(weights, NAME_127, name));
    ck_assert_str_eq(name, NAME_127 NAME_127);
    attn_weights_free(weights);
    free(file.bytes);
}
END_TEST

/* ---- metadata -------------------------------------------------------------------------- */

/* More of them than are made room for at first, beside tensors. */
START_TEST(metadata_is_found)
{
    static const char header[] =
        "{\"__metadata__\":{\"a\":\"1\",\"b\\u00e4\":\"\\n\",\"a\":\"2\",\"nul\":"
        "\"x\\u0000y\","
        "\"n\\u0000\":\"z\",\"\":\"empty\",\"c\":\"\",\"d\":\"4\",\"e\":\"5\",\"f\":"
        "\"6\","
        "\"g\":\"7\",\"h\":\"8\"}," TENSOR("w", "U8", "[4]", "[0,4]") "}";
    struct file file = make_file(header, sizeof header - 1, 4);
    attn_weights *weights = parse_good(&file);
    ck_assert_str_eq(attn_weights_metadata(weights, "a"), "1");
    ck_assert_str_eq(attn_weights_metadata(weights, "b\xc3\xa4"), "\n");
    ck_assert_ptr_null(attn_weights_metadata(weights, "nul"));
    ck_assert_ptr_null(attn_weights_metadata(weights, "n"));
    ck_assert_ptr_null(attn_weights_metadata(weights, "w"));
    ck_assert_str_eq(attn_weights_metadata(weights, ""), "empty");
    ck_assert_str_eq(attn_weights_metadata(weights, "c"), "");
    ck_assert_str_eq(attn_weights_metadata(weights, "h"), "8");
    ck_assert_str_eq(attn_weights_at(weights, 0)->name, "w");
    attn_weights_free(weights);
    free(file.bytes);
    file = make_file("{}", 2, 0);
    weights = parse_good(&file);
    ck_assert_ptr_null(attn_weights_metadata(weights, "a"));
    attn_weights_free(weights);
    free(file.bytes);
}
END_TEST

/* ---- from disk ------------------------------------------------------------------------- */

static char folder[] = "/tmp/attention-weights-XXXXXX";
static char path[64];

static void make_folder(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
}

static void remove_folder(void)
{
    remove(path);
    rmdir(folder);
    strcpy(strrchr(folder, '-'), "-XXXXXX");
}

static void check_unreadable(const char *name, const char *reason)
{
    struct attn_error error = {0};
    attn_weights *weights;
    char message[512];
    snprintf(message, sizeof message, "cannot read \"%s\": %s", name, reason);
    ck_assert_int_eq(attn_weights_read(name, &weights, &error), ATTN_IO);
    ck_assert_str_eq(error.message, message);
    ck_assert_ptr_null(weights);
}

static void write_file(const struct file *file)
{
    FILE *stream = fopen(path, "wb");
    ck_assert(stream && fwrite(file->bytes, 1, file->n_bytes, stream) == file->n_bytes);
    ck_assert_int_eq(fclose(stream), 0);
}

START_TEST(read_file)
{
    struct file file = make_file(TWO_TENSORS, strlen(TWO_TENSORS), 11);
    write_file(&file);
    struct attn_error error = {0};
    attn_weights *weights;
    ck_assert_int_eq(attn_weights_read(path, &weights, &error), ATTN_OK);
    ck_assert_int_eq(truncate(path, 0), 0);
    ck_assert_mem_eq(attn_weights_find(weights, "late", NULL)->data,
                     "\3\4\5\6\7\10\11\12", 8);
    attn_weights_free(weights);
    ck_assert_int_eq(attn_weights_read(path, &weights, &error), ATTN_FORMAT);
    ck_assert_str_eq(error.message,
                     "file of 0 bytes is too short for a safetensors file");
    free(file.bytes);
}
END_TEST

START_TEST(unreadable_files)
{
    check_unreadable(path, "No such file or directory");
    check_unreadable(folder, "it is not a regular file");
    check_unreadable("/dev/null", "it is not a regular file");
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    check_unreadable(path, "it is not a regular file");
    remove(path);
    ck_assert_int_eq(symlink(path, path), 0);
    check_unreadable(path, "Too many levels of symbolic links");
    /* said to have no bytes, and has some */
    check_unreadable("/proc/self/status", "it grew while it was read");
    /* said to have a page, and has a few bytes */
    if (access("/sys/devices/system/cpu/online", R_OK) == 0) {
        check_unreadable("/sys/devices/system/cpu/online", "it shrank while it was read");
    }
}
END_TEST

START_TEST(long_path_keeps_the_reason)
{
    char name[1000];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    struct attn_error error = {0};
    attn_weights *weights;
    ck_assert_int_eq(attn_weights_read(name, &weights, &error), ATTN_IO);
    ck_assert_ptr_nonnull(strstr(error.message, "xxx\": File name too long"));
}
END_TEST

/* ---- memory and time ------------------------------------------------------------------- */

#define N_MANY 40

/* Many tensors, so that the table has to grow. */
static struct file make_many(size_t n)
{
    size_t size = 100 * n + 2;
    char *header = malloc(size);
    ck_assert(header);
    size_t used = 0;
    header[used++] = '{';
    for (size_t i = 0; i < n; i++) { /* in an order that is neither sorted nor reversed */
        size_t at = i * 7919 % n;
        used += (size_t)snprintf(
            header + used, size - used,
            "%s\"t%zu\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}",
            i ? "," : "", at, at, at + 1);
    }
    header[used++] = '}';
    struct file file = make_file(header, used, n);
    free(header);
    return file;
}

/* All that allocates, on the file at path; the first failure ends it. */
static enum attn_status use(struct attn_error *error)
{
    attn_weights *weights;
    enum attn_status status = attn_weights_read(path, &weights, error);
    char name[] = "a";
    for (; status == ATTN_OK && *name <= 'e'; ++*name) {
        status = attn_weights_rename(weights, name, "t3", error);
    }
    attn_weights_free(weights);
    return status;
}

START_TEST(every_allocation_fails)
{
    struct file file = make_many(N_MANY);
    write_file(&file);
    free(file.bytes);
    size_t n = 0;
    for (bool failed = FAILING_MALLOC; failed; n++) {
        struct attn_error error = {0};
        failing_malloc_begin(n);
        enum attn_status status = use(&error);
        long n_live;
        failed = failing_malloc_end(&n_live);
        ck_assert_int_eq(status, failed ? ATTN_NO_MEMORY : ATTN_OK);
        ck_assert_int_eq(error.status, status);
        ck_assert_int_eq(n_live, 0);
    }
    /* file, handle, names, table twice, two orders, five renamed with array and name */
    ck_assert(!FAILING_MALLOC || n > 15);
}
END_TEST

START_TEST(a_million_tensors)
{
    size_t n = 1000000;
    struct file file = make_many(n);
    struct timespec start, end;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    attn_weights *weights = parse_good(&file);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    ck_assert_uint_eq(attn_weights_count(weights), n);
    for (size_t i = 0; i < n; i += 9973) {
        char name[32];
        snprintf(name, sizeof name, "t%zu", i);
        ck_assert_str_eq(attn_weights_at(weights, i)->name, name);
        ck_assert_ptr_nonnull(attn_weights_find(weights, name, NULL));
    }
    /* A second or two; anything quadratic takes hours. */
    ck_assert_int_lt(end.tv_sec - start.tv_sec, 60);
    attn_weights_free(weights);
    free(file.bytes);
}
END_TEST

int main(void)
{
    TCase *layer = tcase_create("names");
    tcase_add_test(layer, prefix_and_renamed);
    tcase_add_test(layer, names_that_are_refused);
    tcase_add_test(layer, metadata_is_found);
    TCase *disk = tcase_create("disk");
    tcase_add_checked_fixture(disk, make_folder, remove_folder);
    tcase_add_test(disk, read_file);
    tcase_add_test(disk, unreadable_files);
    tcase_add_test(disk, long_path_keeps_the_reason);
    tcase_add_test(disk, every_allocation_fails);
    TCase *large = tcase_create("large");
    tcase_set_timeout(large, 120);
    tcase_add_test(large, a_million_tensors);
    Suite *suite = suite_create("weights");
    suite_add_tcase(suite, layer);
    suite_add_tcase(suite, disk);
    suite_add_tcase(suite, large);
    return support_run(suite);
}
