/* A call that stays awake: who has it when, by the states that need no connection. */
#include "http/parking.h"
#include "unit/support.h"

#include <pthread.h>

START_TEST(answered_while_awake)
{
    struct ad_parking_luck luck = {0};
    struct ad_parking parking = {0};
    ck_assert(!ad_parking_waits(&parking, NULL));
    ck_assert(!ad_parking_abandon(&parking));
    ad_parking_begin(&parking, &luck, NULL, true);
    parking.awake_until_ns = INT64_MAX; /* a busy machine may be slow */
    ck_assert(ad_parking_waits(&parking, NULL));
    ck_assert(ad_parking_end(&parking, NULL));
    ck_assert(!ad_parking_waits(&parking, NULL));
    ck_assert(!ad_parking_abandon(&parking));
    ck_assert_uint_eq(atomic_load(&luck.n_asleep), 0);
}
END_TEST

START_TEST(refused)
{
    struct ad_parking_luck luck = {0};
    struct ad_parking parking = {0};
    ad_parking_begin(&parking, &luck, NULL, true);
    ad_parking_undo(&parking, NULL);
    ck_assert(!ad_parking_waits(&parking, NULL));
    ck_assert(!ad_parking_abandon(&parking));
}
END_TEST

START_TEST(abandoned)
{
    struct ad_parking_luck luck = {0};
    struct ad_parking parking = {0};
    ad_parking_begin(&parking, &luck, NULL, true);
    ck_assert(ad_parking_abandon(&parking));
    ck_assert_msg(!ad_parking_end(&parking, NULL), "the worker has to free it");
}
END_TEST

struct race {
    struct ad_parking parking;
    bool is_mine;
};

static void *end(void *context)
{
    struct race *race = context;
    race->is_mine = !ad_parking_end(&race->parking, NULL);
    return NULL;
}

/* Whatever comes first, exactly one side has the call in the end. */
START_TEST(one_side_frees)
{
    struct ad_parking_luck luck = {0};
    for (int i = 0; i < 2000; i++) {
        struct race race = {.is_mine = false};
        pthread_t thread;
        ad_parking_begin(&race.parking, &luck, NULL, true);
        ck_assert_int_eq(pthread_create(&thread, NULL, end, &race), 0);
        bool is_theirs = ad_parking_abandon(&race.parking);
        pthread_join(thread, NULL);
        ck_assert_int_eq(race.is_mine, is_theirs);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("parking");
    TCase *tests = tcase_create("parking");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, answered_while_awake);
    tcase_add_test(tests, refused);
    tcase_add_test(tests, abandoned);
    tcase_add_test(tests, one_side_frees);
    suite_add_tcase(suite, tests);
    return support_run(suite);
}
