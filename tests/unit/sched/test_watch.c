/* Is what waits answered at its deadline, and dropped when its client has gone, while no worker has
 * time for it? With the real clock and real sockets. */
#include "sched/watch.h"

#include "unit/sched/fixture.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define IN_TIME_NS (50 * NS_PER_MS)

static struct ad_version *version;
static struct ad_queue *queue;
static struct ad_sequences *sequences;
static struct ad_watch *watch;

static void setup(void)
{
    const struct ad_sequences_config config = {
        .max = 10, .max_bytes = 1 << 20, .idle_ns = NS_PER_S};
    version = fixture_causal("a");
    queue = ad_queue_create(1000);
    sequences = ad_sequences_create(&config);
    ck_assert_ptr_nonnull(queue);
    ck_assert_ptr_nonnull(sequences);
    ck_assert_int_eq(ad_watch_start(queue, sequences, &watch, NULL), AD_OK);
}

static void teardown(void)
{
    struct ad_requests rest = {NULL, NULL, 0};
    ad_queue_close(queue);
    ad_watch_stop(watch);
    ad_queue_take_all(queue, &rest);
    fixture_free_all(&rest);
    fixture_check_gauges(version, 0, 0);
    ad_queue_free(queue);
    ad_sequences_free(sequences);
    ad_version_release(version);
}

/* What became of one request. */
struct answer {
    atomic_int n_done;
    enum ad_status status;
    const char *code;
    int64_t late_ns; /* behind its deadline */
};

static void on_done(struct ad_request *request)
{
    struct answer *answer = request->context;
    answer->status = request->error.status;
    answer->code = request->error.code;
    answer->late_ns = ad_clock_now_ns() - request->deadline_ns;
    ad_request_free(request);
    atomic_fetch_add(&answer->n_done, 1);
}

static struct ad_request *push(struct answer *answer, uint64_t timeout_us, int fd)
{
    struct ad_request *request = fixture_request(version);
    request->on_done = on_done;
    request->context = answer;
    request->timeout_us = timeout_us;
    request->fd = fd;
    return fixture_push(queue, request);
}

static void check_answer(const struct answer *answer, enum ad_status status,
                         const char *code)
{
    ck_assert(fixture_reaches(&answer->n_done, 1));
    ck_assert_int_eq(answer->status, status);
    ck_assert_str_eq(answer->code, code);
}

/* ---- deadlines ------------------------------------------------------------------------------- */

/* Whether requests of all kinds of timeouts are answered in time. */
static bool all_in_time(void)
{
    static const uint64_t timeouts_us[] = {200000, 1, 1000, 30000, 35000, 100000};
    enum { N = sizeof timeouts_us / sizeof *timeouts_us };
    struct answer answers[N] = {0};
    bool in_time = true;
    for (size_t i = 0; i < N; i++) {
        push(&answers[i], timeouts_us[i], -1);
    }
    for (size_t i = 0; i < N; i++) {
        check_answer(&answers[i], AD_UNAVAILABLE, "timeout");
        ck_assert_int_ge(answers[i].late_ns, 0);
        in_time = in_time && answers[i].late_ns <= IN_TIME_NS;
    }
    return in_time;
}

/* No worker runs at all. A busy machine may be late now and then, but not each time. */
START_TEST(answered_within_50_ms_of_the_deadline)
{
    struct answer patient = {0};
    push(&patient, 0, -1);
    bool in_time = false;
    for (int i = 0; i < 10 && !in_time; i++) {
        in_time = all_in_time();
    }
    ck_assert(in_time);
    ck_assert_int_eq(atomic_load(&patient.n_done), 0);
}
END_TEST

/* One that is back from decoding is looked after, even when nothing was waiting for long. */
START_TEST(what_was_in_hand_has_a_deadline_too)
{
    struct answer answer = {0};
    struct ad_work work = {.kind = AD_WORK_END};
    struct ad_request *request = push(&answer, 1500000, -1);
    ad_queue_take(queue, false, &work);
    ck_assert_ptr_eq(ad_requests_shift(&work.requests), request);
    fixture_nap(1300 * NS_PER_MS); /* the watch has nothing to do meanwhile */
    request->cost = 2 * AD_SMALL_COST;
    work.decoded = request;
    ad_queue_take_small(queue, &work); /* gives it back; it is too large to be taken */
    ck_assert_int_eq(work.kind, AD_WORK_END);
    check_answer(&answer, AD_UNAVAILABLE, "timeout");
}
END_TEST

/* ---- clients --------------------------------------------------------------------------------- */

/* A connection: ends[0] is the server's, ends[1] the client's. */
static void connect_pair(int ends[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t n = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ends[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, n), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &n), 0);
    ck_assert_int_eq(connect(ends[1], (struct sockaddr *)&address, n), 0);
    ends[0] = accept(listener, NULL, NULL);
    ck_assert_int_ge(ends[0], 0);
    close(listener);
}

static void local_pair(int ends[2])
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
}

enum leaving {
    STAYS,
    WRITES_ON,     /* the next request of the connection */
    STOPS_READING, /* of its own accord: nothing of that can be seen, or matters */
    CLOSES,
    RESETS,
    WRITES_AND_CLOSES,
    STOPS_WRITING /* the same bytes on the wire as closing */
};

static void leave(int *client, enum leaving how)
{
    const struct linger at_once = {.l_onoff = 1};
    switch (how) {
    case STAYS:
        return;
    case WRITES_ON:
        ck_assert_int_eq(write(*client, "POST", 4), 4);
        return;
    case STOPS_READING:
        ck_assert_int_eq(shutdown(*client, SHUT_RD), 0);
        return;
    case RESETS:
        (void)setsockopt(*client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        break;
    case WRITES_AND_CLOSES:
        ck_assert_int_eq(write(*client, "POST", 4), 4);
        break;
    case STOPS_WRITING:
        ck_assert_int_eq(shutdown(*client, SHUT_WR), 0);
        return;
    case CLOSES:
        break;
    }
    close(*client);
    *client = -1;
}

static const struct {
    enum leaving how;
    bool gone;
} clients[] = {
    {STAYS, false}, {WRITES_ON, false},        {STOPS_READING, false}, {CLOSES, true},
    {RESETS, true}, {WRITES_AND_CLOSES, true}, {STOPS_WRITING, true},
};

static void check_client(void (*make_pair)(int ends[2]), enum leaving how, bool gone)
{
    int ends[2], other[2];
    struct answer answer = {0}, stays = {0};
    make_pair(ends);
    make_pair(other);
    push(&answer, 0, ends[0]);
    push(&stays, 0, other[0]);
    leave(&ends[1], how);
    if (gone) {
        check_answer(&answer, AD_CANCELED, "canceled");
    } else {
        fixture_nap(100 * NS_PER_MS);
        ck_assert_int_eq(atomic_load(&answer.n_done), 0);
    }
    ck_assert_int_eq(atomic_load(&stays.n_done), 0);
    ck_assert_uint_eq(ad_queue_length(queue), gone ? 1 : 2);
    struct ad_requests rest = {NULL, NULL, 0};
    ad_queue_take_all(queue, &rest);
    fixture_free_all(&rest);
    for (size_t i = 0; i < 2; i++) {
        close(other[i]);
        if (ends[i] >= 0) {
            close(ends[i]);
        }
    }
}

START_TEST(requests_of_clients_that_left_are_dropped)
{
    check_client(connect_pair, clients[_i].how, clients[_i].gone);
    check_client(local_pair, clients[_i].how, clients[_i].gone);
}
END_TEST

START_TEST(a_crowd_leaves)
{
    enum { N = 200 };
    static struct answer answers[N];
    static int ends[N][2];
    for (size_t i = 0; i < N; i++) {
        local_pair(ends[i]);
        push(&answers[i], 0, ends[i][0]);
    }
    for (size_t i = 0; i < N; i += 2) {
        close(ends[i][1]);
    }
    for (size_t i = 0; i < N; i += 2) {
        check_answer(&answers[i], AD_CANCELED, "canceled");
    }
    ck_assert_uint_eq(ad_queue_length(queue), N / 2);
    for (size_t i = 1; i < N; i += 2) {
        ck_assert_int_eq(atomic_load(&answers[i].n_done), 0);
    }
    for (size_t i = 0; i < N; i++) {
        close(ends[i][0]);
        if (i % 2) {
            close(ends[i][1]);
        }
    }
}
END_TEST

/* ---- sequences ------------------------------------------------------------------------------- */

/* Let a worker of ours decode the request, which starts a sequence, and put it back to wait. */
static void decode_start(struct ad_request *request)
{
    struct ad_work work = {.kind = AD_WORK_END};
    request->sequence_call = (struct ad_sequence_call){.id = "x", .start = true};
    ad_queue_take(queue, false, &work);
    ck_assert_ptr_eq(ad_requests_shift(&work.requests), request);
    ck_assert_int_eq(
        ad_sequences_take(sequences, request, ad_clock_now_ns(), &request->error), AD_OK);
    request->cost = 2 * AD_SMALL_COST;
    work.decoded = request;
    ad_queue_take_small(queue, &work);
    ck_assert_int_eq(work.kind, AD_WORK_END);
    ck_assert_uint_eq(ad_sequences_count(sequences).n, 1);
}

/* Whoever is not run gives back what it has in hand; its first request failed, so that is all. */
START_TEST(sequences_of_the_refused_are_put_back)
{
    int ends[2];
    struct answer gone = {0}, late = {0};
    local_pair(ends);
    decode_start(push(&gone, 0, ends[0]));
    close(ends[1]);
    check_answer(&gone, AD_CANCELED, "canceled");
    ck_assert_uint_eq(ad_sequences_count(sequences).n, 0);
    decode_start(push(&late, 50000, -1));
    check_answer(&late, AD_UNAVAILABLE, "timeout");
    ck_assert_uint_eq(ad_sequences_count(sequences).n, 0);
    close(ends[0]);
}
END_TEST

/* Idle for a second, which is looked for every second, whether requests come or not. */
START_TEST(idle_sequences_are_dropped)
{
    struct answer answer = {0};
    struct ad_requests none = {NULL, NULL, 0};
    struct ad_request *request = push(&answer, 0, -1);
    decode_start(request);
    ad_queue_take_all(queue, &none);
    ck_assert_uint_eq(none.n, 1);
    ad_sequences_give(request, ad_clock_now_ns());
    ad_request_free(request);
    ck_assert_uint_eq(ad_sequences_count(sequences).n, 1);
    int64_t began_ns = ad_clock_now_ns();
    while (ad_sequences_count(sequences).n > 0) {
        ck_assert_int_lt(ad_clock_now_ns() - began_ns, 20 * NS_PER_S);
        fixture_nap(10 * NS_PER_MS);
    }
    ck_assert_int_ge(ad_clock_now_ns() - began_ns, NS_PER_S / 2);
    ck_assert_uint_eq(ad_sequences_count(sequences).n_evicted, 1);
}
END_TEST

/* ---- rest and stop --------------------------------------------------------------------------- */

/* How often the watch has slept so far; -1: not found. */
static long count_sleeps(void)
{
    long n = -1;
    DIR *threads = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(threads);
    for (struct dirent *entry; n < 0 && (entry = readdir(threads));) {
        char path[300], line[128];
        bool found = false;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *file = fopen(path, "r");
        while (file && fgets(line, sizeof line, file)) {
            found = found || strcmp(line, "Name:\twatch\n") == 0;
            if (found && sscanf(line, "voluntary_ctxt_switches: %ld", &n) == 1) {
                break;
            }
        }
        if (file) {
            fclose(file);
        }
    }
    closedir(threads);
    return n;
}

START_TEST(sleeps_while_nothing_waits)
{
    struct answer first = {0}, second = {0};
    while (count_sleeps() < 0) { /* it names itself once it runs */
        fixture_nap(NS_PER_MS);
    }
    fixture_nap(10 * NS_PER_MS);
    long n = count_sleeps();
    fixture_nap(300 * NS_PER_MS);
    ck_assert_int_le(count_sleeps() - n, 2);
    push(&first, 1000, -1); /* wakes it */
    check_answer(&first, AD_UNAVAILABLE, "timeout");
    n = count_sleeps();
    fixture_nap(500 * NS_PER_MS);
    ck_assert_int_ge(count_sleeps() - n, 5); /* it looks on for a while */
    fixture_nap(1000 * NS_PER_MS);
    n = count_sleeps();
    fixture_nap(300 * NS_PER_MS);
    ck_assert_int_le(count_sleeps() - n, 2);
    push(&second, 1000, -1);
    check_answer(&second, AD_UNAVAILABLE, "timeout");
}
END_TEST

START_TEST(stops_at_once)
{
    struct answer answer = {0};
    int64_t began_ns = ad_clock_now_ns();
    ad_watch_stop(watch); /* it slept until it would be woken */
    ck_assert_int_eq(ad_watch_start(queue, sequences, &watch, NULL), AD_OK);
    push(&answer, 3600000000, -1);
    ad_watch_stop(watch); /* it had an hour to wait */
    ck_assert_int_lt(ad_clock_now_ns() - began_ns, 5 * NS_PER_S);
    ck_assert_int_eq(atomic_load(&answer.n_done), 0);
    ad_watch_stop(NULL);
    watch = NULL;
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("watch");
    TCase *tcase = tcase_create("watch");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, answered_within_50_ms_of_the_deadline);
    tcase_add_test(tcase, what_was_in_hand_has_a_deadline_too);
    tcase_add_loop_test(tcase, requests_of_clients_that_left_are_dropped, 0,
                        sizeof clients / sizeof *clients);
    tcase_add_test(tcase, a_crowd_leaves);
    tcase_add_test(tcase, sequences_of_the_refused_are_put_back);
    tcase_add_test(tcase, idle_sequences_are_dropped);
    tcase_add_test(tcase, sleeps_while_nothing_waits);
    tcase_add_test(tcase, stops_at_once);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
