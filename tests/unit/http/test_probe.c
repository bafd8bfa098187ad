/* Does the client believe what is HTTP, nothing else, and never wait longer than it should? A process
 * of its own plays the server. */
#include "base/clock.h"
#include "http/listen.h"
#include "http/probe.h"

#include "unit/support.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS INT64_C(1000000)
#define SHORT_NS (200 * NS_PER_MS)
#define LONG_NS (5000 * NS_PER_MS)

/* What the server does with a connection, once it has read something. */
enum manner {
    CLOSES,    /* after the reply */
    STAYS,     /* open after it */
    DRIBBLES,  /* a byte every 20 ms */
    FLOODS,    /* the reply again and again */
    RESETS,    /* instead of a reply */
    TURNS_AWAY /* reads nothing and closes */
};

struct scene {
    const char *reply;
    enum manner manner;
    bool tls;
    int64_t patience_ns;
    enum ad_status status;
    unsigned code;
};

static const struct scene scenes[] = {
    {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", CLOSES, false, LONG_NS, AD_OK, 200},
    {"HTTP/1.0 503 Service Unavailable\r\n\r\n{}", CLOSES, false, LONG_NS, AD_OK, 503},
    {"HTTP/1.1 200 \r\n", CLOSES, false, LONG_NS, AD_OK, 200},
    {"HTTP/1.1 404\r\n", CLOSES, false, LONG_NS, AD_OK, 404},
    {"HTTP/1.1 200 OK\r\n\r\n", STAYS, false, SHORT_NS, AD_OK, 200},
    {"HTTP/1.1 200 OK\r\n\r\n", DRIBBLES, false, LONG_NS, AD_OK, 200},
    {"HTTP/1.1 200 OK\r\n\r\n", FLOODS, false, LONG_NS, AD_OK, 200},
    {"", CLOSES, false, LONG_NS, AD_CANCELED, 0},
    {"", RESETS, false, LONG_NS, AD_CANCELED, 0},
    {"", TURNS_AWAY, false, LONG_NS, AD_CANCELED, 0},
    {"", STAYS, false, SHORT_NS, AD_UNAVAILABLE, 0},
    {"HTTP/1.1 20", STAYS, false, SHORT_NS, AD_UNAVAILABLE, 0},
    {"HTTP/1.1 200 OK", DRIBBLES, false, 100 * NS_PER_MS, AD_UNAVAILABLE, 0},
    {"HTTP/1.1 20", CLOSES, false, LONG_NS, AD_INVALID, 0},
    {"HTTP/1.1 2x0 OK\r\n", CLOSES, false, LONG_NS, AD_INVALID, 0},
    {"HTTP/1.1 2000 OK\r\n", CLOSES, false, LONG_NS, AD_INVALID, 0},
    {"HTTP/2.0 200 OK\r\n", CLOSES, false, LONG_NS, AD_INVALID, 0},
    {"HTTP/1.x 200 OK\r\n", CLOSES, false, LONG_NS, AD_INVALID, 0},
    {"SSH-2.0-OpenSSH_9.2p1\r\n", CLOSES, false, LONG_NS, AD_INVALID, 0},
    {"\x15\x03\x03\x02\x28\x15\x03\x03\x02\x28\x15\x03\x03\x02", FLOODS, false, LONG_NS,
     AD_INVALID, 0},
    {"HTTP/1.1 400 Bad Request\r\n\r\n", CLOSES, true, LONG_NS, AD_INVALID, 0},
    {"", STAYS, true, SHORT_NS, AD_UNAVAILABLE, 0},
    {"", CLOSES, true, LONG_NS, AD_CANCELED, 0},
    {"", TURNS_AWAY, true, LONG_NS, AD_CANCELED, 0},
};

static void pause_ms(long ms)
{
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static void reply_to(int fd, const struct scene *scene)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    size_t n = strlen(scene->reply);
    switch (scene->manner) {
    case DRIBBLES:
        for (size_t i = 0; i < n && write(fd, scene->reply + i, 1) == 1; i++) {
            pause_ms(20);
        }
        break;
    case FLOODS:
        while (write(fd, scene->reply, n) == (ssize_t)n) {
        }
        break;
    case RESETS:
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        break;
    case CLOSES:
    case STAYS:
        (void)!write(fd, scene->reply, n);
        break;
    case TURNS_AWAY:
        break;
    }
    if (scene->manner == STAYS) {
        pause_ms(20000);
    }
    close(fd);
}

static pid_t serve_on(int listening, const struct scene *scene)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        char request[4096];
        signal(SIGPIPE, SIG_IGN);
        int fd = accept(listening, NULL, NULL);
        if (fd >= 0 && scene->manner != TURNS_AWAY) {
            (void)!read(fd, request, sizeof request);
        }
        reply_to(fd, scene);
        _exit(0);
    }
    return pid;
}

static void stop_serving(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

static struct ad_probe probe_of(int fd, bool tls)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    return ad_probe_at(&address, size, tls);
}

static int listen_on(const char *text)
{
    struct ad_endpoint endpoint;
    struct ad_error error = {.status = AD_OK};
    int fd = -1;
    uint16_t port = 0;
    ck_assert_int_eq(ad_endpoint_parse("test", text, &endpoint, &error), AD_OK);
    ck_assert_int_eq(ad_listen_tcp(&endpoint, text, 0, &fd, &port, &error), AD_OK);
    ck_assert_int_eq(fcntl(fd, F_SETFL, 0), 0); /* whoever plays the server waits */
    return fd;
}

START_TEST(replies)
{
    const struct scene *scene = &scenes[_i];
    struct ad_error error = {.status = AD_OK};
    unsigned code = 1;
    int fd = listen_on("127.0.0.1");
    pid_t pid = serve_on(fd, scene);
    struct ad_probe probe = probe_of(fd, scene->tls);
    int64_t begun_ns = ad_clock_now_ns();
    enum ad_status status = ad_probe_get(&probe, "/v2/health/live",
                                         begun_ns + scene->patience_ns, &code, &error);
    int64_t took_ns = ad_clock_now_ns() - begun_ns;
    stop_serving(pid);
    close(fd);
    ck_assert_msg(status == scene->status, "status %d: %s", (int)status, error.message);
    ck_assert_uint_eq(code, scene->code);
    ck_assert_int_eq(error.status, scene->status);
    ck_assert_int_lt(took_ns, scene->patience_ns + 2000 * NS_PER_MS);
}
END_TEST

/* Nobody accepts, and the queue is as good as endless. */
START_TEST(hangs)
{
    struct ad_error error = {.status = AD_OK};
    unsigned code = 1;
    int fd = listen_on("127.0.0.1");
    struct ad_probe probe = probe_of(fd, false);
    int64_t begun_ns = ad_clock_now_ns();
    ck_assert_int_eq(ad_probe_get(&probe, "/", begun_ns + SHORT_NS, &code, &error),
                     AD_UNAVAILABLE);
    ck_assert_str_eq(error.message, "no answer in time");
    ck_assert_int_ge(ad_clock_now_ns() - begun_ns, SHORT_NS);
    close(fd);
    /* nor is there anybody */
    ad_error_clear(&error);
    ck_assert_int_eq(
        ad_probe_get(&probe, "/", ad_clock_now_ns() + LONG_NS, &code, &error),
        AD_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(error.message, "cannot connect: "));
    ad_error_clear(&error);
    /* nor time */
    ck_assert_int_eq(ad_probe_get(&probe, "/", 0, &code, &error), AD_UNAVAILABLE);
}
END_TEST

START_TEST(unix_socket)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ad_error error = {.status = AD_OK};
    unsigned code = 0;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(sa_family_t)), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    pid_t pid = serve_on(fd, &scenes[0]);
    struct ad_probe probe = probe_of(fd, false);
    ck_assert_int_eq(
        ad_probe_get(&probe, "/", ad_clock_now_ns() + LONG_NS, &code, &error), AD_OK);
    ck_assert_uint_eq(code, 200);
    stop_serving(pid);
    close(fd);
}
END_TEST

/* An address that stands for all is asked over loopback. */
START_TEST(every_address)
{
    static const char *const texts[] = {"0.0.0.0", "::"};
    for (size_t i = 0; i < 2; i++) {
        struct ad_endpoint endpoint;
        struct ad_error error = {.status = AD_OK};
        ck_assert_int_eq(ad_endpoint_parse("test", texts[i], &endpoint, &error), AD_OK);
        struct ad_probe probe = ad_probe_at(&endpoint.address, endpoint.size, true);
        ck_assert(probe.tls);
        ck_assert_uint_eq(probe.size, endpoint.size);
        if (i == 0) {
            const struct sockaddr_in *in = (const struct sockaddr_in *)&probe.address;
            ck_assert_uint_eq(ntohl(in->sin_addr.s_addr), INADDR_LOOPBACK);
        } else {
            const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&probe.address;
            ck_assert(IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr));
        }
    }
}
END_TEST

static const struct {
    const char *address;
    uint64_t port;
    const char *certificate;
    const char
        *wanted; /* address, port, and an s for TLS; or part of the error, after '!' */
} places[] = {
    {"127.0.0.1", 8000, NULL, "127.0.0.1 8000"},
    {"localhost", 1, NULL, "127.0.0.1 1"},
    {"0.0.0.0", 65535, "/nowhere", "127.0.0.1 65535 s"},
    {"::", 80, NULL, "::1 80"},
    {"10.1.2.3,0.0.0.0", 80, NULL, "10.1.2.3 80"},
    {" ::1 , 0.0.0.0", 80, NULL, "::1 80"},
    {"127.0.0.1", 0, NULL, "!--health-check: expected --http-port"},
    {"", 80, NULL, "!--http-address: expected"},
    {",", 80, NULL, "!--http-address: expected"},
    {"example.org", 80, NULL, "!got 'example.org'"},
};

START_TEST(finding)
{
    char text[128] = "";
    char host[64];
    char port[16];
    struct ad_probe probe;
    struct ad_error error = {.status = AD_OK};
    const struct ad_options options = {
        .http_address = (char *)(uintptr_t)places[_i].address,
        .http_port = places[_i].port,
        .tls_certificate = (char *)(uintptr_t)places[_i].certificate};
    enum ad_status status = ad_probe_find(&options, &probe, &error);
    if (places[_i].wanted[0] == '!') {
        ck_assert_int_eq(status, AD_INVALID);
        ck_assert_msg(strstr(error.message, places[_i].wanted + 1) != NULL, "%s",
                      error.message);
        return;
    }
    ck_assert_int_eq(status, AD_OK);
    ck_assert_int_eq(getnameinfo((struct sockaddr *)&probe.address, probe.size, host,
                                 sizeof host, port, sizeof port,
                                 NI_NUMERICHOST | NI_NUMERICSERV),
                     0);
    snprintf(text, sizeof text, "%s %s%s", host, port, probe.tls ? " s" : "");
    ck_assert_str_eq(text, places[_i].wanted);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("probe");
    TCase *tcase = tcase_create("probe");
    tcase_set_timeout(tcase, 30);
    tcase_add_loop_test(tcase, replies, 0, sizeof scenes / sizeof *scenes);
    tcase_add_test(tcase, hangs);
    tcase_add_test(tcase, unix_socket);
    tcase_add_test(tcase, every_address);
    tcase_add_loop_test(tcase, finding, 0, sizeof places / sizeof *places);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
