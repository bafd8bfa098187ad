/* Does the watchdog look often enough to be heard in time, also after a miss, and never when nobody
 * listens? */
#include "base/watchdog.h"

#include "unit/support.h"

#define NS_PER_S INT64_C(1000000000)

START_TEST(nobody_listens)
{
    struct ad_watchdog watchdog;
    ad_watchdog_start(&watchdog, 0, 5 * NS_PER_S);
    ck_assert(!ad_watchdog_is_due(&watchdog, INT64_MAX - 1));
}
END_TEST

START_TEST(answers)
{
    struct ad_watchdog watchdog;
    int64_t now_ns = 100 * NS_PER_S;
    ad_watchdog_start(&watchdog, 20 * NS_PER_S, now_ns);
    for (int i = 0; i < 5; i++) {
        ck_assert(!ad_watchdog_is_due(&watchdog, now_ns));
        ck_assert(!ad_watchdog_is_due(&watchdog, now_ns + 10 * NS_PER_S - 1));
        ck_assert(ad_watchdog_is_due(&watchdog, now_ns + 10 * NS_PER_S));
        now_ns += 10 * NS_PER_S;
        ad_watchdog_note(&watchdog, true, now_ns);
    }
}
END_TEST

/* One miss, as long as a look may take, and an answer to the next: heard within the interval. */
START_TEST(one_miss)
{
    static const int64_t intervals_ns[] = {NS_PER_S / 1000, NS_PER_S, 30 * NS_PER_S,
                                           3600 * NS_PER_S};
    for (size_t i = 0; i < sizeof intervals_ns / sizeof intervals_ns[0]; i++) {
        struct ad_watchdog watchdog;
        int64_t interval_ns = intervals_ns[i];
        ad_watchdog_start(&watchdog, interval_ns, 0);
        int64_t now_ns = watchdog.next_ns + ad_watchdog_patience_ns(&watchdog);
        ad_watchdog_note(&watchdog, false, now_ns);
        ck_assert(!ad_watchdog_is_due(&watchdog, now_ns));
        ck_assert_int_gt(watchdog.next_ns, now_ns);
        ck_assert_int_lt(watchdog.next_ns, interval_ns);
        now_ns = watchdog.next_ns;
        ad_watchdog_note(&watchdog, true, now_ns);
        ck_assert_int_eq(watchdog.next_ns, now_ns + interval_ns / 2);
    }
}
END_TEST

/* It goes on looking as long as there is no answer. */
START_TEST(many_misses)
{
    struct ad_watchdog watchdog;
    int64_t now_ns = 0;
    ad_watchdog_start(&watchdog, 8 * NS_PER_S, now_ns);
    for (int i = 0; i < 100; i++) {
        now_ns = watchdog.next_ns;
        ck_assert(ad_watchdog_is_due(&watchdog, now_ns));
        ad_watchdog_note(&watchdog, false, now_ns);
    }
    ck_assert_int_eq(now_ns, 4 * NS_PER_S + 99 * NS_PER_S);
}
END_TEST

START_TEST(patience)
{
    struct ad_watchdog watchdog;
    ad_watchdog_start(&watchdog, 20 * NS_PER_S, 0);
    ck_assert_int_eq(ad_watchdog_patience_ns(&watchdog), 5 * NS_PER_S);
    ad_watchdog_start(&watchdog, 86400 * NS_PER_S, 0);
    ck_assert_int_le(ad_watchdog_patience_ns(&watchdog), 10 * NS_PER_S);
    /* as long as a number goes */
    ad_watchdog_start(&watchdog, INT64_MAX, INT64_MAX - 1);
    ck_assert_int_eq(watchdog.next_ns, INT64_MAX);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("watchdog");
    TCase *tcase = tcase_create("watchdog");
    tcase_add_test(tcase, nobody_listens);
    tcase_add_test(tcase, answers);
    tcase_add_test(tcase, one_miss);
    tcase_add_test(tcase, many_misses);
    tcase_add_test(tcase, patience);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
