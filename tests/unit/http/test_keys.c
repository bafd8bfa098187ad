/* Is a file of keys read as it says, refused where it is unclear, and does each key open what it may? */
#include "http/keys.h"

#include "unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ABC \
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" /* of "abc" */
#define ONE \
    "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b" /* of "1" */
#define TWO \
    "D4735E3A265E16EEE03F59718B9B5D03019C07D8B6C51F90DA3A666EEC13AB35" /* of "2" */
#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

#define KEYS(items) "{\"keys\":[" items "]}"
#define KEY(name, hash, more) "{\"name\":\"" name "\",\"sha256\":\"" hash "\"" more "}"

/* Parse a copy that ends where the text does, for the sanitizers. */
static enum ad_status parse(const char *text, const struct ad_keys *before,
                            struct ad_keys **keys, struct ad_error *error)
{
    size_t n = strlen(text);
    char *copy = malloc(n > 0 ? n : 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, text, n);
    enum ad_status status =
        ad_keys_parse(n > 0 ? copy : NULL, n, "keys.json", before, keys, error);
    free(copy);
    ck_assert((status == AD_OK) == (*keys != NULL));
    return status;
}

static struct ad_keys *parse_good(const char *text, const struct ad_keys *before)
{
    struct ad_keys *keys = NULL;
    struct ad_error error = {.status = AD_OK};
    ck_assert_msg(parse(text, before, &keys, &error) == AD_OK, "%s", error.message);
    return keys;
}

START_TEST(finds)
{
    struct ad_keys *keys = parse_good(
        KEYS(KEY("a", ABC, "") "," KEY("b", ONE, "") "," KEY("c", TWO, "")), NULL);
    ck_assert_uint_eq(keys->n, 3);
    ck_assert_ptr_eq(ad_keys_find(keys, "abc", 3), &keys->items[0]);
    ck_assert_ptr_eq(ad_keys_find(keys, "1", 1), &keys->items[1]);
    ck_assert_ptr_eq(ad_keys_find(keys, "2", 1), &keys->items[2]);
    ck_assert_str_eq(keys->items[2].name, "c");
    ck_assert_ptr_null(ad_keys_find(keys, "3", 1));
    ck_assert_ptr_null(ad_keys_find(keys, "abc", 2));
    ck_assert_ptr_null(ad_keys_find(keys, "abc ", 4));
    ck_assert_ptr_null(ad_keys_find(keys, "", 0));
    ck_assert_ptr_null(ad_keys_find(keys, ABC, strlen(ABC)));
    ad_keys_release(keys);
}
END_TEST

/* A hash that differs in one bit only, wherever that is, is another one. */
START_TEST(every_bit_counts)
{
    struct ad_keys *keys = parse_good(KEYS(KEY("a", ABC, "")), NULL);
    unsigned char hash[AD_KEY_HASH_SIZE];
    ck_assert(ad_key_hash("abc", 3, hash));
    ck_assert_ptr_nonnull(ad_keys_find_hash(keys, hash));
    for (size_t bit = 0; bit < (size_t)8 * AD_KEY_HASH_SIZE; bit++) {
        hash[bit / 8] ^= (unsigned char)(1U << bit % 8);
        ck_assert_ptr_null(ad_keys_find_hash(keys, hash));
        hash[bit / 8] ^= (unsigned char)(1U << bit % 8);
    }
    ad_keys_release(keys);
}
END_TEST

START_TEST(long_keys)
{
    char text[AD_KEY_MAX_SIZE + 1];
    unsigned char hash[AD_KEY_HASH_SIZE];
    char hex[2 * AD_KEY_HASH_SIZE + 1];
    char file[256];
    memset(text, 'k', sizeof text);
    for (size_t n = AD_KEY_MAX_SIZE; n <= sizeof text; n++) {
        ck_assert(ad_key_hash(text, n, hash));
        for (size_t i = 0; i < AD_KEY_HASH_SIZE; i++) {
            snprintf(hex + 2 * i, 3, "%02x", hash[i]);
        }
        snprintf(file, sizeof file, KEYS(KEY("a", "%s", "")), hex);
        struct ad_keys *keys = parse_good(file, NULL);
        ck_assert_int_eq(ad_keys_find(keys, text, n) != NULL, n <= AD_KEY_MAX_SIZE);
        ad_keys_release(keys);
    }
}
END_TEST

static const struct {
    const char *more; /* members of the key */
    bool admin;
    int64_t interval_ns, capacity_ns;
    const char *allowed[4]; /* models */
    const char *refused[4];
} rights[] = {
    {"", false, 0, 0, {"mha", "x"}, {NULL}},
    {",\"admin\":false", false, 0, 0, {"mha"}, {NULL}},
    {",\"admin\":true,\"models\":[]", true, 0, 0, {NULL}, {"mha", "x"}},
    {",\"models\":[\"mha\",\"causal*\"]",
     false,
     0,
     0,
     {"mha", "causal", "causal-2"},
     {"mha2", "MHA", "causa", ""}},
    {",\"models\":[\"*\"]", false, 0, 0, {"mha", "x"}, {NULL}},
    {",\"rate\":1", false, 1000000000, 1000000000, {"x"}, {NULL}},
    {",\"rate\":2.5", false, 400000000, 1200000000, {"x"}, {NULL}},
    {",\"rate\":0.001",
     false,
     INT64_C(1000000000000),
     INT64_C(1000000000000),
     {"x"},
     {NULL}},
    {",\"rate\":1000000", false, 1000, 1000000000, {"x"}, {NULL}},
    {",\"burst\":3,\"rate\":1e1", false, 100000000, 300000000, {"x"}, {NULL}},
    {",\"rate\":0.5,\"burst\":1000000",
     false,
     2000000000,
     INT64_C(2000000000000000),
     {"x"},
     {NULL}},
};

START_TEST(reads_rights)
{
    char text[512];
    snprintf(text, sizeof text, KEYS(KEY("a", ABC, "%s")), rights[_i].more);
    struct ad_keys *keys = parse_good(text, NULL);
    const struct ad_key *key = &keys->items[0];
    ck_assert_int_eq(key->admin, rights[_i].admin);
    ck_assert_int_eq(key->limit.interval_ns, rights[_i].interval_ns);
    ck_assert_int_eq(key->limit.capacity_ns, rights[_i].capacity_ns);
    for (size_t i = 0; i < 4 && rights[_i].allowed[i]; i++) {
        ck_assert_msg(ad_key_allows(key, rights[_i].allowed[i]), "%s",
                      rights[_i].allowed[i]);
    }
    for (size_t i = 0; i < 4 && rights[_i].refused[i]; i++) {
        ck_assert_msg(!ad_key_allows(key, rights[_i].refused[i]), "%s",
                      rights[_i].refused[i]);
    }
    ad_keys_release(keys);
}
END_TEST

#define LONG8 "xxxxxxxx"
#define LONG65 LONG8 LONG8 LONG8 LONG8 LONG8 LONG8 LONG8 LONG8 "x"

static const struct {
    const char *text;
    const char *message; /* its beginning, behind "keys.json: " */
} bad[] = {
    {"", "line 1"},
    {"[]", "expected an object, got an array"},
    {"7", "line 1"},
    {"{}", "keys: expected a list of at least one key, got nothing"},
    {"{\"keys\":[]}", "keys: expected a list of at least one key"},
    {"{\"keys\":{}}", "keys: expected a list of at least one key, got an object"},
    {"{\"keys\":null}", "keys: expected a list"},
    {"{\"keys\":[],\"keys\":[]}", "line 1, column"},
    {"{\"key\":[]}", "key: unknown key, expected one of keys"},
    {KEYS(KEY("a", ABC, "")) "x", "line 1, column"},
    {KEYS("7"), "keys[0]: expected an object, got 7"},
    {KEYS(KEY("a", ABC, "") ",[]"), "keys[1]: expected an object, got an array"},
    {KEYS("{\"sha256\":\"" ABC "\"}"), "keys[0].name: expected a string"},
    {KEYS("{\"name\":\"a\"}"), "keys[0].sha256: expected the 64 hexadecimal digits"},
    {KEYS("{\"name\":7,\"sha256\":\"" ABC "\"}"), "keys[0].name: expected a string"},
    {KEYS(KEY("", ABC, "")), "keys[0].name: expected a string of 1 to 64 bytes"},
    {KEYS(KEY(LONG65, ABC, "")), "keys[0].name: expected a string of 1 to 64 bytes"},
    {KEYS(KEY("a\\u0000b", ABC, "")), "line 1, column"},
    {KEYS(KEY("a", "abc", "")), "keys[0].sha256: expected the 64 hexadecimal digits"},
    {KEYS(KEY("a", ABC "0", "")), "keys[0].sha256: expected"},
    {KEYS(KEY("a", "g" LONG65, "")), "keys[0].sha256: expected"},
    {KEYS(KEY("a", LONG8 LONG8 LONG8 LONG8 LONG8 LONG8 LONG8 LONG8, "")),
     "keys[0].sha256: expected"},
    {KEYS(KEY("a", EMPTY, "")), "keys[0].sha256: this is the hash of an empty key"},
    {KEYS(KEY("a", ABC, ",\"sha-256\":1")), "keys[0].sha-256: unknown key"},
    {KEYS(KEY("a", ABC, ",\"name\":\"b\"")), "line 1, column"},
    {KEYS(KEY("a", ABC, ",\"models\":\"mha\"")), "keys[0].models: expected a list"},
    {KEYS(KEY("a", ABC, ",\"models\":null")), "keys[0].models: expected a list"},
    {KEYS(KEY("a", ABC, ",\"models\":[\"x\",7]")), "keys[0].models[1]: expected a model"},
    {KEYS(KEY("a", ABC, ",\"models\":[\"\"]")), "keys[0].models[0]: expected a model"},
    {KEYS(KEY("a", ABC, ",\"models\":[\"a*b\"]")), "keys[0].models[0]: expected a model"},
    {KEYS(KEY("a", ABC, ",\"models\":[\"a**\"]")), "keys[0].models[0]: expected a model"},
    {KEYS(KEY("a", ABC, ",\"rate\":0")), "keys[0].rate: expected a number of requests"},
    {KEYS(KEY("a", ABC, ",\"rate\":-1")), "keys[0].rate: expected a number"},
    {KEYS(KEY("a", ABC, ",\"rate\":0.0001")), "keys[0].rate: expected a number"},
    {KEYS(KEY("a", ABC, ",\"rate\":1000001")), "keys[0].rate: expected a number"},
    {KEYS(KEY("a", ABC, ",\"rate\":\"100\"")),
     "keys[0].rate: expected a number of requests a second, 0.001..1000000, got \"100\""},
    {KEYS(KEY("a", ABC, ",\"rate\":null")), "keys[0].rate: expected a number"},
    {KEYS(KEY("a", ABC, ",\"rate\":1e999")), "line 1, column"},
    {KEYS(KEY("a", ABC, ",\"rate\":NaN")), "line 1, column"},
    {KEYS(KEY("a", ABC, ",\"burst\":5")), "keys[0].rate: missing"},
    {KEYS(KEY("a", ABC, ",\"rate\":1,\"burst\":0")),
     "keys[0].burst: expected an integer"},
    {KEYS(KEY("a", ABC, ",\"rate\":1,\"burst\":1.5")), "keys[0].burst: expected an"},
    {KEYS(KEY("a", ABC, ",\"rate\":1,\"burst\":1000001")), "keys[0].burst: expected an"},
    {KEYS(KEY("a", ABC, ",\"rate\":1,\"burst\":null")), "keys[0].burst: expected an"},
    {KEYS(KEY("a", ABC, ",\"admin\":1")), "keys[0].admin: expected true or false, got 1"},
    {KEYS(KEY("a", ABC, ",\"admin\":null")), "keys[0].admin: expected true or false"},
    {KEYS(KEY("a", ABC, "") "," KEY("b", ONE, "") "," KEY("a", TWO, "")),
     "keys[2].name: the same as that of keys[0]"},
    {KEYS(KEY("a", ABC, "") "," KEY("b", ONE, "") "," KEY("c", ONE, "")),
     "keys[2].sha256: the same as that of keys[1]"},
    {KEYS(KEY("a", ABC, "") "," KEY("b", ONE, "") "," KEY("c", TWO, "") "," KEY(
         "d", EMPTY, ",\"rate\":0")),
     "keys[3].sha256: this is the hash"},
};

START_TEST(refuses)
{
    struct ad_keys *keys = NULL;
    struct ad_error error = {.status = AD_OK};
    char message[256];
    ck_assert_int_eq(parse(bad[_i].text, NULL, &keys, &error), AD_INVALID);
    snprintf(message, sizeof message, "keys.json: %s", bad[_i].message);
    ck_assert_msg(strncmp(error.message, message, strlen(message)) == 0, "%s: %s",
                  bad[_i].text, error.message);
}
END_TEST

/* A key that stands in a wrong place: what is said of it must not show it. */
static const char *const misplaced[] = {
    KEYS(KEY("a", "the-secret", "")),
    KEYS(KEY("the-secret" LONG65, ABC, "")),
    KEYS("{\"name\":\"a\",\"sha256\":the-secret}"),
    KEYS("the-secret"),
    KEYS(KEY("a", ABC, "")) "\"the-secret\"",
    "{\"the-secret\":1,\"the-secret\":1}",
    "the-secret",
    "\"the-secret\"",
};

START_TEST(shows_no_key)
{
    struct ad_keys *keys = NULL;
    struct ad_error error = {.status = AD_OK};
    ck_assert_int_eq(parse(misplaced[_i], NULL, &keys, &error), AD_INVALID);
    ck_assert_msg(!strstr(error.message, "secret"), "%s", error.message);
    ck_assert_msg(strlen(error.message) > strlen("keys.json: line 1, column 1: "), "%s",
                  error.message);
}
END_TEST

START_TEST(refuses_nul)
{
    static const char text[] = KEYS(KEY("a", ABC, "")) "\0";
    struct ad_keys *keys = NULL;
    ck_assert_int_eq(ad_keys_parse(text, sizeof text, "keys.json", NULL, &keys, NULL),
                     AD_INVALID);
    ck_assert_ptr_null(keys);
}
END_TEST

/* A key goes on with the tokens that it has left, whatever else of it has changed. */
START_TEST(buckets_stay)
{
    struct ad_keys *old = parse_good(
        KEYS(KEY("a", ABC, ",\"rate\":1,\"burst\":2") "," KEY("b", ONE, "")), NULL);
    int64_t wait_ns = 0;
    ck_assert(ad_bucket_take(old->items[0].bucket, &old->items[0].limit, 5, &wait_ns));
    ck_assert(ad_bucket_take(old->items[0].bucket, &old->items[0].limit, 5, &wait_ns));
    struct ad_keys *keys = parse_good(
        KEYS(KEY("b", TWO, ",\"rate\":1") "," KEY("z", ABC, ",\"rate\":1,\"burst\":3")),
        old);
    ck_assert_ptr_eq(keys->items[1].bucket, old->items[0].bucket);
    ck_assert_ptr_ne(keys->items[0].bucket, old->items[1].bucket);
    ad_keys_release(old);
    ck_assert(ad_bucket_take(keys->items[0].bucket, &keys->items[0].limit, 5, &wait_ns));
    ck_assert(ad_bucket_take(keys->items[1].bucket, &keys->items[1].limit, 5, &wait_ns));
    ck_assert(!ad_bucket_take(keys->items[1].bucket, &keys->items[1].limit, 5, &wait_ns));
    ad_keys_release(keys);
    ad_keys_release(NULL);
}
END_TEST

START_TEST(files)
{
    char path[] = "/tmp/test_keys.XXXXXX";
    static const char text[] = KEYS(KEY("a", ABC, ""));
    struct ad_keys *keys = NULL;
    struct ad_error error = {.status = AD_OK};
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, sizeof text - 1), sizeof text - 1);
    ck_assert_int_eq(ad_keys_read(path, NULL, &keys, &error), AD_OK);
    ad_keys_release(keys);
    ck_assert_int_eq(ftruncate(fd, AD_KEYS_FILE_SIZE + 1), 0);
    ck_assert_int_eq(ad_keys_read(path, NULL, &keys, &error), AD_INVALID);
    ck_assert_ptr_null(keys);
    ck_assert_ptr_nonnull(strstr(error.message, path));
    close(fd);
    unlink(path);
    ad_error_clear(&error);
    ck_assert_int_eq(ad_keys_read(path, NULL, &keys, &error), AD_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.message, path));
    ck_assert_ptr_null(keys);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("keys");
    TCase *tcase = tcase_create("keys");
    tcase_add_test(tcase, finds);
    tcase_add_test(tcase, every_bit_counts);
    tcase_add_test(tcase, long_keys);
    tcase_add_loop_test(tcase, reads_rights, 0, sizeof rights / sizeof rights[0]);
    tcase_add_loop_test(tcase, refuses, 0, sizeof bad / sizeof bad[0]);
    tcase_add_loop_test(tcase, shows_no_key, 0, sizeof misplaced / sizeof misplaced[0]);
    tcase_add_test(tcase, refuses_nul);
    tcase_add_test(tcase, buckets_stay);
    tcase_add_test(tcase, files);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
