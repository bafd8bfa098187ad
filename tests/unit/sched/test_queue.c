/* Is what waits taken in order, together, within its limits and deadlines, and by whoever is free? On
 * one thread, step by step; test_queue_threads.c has many. */
#include "sched/queue.h"

#include "unit/sched/fixture.h"

static struct ad_queue *queue;
static struct ad_version *a, *b;
static struct ad_work work;

static void setup(void)
{
    queue = ad_queue_create(4);
    ck_assert_ptr_nonnull(queue);
    a = fixture_version("a");
    b = fixture_version("b");
    work = (struct ad_work){.kind = AD_WORK_END};
}

/* What was taken is given back, and nothing must be left. */
static void teardown(void)
{
    ad_queue_take_small(queue, &work);
    ck_assert_int_eq(work.kind, AD_WORK_END);
    ck_assert_uint_eq(ad_queue_length(queue), 0);
    ad_queue_free(queue);
    fixture_check_gauges(a, 0, 0);
    fixture_check_gauges(b, 0, 0);
    ad_version_release(a);
    ad_version_release(b);
}

static struct ad_request *push(struct ad_version *version)
{
    return fixture_push(queue, fixture_request(version));
}

/* The request that is to be decoded next. */
static struct ad_request *take_decode(void)
{
    ad_queue_take(queue, false, &work);
    ck_assert_int_eq(work.kind, AD_WORK_DECODE);
    ck_assert_uint_eq(work.requests.n, 1);
    ck_assert_uint_eq(work.expired.n, 0);
    return ad_requests_shift(&work.requests);
}

/* Decode what comes next, which must be the request. */
static void decode(struct ad_request *request)
{
    ck_assert_ptr_eq(take_decode(), request);
    work.decoded = request;
}

/* Decode it, which fails. */
static void drop(struct ad_request *request)
{
    ck_assert_ptr_eq(take_decode(), request);
    ad_request_free(request);
}

/* Run what comes next: n requests, the first of which is this one. */
static void run(struct ad_request *first, size_t n)
{
    ad_queue_take(queue, false, &work);
    ck_assert_int_eq(work.kind, AD_WORK_RUN);
    ck_assert_ptr_eq(work.requests.first, first);
    ck_assert_uint_eq(fixture_free_all(&work.requests), n);
}

/* The request is refused, with this code, and stays the caller's. */
static void check_refused(struct ad_version *version, const char *code, const char *part)
{
    struct ad_error error = {.status = AD_OK};
    struct ad_request *request = fixture_request(version), *kept = request;
    ck_assert_int_eq(ad_queue_push(queue, &request, &error), AD_UNAVAILABLE);
    ck_assert_ptr_eq(request, kept);
    ck_assert_str_eq(error.code, code);
    ck_assert_msg(strstr(error.message, part) != NULL, "%s", error.message);
    ad_request_free(request);
}

/* ---- order ----------------------------------------------------------------------------------- */

START_TEST(decoded_one_by_one_then_run_together)
{
    struct ad_request *requests[4];
    for (size_t i = 0; i < 4; i++) {
        requests[i] = push(a);
    }
    fixture_check_gauges(a, 4, 0);
    for (size_t i = 0; i < 4; i++) {
        decode(requests[i]);
        ck_assert_uint_eq(ad_queue_length(queue), 3);
        fixture_check_gauges(a, 3, 1);
    }
    run(requests[0], 4);
    ck_assert_uint_eq(ad_queue_length(queue), 0);
    fixture_check_gauges(a, 0, 4);
}
END_TEST

START_TEST(what_cannot_be_decoded_is_gone)
{
    struct ad_request *bad = push(a), *good = push(a);
    drop(bad);
    decode(good);
    run(good, 1);
}
END_TEST

START_TEST(never_two_versions_in_a_batch)
{
    struct ad_request *of_a[2], *of_b[2];
    for (size_t i = 0; i < 2; i++) {
        of_a[i] = push(a);
        of_b[i] = push(b);
    }
    size_t n_left = 4;
    for (size_t n_steps = 0; n_left > 0; n_steps++) {
        ck_assert_uint_lt(n_steps, 8);
        ad_queue_take(queue, false, &work);
        if (work.kind == AD_WORK_DECODE) {
            work.decoded = ad_requests_shift(&work.requests);
            work.spent_ns = 10;
            continue;
        }
        ck_assert_int_eq(work.kind, AD_WORK_RUN);
        ck_assert_uint_eq(work.requests.n, 2);
        bool is_a = work.requests.first->version == a;
        ck_assert_ptr_eq(work.requests.first, is_a ? of_a[0] : of_b[0]);
        ck_assert_ptr_eq(work.requests.last, is_a ? of_a[1] : of_b[1]);
        n_left -= fixture_free_all(&work.requests);
    }
}
END_TEST

/* A flood on one model, whose requests are dear, and a few cheap ones to another. */
START_TEST(a_flood_starves_nobody)
{
    size_t n_of_a = 0;
    for (size_t i = 0; i < 4; i++) {
        push(a);
    }
    for (size_t i = 0; i < 50; i++) {
        push(b);
        bool served = false;
        while (!served) {
            struct ad_request *request = take_decode();
            served = request->version == b;
            work.spent_ns = served ? 1000 : 1000000;
            n_of_a += !served;
            if (!served) {
                push(a);
            }
            ad_request_free(request);
        }
    }
    ck_assert_uint_le(n_of_a, 51);
    ad_queue_take_all(queue, &work.requests);
    ck_assert_uint_eq(fixture_free_all(&work.requests), 4);
}
END_TEST

START_TEST(levels_go_first)
{
    static const uint64_t priorities[] = {3, 0, 1, 2};
    static const size_t order[] = {2, 1, 3, 0}; /* the default is level 2 */
    struct ad_request *requests[4];
    a->settings.n_priorities = 3;
    a->settings.default_priority = 2;
    for (size_t i = 0; i < 4; i++) {
        requests[i] = fixture_request(a);
        requests[i]->priority = priorities[i];
        fixture_push(queue, requests[i]);
    }
    for (size_t i = 0; i < 4; i++) {
        drop(requests[order[i]]);
    }
}
END_TEST

START_TEST(each_push_has_a_number_of_its_own)
{
    struct ad_request *first = push(a), *second = push(b), *third = push(a);
    ck_assert_uint_ne(first->number, second->number);
    ck_assert_uint_ne(first->number, third->number);
    ck_assert_uint_ne(second->number, third->number);
    ad_queue_take_all(queue, &work.requests);
    ck_assert_uint_eq(fixture_free_all(&work.requests), 3);
}
END_TEST

/* ---- limits and the end ---------------------------------------------------------------------- */

START_TEST(each_model_has_a_limit)
{
    b->settings.max_queue_size = 1;
    struct ad_request *first = push(a);
    for (size_t i = 0; i < 3; i++) {
        push(a);
    }
    check_refused(a, "queue_full", "4 requests are waiting for model 'a'");
    /* one in hand does not wait; once it is decoded it does */
    ck_assert_ptr_eq(take_decode(), first);
    work.decoded = first;
    push(a);
    check_refused(a, "queue_full", "--queue-size");
    ad_request_free(take_decode());
    ck_assert_uint_eq(ad_queue_length(queue), 4);
    check_refused(a, "queue_full", "max_queue_size");
    /* other models have room of their own */
    push(b);
    check_refused(b, "queue_full", "1 requests are waiting for model 'b'");
    ck_assert_uint_eq(ad_queue_length(queue), 5);
    ad_queue_take_all(queue, &work.requests);
    ck_assert_uint_eq(fixture_free_all(&work.requests), 5);
}
END_TEST

START_TEST(capacity_zero_takes_nothing)
{
    struct ad_queue *none = ad_queue_create(0);
    struct ad_request *request = fixture_request(a);
    ck_assert_int_eq(ad_queue_push(none, &request, NULL), AD_UNAVAILABLE);
    ad_request_free(request);
    ad_queue_free(none);
}
END_TEST

START_TEST(a_closed_queue_drains_then_ends)
{
    struct ad_request *request = push(a);
    ad_queue_close(queue);
    check_refused(a, "stopping", "stopping");
    decode(request);
    run(request, 1);
    for (size_t i = 0; i < 2; i++) {
        ad_queue_take(queue, i == 0, &work);
        ck_assert_int_eq(work.kind, AD_WORK_END);
    }
}
END_TEST

START_TEST(all_are_taken_out)
{
    struct ad_requests all = {NULL, NULL, 0};
    ad_queue_take_all(queue, &all);
    ck_assert_uint_eq(all.n, 0);
    struct ad_request *ready = push(a), *in_hand = push(a);
    decode(ready);
    ck_assert_ptr_eq(take_decode(), in_hand);
    work.decoded = in_hand;
    push(a);
    push(b);
    ad_queue_take_all(queue, &all);
    ck_assert_uint_eq(fixture_free_all(&all), 3);
    ck_assert_uint_eq(ad_queue_length(queue), 0);
    fixture_check_gauges(a, 0, 1);
    /* and it still works */
    run(in_hand, 1);
    drop(push(b));
}
END_TEST

START_TEST(null_is_fine)
{
    ad_queue_free(NULL);
    ad_request_free(NULL);
}
END_TEST

/* ---- deadlines ------------------------------------------------------------------------------- */

static struct ad_request *push_for(struct ad_version *version, uint64_t timeout_us)
{
    struct ad_request *request = fixture_request(version);
    request->timeout_us = timeout_us;
    return fixture_push(queue, request);
}

START_TEST(what_waited_too_long_is_taken_out)
{
    struct ad_requests expired = {NULL, NULL, 0};
    struct ad_request *ready = push_for(a, 2000000), *in_hand = push_for(a, 1000000);
    decode(ready);
    decode(in_hand);
    struct ad_request *patient = push_for(a, 0), *later = push_for(b, 3000000);
    int64_t now_ns = ad_clock_now_ns();
    ck_assert_int_eq(ad_queue_expire(queue, now_ns, &expired), ready->deadline_ns);
    ck_assert_uint_eq(expired.n, 0);
    ck_assert_int_eq(ad_queue_expire(queue, ready->deadline_ns, &expired),
                     later->deadline_ns);
    ck_assert_uint_eq(expired.n, 1);
    ck_assert_ptr_eq(expired.first, ready);
    ck_assert_int_eq(ad_queue_expire(queue, INT64_MAX, &expired), INT64_MAX);
    ck_assert_uint_eq(expired.n, 2);
    ck_assert_ptr_eq(expired.last, later);
    ck_assert_uint_eq(fixture_free_all(&expired), 2);
    fixture_check_gauges(a, 1, 1);
    fixture_check_gauges(b, 0, 0);
    decode(patient);
    run(in_hand, 2);
}
END_TEST

START_TEST(no_start_of_what_has_expired)
{
    struct ad_request *late = push_for(a, 1), *good = push_for(a, 0);
    fixture_nap(NS_PER_MS);
    ad_queue_take(queue, false, &work);
    ck_assert_int_eq(work.kind, AD_WORK_REFUSE);
    ck_assert_uint_eq(work.requests.n, 0);
    ck_assert_ptr_eq(work.expired.first, late);
    ck_assert_uint_eq(fixture_free_all(&work.expired), 1);
    decode(good);
    run(good, 1);
}
END_TEST

/* One of a batch whose deadline came after it was decoded. */
START_TEST(the_others_of_its_batch_are_run)
{
    struct ad_request *late = push_for(a, 30000), *good = push_for(a, 0);
    decode(late);
    decode(good);
    fixture_nap(40 * NS_PER_MS);
    ad_queue_take(queue, false, &work);
    ck_assert_int_eq(work.kind, AD_WORK_RUN);
    ck_assert_ptr_eq(work.expired.first, late);
    ck_assert_uint_eq(fixture_free_all(&work.expired), 1);
    ck_assert_ptr_eq(work.requests.first, good);
    ck_assert_uint_eq(fixture_free_all(&work.requests), 1);
}
END_TEST

/* ---- batches that wait ----------------------------------------------------------------------- */

START_TEST(a_batch_waits_for_its_delay)
{
    a->settings.max_queue_delay_us = 30000;
    struct ad_request *request = push(a);
    int64_t queued_ns = request->times.queued_ns;
    decode(request);
    run(request, 1);
    ck_assert_int_ge(ad_clock_now_ns() - queued_ns, 30 * NS_PER_MS);
    ck_assert_int_lt(ad_clock_now_ns() - queued_ns, 10 * NS_PER_S);
}
END_TEST

START_TEST(a_full_batch_does_not_wait)
{
    a->settings.max_queue_delay_us = 1000000000;
    a->settings.max_batch_requests = 2;
    struct ad_request *first = push(a), *second = push(a);
    decode(first);
    decode(second);
    run(first, 2);
}
END_TEST

static void count_task(void *argument, size_t task, size_t worker)
{
    int *n_runs = argument;
    n_runs[task] += 1 + (int)worker;
}

/* While a batch waits for more, a worker helps, and has nothing better to do until a push comes. */
START_TEST(helpers_stay_while_a_batch_only_waits)
{
    int n_runs[2] = {0, 0};
    struct ad_job job;
    a->settings.max_queue_delay_us = 1000000000;
    decode(push(a));
    ad_job_init(&job, 2, count_task, n_runs);
    ad_queue_offer(queue, &job);
    ad_queue_take(queue, true, &work);
    ck_assert_int_eq(work.kind, AD_WORK_HELP);
    ck_assert_ptr_eq(work.job, &job);
    ck_assert(!ad_queue_has_work(queue));
    push(a);
    ck_assert(ad_queue_has_work(queue));
    ad_queue_leave(queue, &job);
    ck_assert(ad_job_step(&job, 0));
    ck_assert(ad_job_step(&job, 0));
    ad_queue_retract(queue, &job);
    ad_queue_take_all(queue, &work.requests);
    ck_assert_uint_eq(fixture_free_all(&work.requests), 2);
}
END_TEST

/* ---- small work ------------------------------------------------------------------------------ */

START_TEST(small_work_alone)
{
    struct ad_request *large = fixture_request(a), *small = fixture_request(a);
    fixture_body(large, AD_SMALL_BODY + 1);
    fixture_body(small, AD_SMALL_BODY);
    ck_assert(!ad_queue_has_small(queue));
    fixture_push(queue, large);
    ck_assert(!ad_queue_has_small(queue));
    ck_assert(ad_queue_has_work(queue));
    ad_queue_take_small(queue, &work);
    ck_assert_int_eq(work.kind, AD_WORK_END);
    ck_assert(ad_queue_has_work(queue));
    fixture_push(queue, small);
    ck_assert(ad_queue_has_small(queue));
    ad_queue_take_small(queue, &work);
    ck_assert_int_eq(work.kind, AD_WORK_DECODE);
    ck_assert_ptr_eq(ad_requests_shift(&work.requests), small);
    small->cost = AD_SMALL_COST;
    work.decoded = small;
    ad_queue_take_small(queue, &work);
    ck_assert_int_eq(work.kind, AD_WORK_RUN);
    ck_assert_uint_eq(fixture_free_all(&work.requests), 1);
    ad_queue_take_small(queue, &work);
    ck_assert_int_eq(work.kind, AD_WORK_END);
    ck_assert(!ad_queue_has_small(queue));
    drop(large);
}
END_TEST

/* What turns out to be large is left for a worker that has the time. */
START_TEST(a_small_body_may_ask_for_much)
{
    struct ad_request *request = push(a);
    ad_queue_take_small(queue, &work);
    ck_assert_ptr_eq(ad_requests_shift(&work.requests), request);
    request->cost = 2 * AD_SMALL_COST;
    work.decoded = request;
    ad_queue_take_small(queue, &work);
    ck_assert_int_eq(work.kind, AD_WORK_END);
    run(request, 1);
}
END_TEST

/* The watch, which looks every so often, tells those in the middle of a large request. */
START_TEST(a_small_batch_is_served_once_it_has_waited)
{
    struct ad_requests expired = {NULL, NULL, 0};
    a->settings.max_queue_delay_us = 20000;
    struct ad_request *request = push(a);
    ad_queue_take_small(queue, &work);
    work.decoded = ad_requests_shift(&work.requests);
    ad_queue_take_small(queue, &work);
    ck_assert_int_eq(work.kind, AD_WORK_END);
    ck_assert(!ad_queue_has_small(queue));
    fixture_nap(20 * NS_PER_MS);
    (void)ad_queue_expire(queue, ad_clock_now_ns(), &expired);
    ck_assert(ad_queue_has_small(queue));
    ad_queue_take_small(queue, &work);
    ck_assert_int_eq(work.kind, AD_WORK_RUN);
    ck_assert_ptr_eq(work.requests.first, request);
    ck_assert_uint_eq(fixture_free_all(&work.requests), 1);
}
END_TEST

/* ---- watching -------------------------------------------------------------------------------- */

static struct ad_request *push_with_socket(struct ad_version *version, int fd)
{
    struct ad_request *request = fixture_request(version);
    request->fd = fd;
    return fixture_push(queue, request);
}

START_TEST(waiters_are_listed_and_removed_by_number)
{
    struct ad_waiter waiters[4];
    size_t from = 0;
    struct ad_requests removed = {NULL, NULL, 0};
    struct ad_request *ready = push_with_socket(a, 10),
                      *in_hand = push_with_socket(a, 11);
    decode(ready);
    ck_assert_ptr_eq(take_decode(), in_hand);
    (void)push_with_socket(a, -1);
    struct ad_request *raw = push_with_socket(a, 12);
    ck_assert_uint_eq(ad_queue_waiters(queue, ready->times.queued_ns, &from, waiters, 4),
                      0);
    ck_assert_uint_eq(ad_queue_waiters(queue, INT64_MAX, &from, waiters, 4), 2);
    ck_assert_uint_eq(waiters[0].number, raw->number);
    ck_assert_int_eq(waiters[0].fd, 12);
    ck_assert_uint_eq(waiters[1].number, ready->number);
    ck_assert_int_eq(waiters[1].fd, 10);
    /* one at a time, each gets its turn, and then the first again */
    const uint64_t turns[] = {raw->number, ready->number, raw->number};
    for (size_t i = 0; i < 3; i++) {
        from = i == 2 ? 0 : from;
        ck_assert_uint_eq(ad_queue_waiters(queue, INT64_MAX, &from, waiters, 1), 1);
        ck_assert_uint_eq(waiters[0].number, turns[i]);
    }
    from = 2;
    ck_assert_uint_eq(ad_queue_waiters(queue, INT64_MAX, &from, waiters, 1), 0);
    ck_assert_uint_eq(from, 0);
    /* one of them, one that is in hand by now, and one that is not known */
    waiters[0] = (struct ad_waiter){ready->number, 10};
    waiters[1] = (struct ad_waiter){in_hand->number, 11};
    waiters[2] = (struct ad_waiter){UINT64_MAX, 12};
    ad_queue_remove(queue, waiters, 3, &removed);
    ck_assert_uint_eq(removed.n, 1);
    ck_assert_ptr_eq(removed.first, ready);
    ck_assert_uint_eq(fixture_free_all(&removed), 1);
    ck_assert_uint_eq(ad_queue_length(queue), 2);
    ad_request_free(in_hand);
    ad_queue_take_all(queue, &removed);
    ck_assert_uint_eq(fixture_free_all(&removed), 2);
}
END_TEST

static void count_stir(void *context)
{
    ++*(int *)context;
}

START_TEST(stirred_once_after_each_rest)
{
    int n_stirred = 0;
    ad_queue_on_stir(queue, count_stir, &n_stirred);
    struct ad_request *first = push(a);
    ck_assert_int_eq(n_stirred, 1); /* it rests at the start */
    push(a);
    ck_assert_int_eq(n_stirred, 1);
    ck_assert(!ad_queue_rest(queue)); /* two wait */
    ad_queue_take_all(queue, &work.requests);
    ck_assert_uint_eq(fixture_free_all(&work.requests), 2);
    ck_assert(ad_queue_rest(queue));
    ck_assert(ad_queue_rest(queue));
    ck_assert_int_eq(n_stirred, 1);
    a->settings.max_queue_size = 1;
    first = push(a);
    ck_assert_int_eq(n_stirred, 2);
    drop(first);
    ad_queue_take_small(queue, &work);
    ck_assert(ad_queue_rest(queue));
    ad_queue_close(queue);
    check_refused(a, "stopping", "stopping");
    ck_assert_int_eq(n_stirred, 2);
    ad_queue_on_stir(queue, NULL, NULL);
}
END_TEST

/* What is being decoded will wait again, and no push tells of it. */
START_TEST(no_rest_while_a_request_is_in_hand)
{
    struct ad_request *request = push(a);
    ck_assert_ptr_eq(take_decode(), request);
    ck_assert_uint_eq(ad_queue_length(queue), 0);
    ck_assert(!ad_queue_rest(queue));
    work.decoded = request;
    run(request, 1);
    ck_assert(!ad_queue_rest(queue));
    ad_queue_take_small(queue, &work);
    ck_assert(ad_queue_rest(queue));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queue");
    TCase *tcase = tcase_create("queue");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, decoded_one_by_one_then_run_together);
    tcase_add_test(tcase, what_cannot_be_decoded_is_gone);
    tcase_add_test(tcase, never_two_versions_in_a_batch);
    tcase_add_test(tcase, a_flood_starves_nobody);
    tcase_add_test(tcase, levels_go_first);
    tcase_add_test(tcase, each_push_has_a_number_of_its_own);
    tcase_add_test(tcase, each_model_has_a_limit);
    tcase_add_test(tcase, capacity_zero_takes_nothing);
    tcase_add_test(tcase, a_closed_queue_drains_then_ends);
    tcase_add_test(tcase, all_are_taken_out);
    tcase_add_test(tcase, null_is_fine);
    tcase_add_test(tcase, what_waited_too_long_is_taken_out);
    tcase_add_test(tcase, no_start_of_what_has_expired);
    tcase_add_test(tcase, the_others_of_its_batch_are_run);
    tcase_add_test(tcase, a_batch_waits_for_its_delay);
    tcase_add_test(tcase, a_full_batch_does_not_wait);
    tcase_add_test(tcase, helpers_stay_while_a_batch_only_waits);
    tcase_add_test(tcase, small_work_alone);
    tcase_add_test(tcase, a_small_body_may_ask_for_much);
    tcase_add_test(tcase, a_small_batch_is_served_once_it_has_waited);
    tcase_add_test(tcase, waiters_are_listed_and_removed_by_number);
    tcase_add_test(tcase, stirred_once_after_each_rest);
    tcase_add_test(tcase, no_rest_while_a_request_is_in_hand);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
