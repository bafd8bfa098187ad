/* Is the queue first in first out, bounded, and exact when many threads use it at
 * once? */
#include "sched/queue.h"

#include "unit/support.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static struct ad_request *new_request(void)
{
    struct ad_request *request = ad_request_create();
    ck_assert_ptr_nonnull(request);
    return request;
}

START_TEST(first_in_first_out)
{
    struct ad_queue *queue = ad_queue_create(4);
    struct ad_request *requests[4];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++) {
            struct ad_request *pushed = requests[i] = new_request();
            ck_assert_int_eq(ad_queue_push(queue, &pushed, NULL), AD_OK);
            ck_assert_ptr_null(pushed);
        }
        ck_assert_uint_eq(ad_queue_length(queue), 4);
        for (int i = 0; i < 4; i++) {
            struct ad_request *popped = ad_queue_pop(queue, NULL);
            ck_assert_ptr_eq(popped, requests[i]);
            ck_assert_ptr_null(popped->next);
            ad_request_free(popped);
        }
        ck_assert_uint_eq(ad_queue_length(queue), 0);
    }
    ad_queue_free(queue);
}
END_TEST

START_TEST(full_queue_refuses)
{
    struct ad_error error = {.status = AD_OK};
    struct ad_queue *queue = ad_queue_create(2);
    for (int i = 0; i < 2; i++) {
        struct ad_request *pushed = new_request();
        ck_assert_int_eq(ad_queue_push(queue, &pushed, &error), AD_OK);
    }
    struct ad_request *refused = new_request();
    struct ad_request *kept = refused;
    ck_assert_int_eq(ad_queue_push(queue, &refused, &error), AD_UNAVAILABLE);
    ck_assert_ptr_eq(refused, kept);
    ck_assert_ptr_nonnull(strstr(error.message, "--queue-size"));
    ck_assert_uint_eq(ad_queue_length(queue), 2);

    ad_request_free(ad_queue_pop(queue, NULL));
    ck_assert_int_eq(ad_queue_push(queue, &refused, NULL), AD_OK);
    ad_request_free(ad_queue_pop(queue, NULL));
    ad_request_free(ad_queue_pop(queue, NULL));
    ad_queue_free(queue);
}
END_TEST

START_TEST(capacity_zero_takes_nothing)
{
    struct ad_queue *queue = ad_queue_create(0);
    struct ad_request *request = new_request();
    ck_assert_int_eq(ad_queue_push(queue, &request, NULL), AD_UNAVAILABLE);
    ad_request_free(request);
    ad_queue_free(queue);
}
END_TEST

START_TEST(closed_queue_drains_then_ends)
{
    struct ad_error error = {.status = AD_OK};
    struct ad_queue *queue = ad_queue_create(4);
    struct ad_request *pushed = new_request();
    ck_assert_int_eq(ad_queue_push(queue, &pushed, NULL), AD_OK);
    ad_queue_close(queue);
    struct ad_request *late = new_request();
    ck_assert_int_eq(ad_queue_push(queue, &late, &error), AD_UNAVAILABLE);
    ck_assert_ptr_nonnull(late);
    ck_assert_ptr_nonnull(strstr(error.message, "stopping"));
    ad_request_free(late);
    struct ad_request *popped = ad_queue_pop(queue, NULL);
    ck_assert_ptr_nonnull(popped);
    ad_request_free(popped);
    ck_assert_ptr_null(ad_queue_pop(queue, NULL));
    ck_assert_ptr_null(ad_queue_pop(queue, NULL));
    ad_queue_free(queue);
}
END_TEST

START_TEST(take_all_in_order)
{
    struct ad_queue *queue = ad_queue_create(8);
    struct ad_request *requests[3];
    ck_assert_ptr_null(ad_queue_take_all(queue));
    for (int i = 0; i < 3; i++) {
        struct ad_request *pushed = requests[i] = new_request();
        ck_assert_int_eq(ad_queue_push(queue, &pushed, NULL), AD_OK);
    }
    struct ad_request *taken = ad_queue_take_all(queue);
    ck_assert_uint_eq(ad_queue_length(queue), 0);
    for (int i = 0; i < 3; i++) {
        struct ad_request *next = taken->next;
        ck_assert_ptr_eq(taken, requests[i]);
        ad_request_free(taken);
        taken = next;
    }
    ck_assert_ptr_null(taken);
    /* and it still works */
    struct ad_request *again = new_request();
    ck_assert_int_eq(ad_queue_push(queue, &again, NULL), AD_OK);
    ad_request_free(ad_queue_pop(queue, NULL));
    ad_queue_free(queue);
}
END_TEST

static void *pop_one(void *queue)
{
    return ad_queue_pop(queue, NULL);
}

START_TEST(close_wakes_all_that_wait)
{
    pthread_t threads[3];
    struct ad_queue *queue = ad_queue_create(1);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, pop_one, queue), 0);
    }
    ad_queue_close(queue);
    for (int i = 0; i < 3; i++) {
        void *popped = queue;
        ck_assert_int_eq(pthread_join(threads[i], &popped), 0);
        ck_assert_ptr_null(popped);
    }
    ad_queue_free(queue);
}
END_TEST

#define N_PRODUCERS 4
#define N_CONSUMERS 3
#define N_EACH 5000

struct stress {
    struct ad_queue *queue;
    atomic_int seen[N_PRODUCERS * N_EACH]; /* how often each request was popped */
    atomic_int n_refused;
    atomic_int n_started; /* producers so far: each has numbers of its own */
};

/* received_ns serves as the request's number. */
static void *produce(void *argument)
{
    struct stress *stress = argument;
    int first = atomic_fetch_add(&stress->n_started, 1) * N_EACH;
    for (int i = 0; i < N_EACH;) {
        struct ad_request *request = ad_request_create();
        request->received_ns = first + i;
        if (ad_queue_push(stress->queue, &request, NULL) == AD_OK) {
            i++;
        } else {
            ad_request_free(request);
            atomic_fetch_add(&stress->n_refused, 1);
            sched_yield();
        }
    }
    return NULL;
}

static void *consume(void *argument)
{
    struct stress *stress = argument;
    struct ad_request *request;
    while ((request = ad_queue_pop(stress->queue, NULL)) != NULL) {
        atomic_fetch_add(&stress->seen[request->received_ns], 1);
        ad_request_free(request);
    }
    return NULL;
}

START_TEST(many_threads_each_request_once)
{
    pthread_t producers[N_PRODUCERS];
    pthread_t consumers[N_CONSUMERS];
    struct stress *stress = calloc(1, sizeof *stress);
    stress->queue = ad_queue_create(16);
    for (int i = 0; i < N_CONSUMERS; i++) {
        ck_assert_int_eq(pthread_create(&consumers[i], NULL, consume, stress), 0);
    }
    for (int i = 0; i < N_PRODUCERS; i++) {
        ck_assert_int_eq(pthread_create(&producers[i], NULL, produce, stress), 0);
    }
    for (int i = 0; i < N_PRODUCERS; i++) {
        pthread_join(producers[i], NULL);
    }
    ad_queue_close(stress->queue);
    for (int i = 0; i < N_CONSUMERS; i++) {
        pthread_join(consumers[i], NULL);
    }
    for (int i = 0; i < N_PRODUCERS * N_EACH; i++) {
        ck_assert_int_eq(atomic_load(&stress->seen[i]), 1);
    }
    ck_assert_uint_eq(ad_queue_length(stress->queue), 0);
    ad_queue_free(stress->queue);
    free(stress);
}
END_TEST

static void count_task(void *argument, size_t task, size_t worker)
{
    int *n_runs = argument;
    n_runs[task] += 1 + (int)worker;
}

START_TEST(job_is_joined_when_no_request_waits)
{
    int n_runs[2] = {0, 0};
    struct ad_job job, *joined = NULL;
    struct ad_queue *queue = ad_queue_create(1);
    struct ad_request *pushed = new_request();
    ck_assert_int_eq(ad_queue_push(queue, &pushed, NULL), AD_OK);
    ad_job_init(&job, 2, count_task, n_runs);
    ad_queue_offer(queue, &job);
    struct ad_request *popped = ad_queue_pop(queue, &joined);
    ck_assert_ptr_nonnull(popped);
    ck_assert_ptr_null(joined);
    ad_request_free(popped);
    ad_queue_close(queue); /* makes no difference to a job */
    ck_assert_ptr_null(ad_queue_pop(queue, &joined));
    ck_assert_ptr_eq(joined, &job);
    ck_assert(ad_job_step(joined, 0));
    ck_assert(ad_job_is_open(joined));
    ck_assert(ad_job_step(&job, 1));
    ck_assert(!ad_job_is_open(joined));
    ck_assert(!ad_job_step(joined, 0));
    ad_queue_leave(queue, joined);
    ck_assert_ptr_null(ad_queue_pop(queue, &joined)); /* no task is left to help with */
    ck_assert_ptr_null(joined);
    ad_queue_retract(queue, &job);
    ck_assert_int_eq(n_runs[0], 1);
    ck_assert_int_eq(n_runs[1], 2);
    ad_queue_free(queue);
}
END_TEST

START_TEST(oldest_open_job_comes_first)
{
    int n_runs[1] = {0};
    struct ad_job jobs[3], *joined = NULL;
    struct ad_queue *queue = ad_queue_create(1);
    for (int i = 0; i < 3; i++) {
        ad_job_init(&jobs[i], 1, count_task, n_runs);
        ad_queue_offer(queue, &jobs[i]);
    }
    ck_assert(ad_job_step(&jobs[0], 0));
    ck_assert_ptr_null(ad_queue_pop(queue, &joined));
    ck_assert_ptr_eq(joined, &jobs[1]);
    ck_assert(ad_job_step(joined, 0));
    ad_queue_leave(queue, joined);
    ad_queue_retract(queue, &jobs[1]);
    ck_assert_ptr_null(ad_queue_pop(queue, &joined));
    ck_assert_ptr_eq(joined, &jobs[2]);
    ck_assert(ad_job_step(joined, 0));
    ad_queue_leave(queue, joined);
    ad_queue_retract(queue, &jobs[2]);
    ad_queue_retract(queue, &jobs[0]);
    ck_assert_int_eq(n_runs[0], 3);
    ad_queue_free(queue);
}
END_TEST

START_TEST(null_is_fine)
{
    ad_queue_free(NULL);
    ad_request_free(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("queue");
    TCase *tcase = tcase_create("queue");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, first_in_first_out);
    tcase_add_test(tcase, full_queue_refuses);
    tcase_add_test(tcase, capacity_zero_takes_nothing);
    tcase_add_test(tcase, closed_queue_drains_then_ends);
    tcase_add_test(tcase, take_all_in_order);
    tcase_add_test(tcase, close_wakes_all_that_wait);
    tcase_add_test(tcase, many_threads_each_request_once);
    tcase_add_test(tcase, job_is_joined_when_no_request_waits);
    tcase_add_test(tcase, oldest_open_job_comes_first);
    tcase_add_test(tcase, null_is_fine);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
