/* What does a lane do next, whom does it join, and who goes first? By table, with a clock that is
 * told. */
#include "sched/lane.h"
#include "sched/lanes.h"

#include "unit/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define US 1000
#define MAX_REQUESTS 12

static struct ad_version version;
static struct ad_request pool[MAX_REQUESTS];

static void setup(void)
{
    memset(&version, 0, sizeof version);
    memset(pool, 0, sizeof pool);
    version.settings = (struct ad_model_settings){.max_batch_rows = 100,
                                                  .max_batch_requests = 4,
                                                  .n_priorities = 3,
                                                  .default_priority = 2};
    version.stats = ad_stats_create();
    ck_assert_ptr_nonnull(version.stats);
}

static void teardown(void)
{
    ad_stats_release(version.stats);
}

/* Requests in words: "r" raw, "d" decoded; then rows (a number), "!" does not join, "^" first level,
 * "L" large, "P" packed; separated by blanks. Request i was pushed at i microseconds. */
static void fill(struct ad_lane *lane, const char *words)
{
    memset(lane, 0, sizeof *lane);
    lane->version = &version;
    for (size_t i = 0; *words && i < MAX_REQUESTS; i++) {
        struct ad_request *request = &pool[i];
        bool decoded = *words++ == 'd';
        *request = (struct ad_request){.version = &version, .joins = true, .level = 2};
        request->times.queued_ns = (int64_t)i * US;
        char *end;
        request->n_rows = strtoul(words, &end, 10);
        words = end;
        for (; *words && *words != ' '; words++) {
            request->joins = request->joins && *words != '!';
            request->level = *words == '^' ? 1 : request->level;
            request->coding = *words == 'P' ? AD_CODING_GZIP : request->coding;
            if (*words == 'L') {
                request->cost = 1e12;
                request->body.size = (size_t)1 << 30;
            }
        }
        words += *words == ' ';
        ad_requests_insert(decoded ? &lane->ready : &lane->raw, request);
    }
}

/* What is taken now, in words: "-" nothing, "w" waits, "r3" decodes request 3, "d1,4" runs 1 and 4. */
static void take(struct ad_lane *lane, int64_t now_ns, bool small_only, char text[64])
{
    int64_t until_ns = 0;
    struct ad_requests batch = {NULL, NULL, 0};
    switch (ad_lane_next(lane, now_ns, small_only, &until_ns)) {
    case AD_STEP_NONE:
        snprintf(text, 64, "-");
        return;
    case AD_STEP_WAIT:
        snprintf(text, 64, "w%lld", (long long)(until_ns / US));
        return;
    case AD_STEP_DECODE:
        snprintf(text, 64, "r%td", ad_lane_take_raw(lane, small_only) - pool);
        return;
    case AD_STEP_RUN:
        ad_lane_take_batch(lane, small_only, &batch);
        text[0] = '\0';
        for (const struct ad_request *r = batch.first; r; r = r->next) {
            size_t n = strlen(text);
            snprintf(text + n, 64 - n, "%s%td", n == 0 ? "d" : ",", r - pool);
        }
        return;
    }
}

static const struct {
    const char *waiting;
    size_t max_requests, max_rows;
    uint64_t delay_us;
    int64_t now_us;
    bool small_only;
    const char *expected; /* one step after the other, until nothing is left to do */
} steps[] = {
    {"", 4, 100, 0, 0, false, "-"},
    {"r1", 4, 100, 0, 0, false, "r0 -"},
    {"d1", 4, 100, 0, 0, false, "d0 -"},
    /* whatever is there is decoded first, then shares a pass */
    {"d1 r1 r1", 4, 100, 0, 0, false, "r1 r2 d0 -"},
    {"d1 d1 d1", 4, 100, 0, 0, false, "d0,1,2 -"},
    /* a full batch does not wait for what is raw */
    {"d1 d1 d1 d1 r1", 4, 100, 0, 0, false, "d0,1,2,3 r4 -"},
    {"d60 d60 r1", 4, 100, 0, 0, false, "d0 r2 d1 -"},
    {"d1 d1 d1 d1 d1", 4, 100, 0, 0, false, "d0,1,2,3 d4 -"},
    {"d60 d40 d1", 9, 100, 0, 0, false, "d0,1 d2 -"},
    {"d60 d41 d1", 9, 100, 0, 0, false, "d0 d1,2 -"},
    /* one that is too large runs alone, and so does one that does not join */
    {"d500 d1", 9, 100, 0, 0, false, "d0 d1 -"},
    {"d1! d1 d1", 9, 100, 0, 0, false, "d0 d1,2 -"},
    {"d1 d1! d1", 9, 100, 0, 0, false, "d0,2 d1 -"},
    {"d1 d1", 1, 100, 0, 0, false, "d0 d1 -"},
    /* what does not join is no reason to decode on, either */
    {"d1 d1! d1! d1! r1 r1", 4, 100, 0, 0, false, "d0 d1 d2 d3 r4 r5 -"},
    /* rows without number cannot overflow the sum */
    {"d18446744073709551615 d18446744073709551615", 9, 100, 0, 0, false, "d0 d1 -"},
    {"d1 d18446744073709551615", 9, 100, 0, 0, false, "d0 d1 -"},
    /* a delay counts from the oldest; a full batch does not wait, nor one behind raw ones */
    {"d1 d1", 9, 100, 50, 10, false, "w50"},
    {"d1 d1", 9, 100, 50, 50, false, "d0,1 -"},
    {"d60 d60", 9, 100, 50, 10, false, "d0 w51"},
    {"d1 r1", 9, 100, 50, 60, false, "r1 d0 -"},
    /* levels: the first goes first, raw or not */
    {"d1 d1^", 1, 100, 0, 0, false, "d1 d0 -"},
    {"r1 r1^", 4, 100, 0, 0, false, "r1 r0 -"},
    {"d60 d60 r1^", 4, 100, 0, 0, false, "r2 d0 d1 -"},
    {"d60^ d60 r1^", 4, 100, 0, 0, false, "d0 r2 d1 -"},
    /* small work alone */
    {"r1L d1L", 4, 100, 0, 0, true, "-"},
    {"r1P r1", 4, 100, 0, 0, true, "r1 -"}, /* who knows what is in it */
    {"r1L r1 d1L d1", 4, 100, 0, 0, true, "r1 d3 -"},
    {"r1L d1 d1L d1", 4, 100, 0, 0, true, "d1 d3 -"},
};

START_TEST(step_by_step)
{
    struct ad_lane lane;
    char all[256] = "", text[64];
    version.settings.max_batch_requests = steps[_i].max_requests;
    version.settings.max_batch_rows = steps[_i].max_rows;
    version.settings.max_queue_delay_us = steps[_i].delay_us;
    fill(&lane, steps[_i].waiting);
    do {
        size_t n = strlen(all);
        take(&lane, steps[_i].now_us * US, steps[_i].small_only, text);
        snprintf(all + n, sizeof all - n, "%s%s", n ? " " : "", text);
    } while (text[0] == 'r' || text[0] == 'd');
    ck_assert_str_eq(all, steps[_i].expected);
}
END_TEST

static const struct {
    uint64_t timeout_us, default_us, priority;
    int64_t now_ns, deadline_ns;
    unsigned level;
} admissions[] = {
    {0, 0, 0, 5, 0, 2},
    {7, 0, 0, 5, 7005, 2},
    {0, 9, 0, 5, 9005, 2},
    {20, 9, 0, 5, 20005, 2}, /* the request's own is honoured, shorter or longer */
    {UINT64_MAX, 0, 1, 5, 0, 1},
    {INT64_MAX / US + 1, 0, 3, 5, 0, 3},
    {0, 0, 4, 5, 0, 2}, /* no such level: the default one */
    {0, 0, UINT64_MAX, 5, 0, 2},
};

START_TEST(level_and_deadline)
{
    struct ad_request request = {.version = &version,
                                 .timeout_us = admissions[_i].timeout_us,
                                 .priority = admissions[_i].priority};
    version.settings.default_timeout_us = admissions[_i].default_us;
    ad_lane_admit(&request, admissions[_i].now_ns);
    ck_assert_int_eq(request.deadline_ns, admissions[_i].deadline_ns);
    ck_assert_uint_eq(request.level, admissions[_i].level);
}
END_TEST

START_TEST(expiry)
{
    struct ad_lane lane;
    struct ad_requests expired = {NULL, NULL, 0};
    fill(&lane, "r1 r1 d1 d1 r1");
    pool[0].deadline_ns = 100;
    pool[1].deadline_ns = 300;
    pool[2].deadline_ns = 200;
    pool[3].deadline_ns = 400;
    ck_assert_int_eq(ad_lane_expire(&lane, 99, &expired), 100);
    ck_assert_uint_eq(expired.n, 0);
    ck_assert_int_eq(ad_lane_expire(&lane, 200, &expired), 300);
    ck_assert_uint_eq(expired.n, 2);
    ck_assert_ptr_eq(expired.first, &pool[0]);
    ck_assert_ptr_eq(expired.last, &pool[2]);
    ck_assert_int_eq(ad_lane_expire(&lane, 400, &expired), INT64_MAX);
    ck_assert_uint_eq(expired.n, 4);
    ck_assert_uint_eq(lane.raw.n, 1); /* the one without a deadline */
    ck_assert_uint_eq(lane.ready.n, 0);
}
END_TEST

/* ---- lanes --------------------------------------------------------------------------------- */

static struct ad_version versions[3];

/* The versions' lanes with n raw requests each, which cost so much. */
struct flood {
    struct ad_lanes lanes;
    struct ad_lane *lane[3];
    int64_t cost_ns[3], spent_ns[3];
};

static void start_flood(struct flood *flood, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        versions[i] = version;
        flood->lane[i] = ad_lanes_get(&flood->lanes, &versions[i]);
        ck_assert_ptr_nonnull(flood->lane[i]);
        ck_assert_ptr_eq(ad_lanes_get(&flood->lanes, &versions[i]), flood->lane[i]);
    }
}

/* Serve for so long, every lane always having a request. */
static void run_flood(struct flood *flood, size_t n, int64_t duration_ns)
{
    for (int64_t now_ns = 0; now_ns < duration_ns;) {
        enum ad_step step;
        int64_t until_ns;
        for (size_t i = 0; i < n; i++) {
            if (flood->lane[i]->raw.n == 0) {
                pool[i] = (struct ad_request){.version = &versions[i]};
                ad_requests_append(&flood->lane[i]->raw, &pool[i]);
            }
        }
        struct ad_lane *lane =
            ad_lanes_choose(&flood->lanes, now_ns, false, &step, &until_ns);
        ck_assert_ptr_nonnull(lane);
        ck_assert_int_eq(step, AD_STEP_DECODE);
        size_t i = (size_t)(lane->version - versions);
        (void)ad_lane_take_raw(lane, false);
        lane->n_taken--;
        lane->spent_ns += flood->cost_ns[i];
        flood->spent_ns[i] += flood->cost_ns[i];
        now_ns += flood->cost_ns[i];
    }
}

static void end_flood(struct flood *flood, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        while (ad_requests_shift(&flood->lane[i]->raw)) {
        }
        ad_lanes_tidy(&flood->lanes, flood->lane[i]);
    }
    ck_assert_ptr_null(flood->lanes.first);
}

START_TEST(time_is_shared_evenly)
{
    struct flood flood = {.cost_ns = {1000, 70000, 333}};
    start_flood(&flood, 3);
    run_flood(&flood, 3, 30000000);
    for (size_t i = 0; i < 3; i++) {
        /* a third each, but for one request more or less of the dearest */
        ck_assert_int_gt(flood.spent_ns[i], 10000000 - 100000);
        ck_assert_int_lt(flood.spent_ns[i], 10000000 + 100000);
    }
    end_flood(&flood, 3);
}
END_TEST

START_TEST(having_been_idle_is_no_credit)
{
    struct flood flood = {.cost_ns = {1000, 1000, 1000}};
    start_flood(&flood, 2);
    run_flood(&flood, 2, 10000000);
    versions[2] = version;
    flood.lane[2] = ad_lanes_get(&flood.lanes, &versions[2]);
    run_flood(&flood, 3, 3000000);
    ck_assert_int_gt(flood.spent_ns[2], 900000);  /* served at once, ... */
    ck_assert_int_lt(flood.spent_ns[2], 1100000); /* ... and not more than the others */
    end_flood(&flood, 3);
}
END_TEST

START_TEST(a_lane_stays_while_anything_is_in_hand)
{
    struct ad_lanes lanes = {NULL, 0};
    struct ad_lane *lane = ad_lanes_get(&lanes, &version);
    pool[0] = (struct ad_request){.version = &version};
    ad_requests_append(&lane->raw, &pool[0]);
    ad_lanes_tidy(&lanes, lane);
    ck_assert_ptr_eq(lanes.first, lane);
    ck_assert_ptr_eq(ad_lane_take_raw(lane, false), &pool[0]);
    ad_lanes_tidy(&lanes, lane);
    ck_assert_ptr_eq(lanes.first, lane);
    lane->n_taken = 0;
    ad_lanes_tidy(&lanes, lane);
    ck_assert_ptr_null(lanes.first);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("sched/lane");
    TCase *c = tcase_create("lane");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, step_by_step, 0, sizeof steps / sizeof *steps);
    tcase_add_loop_test(c, level_and_deadline, 0, sizeof admissions / sizeof *admissions);
    tcase_add_test(c, expiry);
    tcase_add_test(c, time_is_shared_evenly);
    tcase_add_test(c, having_been_idle_is_no_credit);
    tcase_add_test(c, a_lane_stays_while_anything_is_in_hand);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return support_run(suite());
}
