/* Are slow clients cut, others left alone, and the limits kept, whoever comes and goes meanwhile? */
#include "http/connections.h"

#include "unit/support.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND_MS 1000
#define PATIENCE_MS 20000 /* for what must come, on a busy machine */

static struct ad_options options;
static struct ad_counts *counts;
static struct ad_connections *all;
static int ends[2]; /* ours and the client's */

static const struct sockaddr nowhere = {.sa_family = AF_UNIX};

static void start(void)
{
    struct ad_error error = {.status = AD_OK};
    ck_assert_int_eq(ad_connections_start(&options, counts, &all, &error), AD_OK);
}

static void set_up(void)
{
    options = (struct ad_options){.http_max_connections = 3,
                                  .http_idle_timeout = 1,
                                  .http_header_timeout = 1,
                                  .http_body_timeout = 1,
                                  .http_min_rate = 1000};
    counts = calloc(1, sizeof *counts);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
}

static void tear_down(void)
{
    ad_connections_free(all);
    all = NULL;
    close(ends[0]);
    close(ends[1]);
    free(counts);
}

static struct ad_connection *open_one(void)
{
    struct ad_connection *connection =
        ad_connection_open(all, AD_SIDE_PUBLIC, ends[0], &nowhere);
    ck_assert_ptr_nonnull(connection);
    return connection;
}

/* Has the client's end seen the other one go, in that time? */
static bool is_cut(int milliseconds)
{
    char byte = 0;
    struct pollfd end = {.fd = ends[1], .events = POLLIN};
    return poll(&end, 1, milliseconds) == 1 && read(ends[1], &byte, 1) == 0;
}

static uint64_t n_cut(enum ad_cut cut)
{
    return atomic_load(&counts->cuts[cut]);
}

START_TEST(slow_headers)
{
    start();
    struct ad_connection *connection = open_one();
    ck_assert_uint_eq(ad_connections_open(all), 1);
    ck_assert(!is_cut(SECOND_MS / 2));
    ck_assert(is_cut(PATIENCE_MS));
    ad_connection_close(connection);
    ck_assert_uint_eq(n_cut(AD_CUT_HEADERS), 1);
    ck_assert_uint_eq(ad_connections_open(all), 0);
}
END_TEST

START_TEST(slow_body)
{
    start();
    struct ad_connection *connection = open_one();
    ad_connection_await_body(connection, 100);
    ck_assert(is_cut(PATIENCE_MS));
    ad_connection_close(connection);
    ck_assert_uint_eq(n_cut(AD_CUT_BODY), 1);
}
END_TEST

START_TEST(slow_reply)
{
    start();
    struct ad_connection *connection = open_one();
    ad_connection_await_reply(connection, 0);
    ck_assert(is_cut(PATIENCE_MS));
    ad_connection_close(connection);
    ck_assert_uint_eq(n_cut(AD_CUT_REPLY), 1);
}
END_TEST

START_TEST(slow_later_request)
{
    start();
    struct ad_connection *connection = open_one();
    ad_connection_await_request(connection);
    ck_assert(is_cut(PATIENCE_MS));
    ad_connection_close(connection);
    ck_assert_uint_eq(n_cut(AD_CUT_IDLE), 1);
}
END_TEST

/* A request that waits for its turn has no deadline, and what is large has longer. */
START_TEST(left_alone)
{
    start();
    struct ad_connection *connection = open_one();
    ad_connection_rest(connection);
    ck_assert(!is_cut(3 * SECOND_MS / 2));
    ad_connection_await_body(connection, 1000000);
    ck_assert(!is_cut(3 * SECOND_MS / 2));
    ad_connection_await_reply(connection, UINT64_MAX);
    ck_assert(!is_cut(3 * SECOND_MS / 2));
    ad_connection_close(connection);
}
END_TEST

/* Of a body of unknown length, what comes earns time. */
START_TEST(body_in_pieces)
{
    start();
    struct ad_connection *connection = open_one();
    ad_connection_await_body(connection, 0);
    for (uint64_t n = 1; n <= 6; n++) {
        ck_assert(!is_cut(SECOND_MS / 4));
        ad_connection_extend_body(connection, 1000 * n);
    }
    ad_connection_extend_body(connection, 0);
    ck_assert(is_cut(PATIENCE_MS));
    ad_connection_close(connection);
}
END_TEST

/* The file may be something else as soon as the connection is over. */
START_TEST(closed_in_time)
{
    start();
    ad_connection_close(open_one());
    ck_assert(!is_cut(3 * SECOND_MS / 2));
    ad_connection_close(NULL);
}
END_TEST

/* ---- clients that leave --------------------------------------------------------------------- */

/* However long it may take, who has left is not waited for. */
static struct ad_connection *open_with_time(void)
{
    options.http_header_timeout = options.http_body_timeout = options.http_idle_timeout =
        1000;
    start();
    return open_one();
}

/* The daemon's side of what the client has left; for that long. */
static bool is_given_up(int milliseconds)
{
    struct pollfd end = {.fd = ends[0], .events = 0};
    return poll(&end, 1, milliseconds) == 1 && (end.revents & POLLHUP);
}

static void leave(void)
{
    ck_assert_int_eq(shutdown(ends[1], SHUT_WR), 0);
}

static void check_none_was_cut(void)
{
    for (int i = 0; i < AD_N_CUTS; i++) {
        ck_assert_uint_eq(n_cut((enum ad_cut)i), 0);
    }
}

START_TEST(left_before_its_headers)
{
    struct ad_connection *connection = open_with_time();
    leave();
    ck_assert(is_given_up(PATIENCE_MS));
    ad_connection_close(connection);
    check_none_was_cut();
}
END_TEST

START_TEST(left_in_its_body)
{
    struct ad_connection *connection = open_with_time();
    ad_connection_await_body(connection, 100);
    leave();
    ck_assert(is_given_up(PATIENCE_MS));
    ad_connection_close(connection);
    check_none_was_cut();
}
END_TEST

START_TEST(left_after_its_reply)
{
    struct ad_connection *connection = open_with_time();
    leave();
    ad_connection_await_request(connection);
    ck_assert(is_given_up(PATIENCE_MS));
    ad_connection_close(connection);
    check_none_was_cut();
}
END_TEST

/* It may have ended its side only, and wait for its answer. */
START_TEST(waits_for_its_reply)
{
    struct ad_connection *connection = open_with_time();
    leave();
    ad_connection_rest(connection);
    ck_assert(!is_given_up(5 * SECOND_MS));
    ad_connection_await_reply(connection, 1000000);
    ck_assert(!is_given_up(5 * SECOND_MS));
    ad_connection_close(connection);
}
END_TEST

/* What it sent before is still to be read. */
START_TEST(left_with_something_to_read)
{
    struct ad_connection *connection = open_with_time();
    char byte = 'a';
    ck_assert_int_eq(write(ends[1], &byte, 1), 1);
    leave();
    ck_assert(!is_given_up(5 * SECOND_MS));
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    ck_assert(is_given_up(PATIENCE_MS));
    ad_connection_close(connection);
}
END_TEST

/* Each answer that is made of what was read before the end gives it time anew. */
START_TEST(left_while_it_is_served)
{
    struct ad_connection *connection = open_with_time();
    leave();
    for (int i = 0; i < 20; i++) {
        ck_assert(!is_given_up(SECOND_MS / 4));
        ad_connection_await_request(connection);
    }
    ck_assert(is_given_up(PATIENCE_MS));
    ad_connection_close(connection);
}
END_TEST

/* ---- limits --------------------------------------------------------------------------------- */

START_TEST(limit)
{
    enum { N = 3 + AD_CONNECTIONS_EXTRA };
    struct ad_connection *opened[N];
    options.http_header_timeout = 100;
    start();
    for (size_t i = 0; i < N; i++) {
        ck_assert(ad_connections_admit(all, AD_SIDE_PUBLIC, &nowhere));
        opened[i] = open_one();
        ck_assert(ad_connection_is_extra(opened[i]) == (i >= 3));
    }
    ck_assert(!ad_connections_admit(all, AD_SIDE_PUBLIC, &nowhere));
    ck_assert_uint_eq(atomic_load(&counts->turned_away[AD_TURNED_AWAY_LIMIT]), 1);
    ck_assert(ad_connections_admit(all, AD_SIDE_ADMIN, &nowhere));
    struct ad_connection *admin =
        ad_connection_open(all, AD_SIDE_ADMIN, ends[0], &nowhere);
    ck_assert(!ad_connection_is_extra(admin));
    ad_connection_close(admin);
    /* when others have gone, one that was too many no longer is */
    for (size_t i = 0; i < N - 3; i++) {
        ck_assert(ad_connection_is_extra(opened[N - 1]));
        ad_connection_close(opened[i]);
    }
    ck_assert(!ad_connection_is_extra(opened[N - 1]));
    for (size_t i = N - 3; i < N; i++) {
        ad_connection_close(opened[i]);
    }
}
END_TEST

static struct sockaddr_storage address_of(const char *text)
{
    struct sockaddr_storage storage = {.ss_family = AF_UNSPEC};
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &in.sin_addr) == 1) {
        memcpy(&storage, &in, sizeof in);
    } else if (inet_pton(AF_INET6, text, &in6.sin6_addr) == 1) {
        memcpy(&storage, &in6, sizeof in6);
    }
    return storage;
}

START_TEST(limit_per_address)
{
    /* who has which address counts with whom */
    static const struct {
        const char *first, *second;
        bool same;
    } pairs[] = {{"10.1.2.3", "10.1.2.3", true},
                 {"10.1.2.3", "10.1.2.4", false},
                 {"10.1.2.3", "::ffff:10.1.2.3", true},
                 {"::ffff:10.1.2.3", "::ffff:10.1.2.4", false},
                 {"2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true},
                 {"2001:db8:1:2::1", "2001:db8:1:3::1", false}};
    options.http_max_connections_per_address = 1;
    start();
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct sockaddr_storage first = address_of(pairs[i].first);
        struct sockaddr_storage second = address_of(pairs[i].second);
        ck_assert(ad_connections_admit(all, AD_SIDE_PUBLIC, (struct sockaddr *)&first));
        struct ad_connection *connection =
            ad_connection_open(all, AD_SIDE_PUBLIC, ends[0], (struct sockaddr *)&first);
        ck_assert(ad_connections_admit(all, AD_SIDE_PUBLIC, (struct sockaddr *)&second) !=
                  pairs[i].same);
        ck_assert(ad_connections_admit(all, AD_SIDE_ADMIN, (struct sockaddr *)&first));
        ad_connection_close(connection);
        ck_assert(ad_connections_admit(all, AD_SIDE_PUBLIC, (struct sockaddr *)&second));
    }
    ck_assert_uint_eq(atomic_load(&counts->turned_away[AD_TURNED_AWAY_ADDRESS]), 3);
}
END_TEST

START_TEST(no_address)
{
    options.http_max_connections_per_address = 1;
    start();
    struct ad_connection *first = open_one();
    ck_assert(ad_connections_admit(all, AD_SIDE_PUBLIC, &nowhere));
    struct ad_connection *second = open_one();
    ad_connection_close(first);
    ad_connection_close(second);
}
END_TEST

/* The table on its own, over many addresses. */
START_TEST(many_addresses)
{
    enum { N = 5000 };
    struct ad_addresses *addresses = calloc(1, sizeof *addresses);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < N; i++) {
            struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(i)};
            struct ad_source key = ad_source_of((struct sockaddr *)&in);
            ck_assert_uint_eq(ad_addresses_count(addresses, &key), round);
            ck_assert(ad_addresses_add(addresses, &key));
        }
    }
    for (uint32_t i = 0; i < N; i += 2) {
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(i)};
        struct ad_source key = ad_source_of((struct sockaddr *)&in);
        ad_addresses_remove(addresses, &key);
        ck_assert_uint_eq(ad_addresses_count(addresses, &key), 1);
        ad_addresses_remove(addresses, &key);
        ck_assert_uint_eq(ad_addresses_count(addresses, &key), 0);
        ad_addresses_remove(addresses, &key);
    }
    ad_addresses_reset(addresses);
    free(addresses);
}
END_TEST

/* ---- threads -------------------------------------------------------------------------------- */

static void *come_and_go(void *argument)
{
    unsigned *seed = argument;
    for (int i = 0; i < 2000; i++) {
        int pair[2];
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        struct sockaddr_in in = {.sin_family = AF_INET,
                                 .sin_addr.s_addr = (in_addr_t)rand_r(seed) % 8};
        struct ad_connection *connection =
            ad_connection_open(all, AD_SIDE_PUBLIC, pair[0], (struct sockaddr *)&in);
        ck_assert_ptr_nonnull(connection);
        (void)ad_connections_admit(all, AD_SIDE_PUBLIC, (struct sockaddr *)&in);
        ad_connection_await_body(connection, 10);
        ad_connection_rest(connection);
        ad_connection_await_reply(connection, 10);
        ad_connection_await_request(connection);
        ad_connection_close(connection);
        close(pair[0]);
        close(pair[1]);
    }
    return NULL;
}

START_TEST(threads)
{
    pthread_t others[4];
    unsigned seeds[4] = {1, 2, 3, 4};
    options.http_max_connections_per_address = 2;
    start();
    struct ad_connection *slow = open_one();
    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_create(&others[i], NULL, come_and_go, &seeds[i]), 0);
    }
    ck_assert(is_cut(PATIENCE_MS));
    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_join(others[i], NULL), 0);
    }
    ad_connection_close(slow);
    ck_assert_uint_eq(ad_connections_open(all), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("connections");
    TCase *tcase = tcase_create("connections");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, slow_headers);
    tcase_add_test(tcase, slow_body);
    tcase_add_test(tcase, slow_reply);
    tcase_add_test(tcase, slow_later_request);
    tcase_add_test(tcase, left_alone);
    tcase_add_test(tcase, body_in_pieces);
    tcase_add_test(tcase, closed_in_time);
    tcase_add_test(tcase, left_before_its_headers);
    tcase_add_test(tcase, left_in_its_body);
    tcase_add_test(tcase, left_after_its_reply);
    tcase_add_test(tcase, waits_for_its_reply);
    tcase_add_test(tcase, left_with_something_to_read);
    tcase_add_test(tcase, left_while_it_is_served);
    tcase_add_test(tcase, limit);
    tcase_add_test(tcase, limit_per_address);
    tcase_add_test(tcase, no_address);
    tcase_add_test(tcase, many_addresses);
    tcase_add_test(tcase, threads);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
