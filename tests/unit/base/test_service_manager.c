/* Is the service manager told what it should be, in the words that it knows, and is nothing lost when
 * there is none or it has gone? */
#include "base/clock.h"
#include "base/service_manager.h"

#include "unit/support.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)

static char folder[64];
static char path[96]; /* of the manager's socket */
static int manager_fd = -1;
static struct ad_service_manager manager;
static struct ad_log log_to;
static FILE *log_file;

static void listen_at(const char *name, bool is_abstract)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = strlen(name);
    memcpy(address.sun_path, name, n);
    if (is_abstract) {
        address.sun_path[0] = '\0';
    }
    manager_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    ck_assert_int_ge(manager_fd, 0);
    ck_assert_int_eq(bind(manager_fd, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)),
                     0);
}

static void set_up(void)
{
    strcpy(folder, "/tmp/attentiond-manager.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/notify", folder);
    log_file = tmpfile();
    ck_assert_ptr_nonnull(log_file);
    log_to = (struct ad_log){
        .level = AD_LOG_DEBUG, .format = AD_LOG_TEXT, .fd = fileno(log_file)};
    listen_at(path, false);
    setenv("NOTIFY_SOCKET", path, 1);
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

static void tear_down(void)
{
    close(manager_fd);
    (void)unlink(path);
    ck_assert_int_eq(rmdir(folder), 0);
    (void)fclose(log_file);
}

/* The next message; "" when there is none. */
static const char *heard(void)
{
    static char message[4096];
    ssize_t n = recv(manager_fd, message, sizeof message - 1, 0);
    message[n > 0 ? n : 0] = '\0';
    return message;
}

static size_t n_lines_logged(void)
{
    size_t n = 0;
    rewind(log_file);
    for (int c = 0; (c = getc(log_file)) != EOF;) {
        n += c == '\n';
    }
    return n;
}

START_TEST(a_life)
{
    char ready[256];
    long long told_us = 0;
    ad_service_manager_init(&manager, &log_to);
    ck_assert_ptr_null(getenv("NOTIFY_SOCKET"));
    ck_assert(fcntl(manager.fd, F_GETFD) & FD_CLOEXEC);
    ad_service_manager_ready(&manager, "serving");
    snprintf(ready, sizeof ready, "READY=1\nMAINPID=%ld\nSTATUS=serving", (long)getpid());
    ck_assert_str_eq(heard(), ready);
    int64_t before_us = ad_clock_now_ns() / 1000;
    ad_service_manager_reloading(&manager);
    ck_assert_int_eq(sscanf(heard(), "RELOADING=1\nMONOTONIC_USEC=%lld", &told_us), 1);
    ck_assert_int_ge(told_us, before_us);
    ck_assert_int_le(told_us, ad_clock_now_ns() / 1000);
    ad_service_manager_reloaded(&manager);
    ck_assert_str_eq(heard(), "READY=1");
    ad_service_manager_alive(&manager);
    ck_assert_str_eq(heard(), "WATCHDOG=1");
    ad_service_manager_status(&manager, "a\nREADY=1\tb");
    ck_assert_str_eq(heard(), "STATUS=a?READY=1?b");
    ad_service_manager_stopping(&manager, "finishing", 40 * NS_PER_S);
    ck_assert_str_eq(heard(),
                     "STOPPING=1\nEXTEND_TIMEOUT_USEC=40000000\nSTATUS=finishing");
    ck_assert_str_eq(heard(), "");
    ad_service_manager_reset(&manager);
    ck_assert_uint_eq(n_lines_logged(), 0);
}
END_TEST

/* Reloads may overlap each other and a stop. */
START_TEST(reloads)
{
    ad_service_manager_init(&manager, &log_to);
    ad_service_manager_reloading(&manager);
    ad_service_manager_reloading(&manager);
    ck_assert_ptr_nonnull(strstr(heard(), "RELOADING=1"));
    ck_assert_ptr_nonnull(strstr(heard(), "RELOADING=1"));
    ad_service_manager_reloaded(&manager);
    ck_assert_str_eq(heard(), "");
    ad_service_manager_stopping(&manager, "", 0);
    ck_assert_ptr_nonnull(strstr(heard(), "STOPPING=1"));
    ad_service_manager_reloaded(&manager);
    ad_service_manager_reloading(&manager);
    ad_service_manager_reloaded(&manager);
    ck_assert_str_eq(heard(), "");
    ad_service_manager_reset(&manager);
}
END_TEST

START_TEST(abstract)
{
    char name[64];
    close(manager_fd);
    snprintf(name, sizeof name, "@attentiond-test-%ld", (long)getpid());
    listen_at(name, true);
    setenv("NOTIFY_SOCKET", name, 1);
    ad_service_manager_init(&manager, &log_to);
    ad_service_manager_alive(&manager);
    ck_assert_str_eq(heard(), "WATCHDOG=1");
    ad_service_manager_reset(&manager);
}
END_TEST

static void tell_all(void)
{
    ad_service_manager_ready(&manager, "");
    ad_service_manager_reloading(&manager);
    ad_service_manager_reloaded(&manager);
    ad_service_manager_status(&manager, "");
    ad_service_manager_alive(&manager);
    ad_service_manager_stopping(&manager, "", 0);
}

START_TEST(none)
{
    unsetenv("NOTIFY_SOCKET");
    setenv("WATCHDOG_USEC", "1000000", 1);
    ad_service_manager_init(&manager, &log_to);
    ck_assert_int_eq(manager.fd, -1);
    ck_assert_int_eq(manager.watchdog_ns, 0); /* there is nobody to tell */
    ck_assert_ptr_null(getenv("WATCHDOG_USEC"));
    tell_all();
    ad_service_manager_reset(&manager);
    ck_assert_uint_eq(n_lines_logged(), 0);
}
END_TEST

/* It is said once that nobody listens. */
START_TEST(gone)
{
    ad_service_manager_init(&manager, &log_to);
    (void)unlink(path);
    tell_all();
    ck_assert_uint_eq(n_lines_logged(), 1);
    ad_service_manager_reset(&manager);
}
END_TEST

/* It takes nothing: a message is lost rather than the daemon held up. */
START_TEST(full)
{
    ad_service_manager_init(&manager, &log_to);
    int64_t begun_ns = ad_clock_now_ns();
    for (int i = 0; i < 100000 && n_lines_logged() == 0; i++) {
        ad_service_manager_alive(&manager);
    }
    ck_assert_uint_eq(n_lines_logged(), 1);
    ck_assert_int_lt(ad_clock_now_ns() - begun_ns, 10 * NS_PER_S);
    ad_service_manager_reset(&manager);
}
END_TEST

/* A status is cut where a message ends. */
START_TEST(long_status)
{
    static char text[8192];
    memset(text, 'x', sizeof text - 1);
    ad_service_manager_init(&manager, &log_to);
    ad_service_manager_ready(&manager, text);
    const char *message = heard();
    ck_assert_int_eq(strncmp(message, "READY=1\nMAINPID=", 16), 0);
    ck_assert_ptr_nonnull(strstr(message, "\nSTATUS=xxxx"));
    ck_assert_uint_lt(strlen(message), 2000);
    ad_service_manager_reset(&manager);
}
END_TEST

static const char *const bad_addresses[] = {"", "@", "/", "relative", "vsock:2:1234"};

START_TEST(bad_address)
{
    setenv("NOTIFY_SOCKET", bad_addresses[_i], 1);
    ad_service_manager_init(&manager, &log_to);
    ck_assert_int_eq(manager.fd, -1);
    ck_assert_uint_eq(n_lines_logged(), 1);
    tell_all();
    ad_service_manager_reset(&manager);
}
END_TEST

START_TEST(long_address)
{
    char text[256];
    const size_t most = sizeof((struct sockaddr_un *)0)->sun_path;
    memset(text, 'x', sizeof text);
    text[0] = '/';
    text[most] = '\0';
    setenv("NOTIFY_SOCKET", text, 1);
    ad_service_manager_init(&manager, &log_to);
    ck_assert_int_eq(manager.fd, -1);
    ad_service_manager_reset(&manager);
    text[most - 1] = '\0';
    setenv("NOTIFY_SOCKET", text, 1);
    ad_service_manager_init(&manager, &log_to);
    ck_assert_int_ge(manager.fd, 0);
    ad_service_manager_reset(&manager);
}
END_TEST

static const struct {
    const char *interval;
    const char *pid; /* "": ours; NULL: none */
    int64_t wanted_ns;
} watchdogs[] = {
    {"30000000", "", 30 * NS_PER_S},
    {"30000000", NULL, 30 * NS_PER_S},
    {"1", NULL, 1000},
    {"9223372036854775", NULL, INT64_C(9223372036854775000)},
    {"30000000", "1", 0}, /* for somebody else */
    {"30000000", "x", 0},
    {"30000000", "-1", 0},
    {"0", "", 0},
    {"", "", 0},
    {"-5", "", 0},
    {"30s", "", 0},
    {" 30", "", 0},
    {"9223372036854776", NULL, 0},
    {"99999999999999999999", "", 0},
};

START_TEST(intervals)
{
    char pid[32];
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    setenv("WATCHDOG_USEC", watchdogs[_i].interval, 1);
    if (watchdogs[_i].pid) {
        setenv("WATCHDOG_PID", watchdogs[_i].pid[0] ? watchdogs[_i].pid : pid, 1);
    }
    ad_service_manager_init(&manager, &log_to);
    ck_assert_int_eq(manager.watchdog_ns, watchdogs[_i].wanted_ns);
    ck_assert_ptr_null(getenv("WATCHDOG_USEC"));
    ck_assert_ptr_null(getenv("WATCHDOG_PID"));
    ad_service_manager_reset(&manager);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("service manager");
    TCase *tcase = tcase_create("service manager");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, a_life);
    tcase_add_test(tcase, reloads);
    tcase_add_test(tcase, abstract);
    tcase_add_test(tcase, none);
    tcase_add_test(tcase, gone);
    tcase_add_test(tcase, full);
    tcase_add_test(tcase, long_status);
    tcase_add_loop_test(tcase, bad_address, 0,
                        sizeof bad_addresses / sizeof *bad_addresses);
    tcase_add_test(tcase, long_address);
    tcase_add_loop_test(tcase, intervals, 0, sizeof watchdogs / sizeof *watchdogs);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
