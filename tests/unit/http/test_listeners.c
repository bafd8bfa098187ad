/* Is everything listened on that the options want, nothing else, and is nothing left behind? */
#include "http/listen.h"
#include "http/listeners.h"

#include "unit/support.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char folder[64];
static char path[96]; /* of a socket in it */

static void set_up(void)
{
    strcpy(folder, "/tmp/attentiond-listeners.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/socket", folder);
}

static void tear_down(void)
{
    (void)unlink(path);
    ck_assert_int_eq(rmdir(folder), 0);
}

static struct ad_options options_of(const char *address)
{
    static char mode[] = "660";
    return (struct ad_options){.http_address = (char *)(uintptr_t)address,
                               .http_unix_socket_mode = mode};
}

static bool has_v6(void)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6,
                               .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool has = fd >= 0 && bind(fd, (struct sockaddr *)&in6, sizeof in6) == 0;
    if (fd >= 0) {
        close(fd);
    }
    if (!has) {
        printf("no IPv6 here: not tested\n");
    }
    return has;
}

static bool reaches_v4(uint32_t address, uint16_t port)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port = htons(port),
                             .sin_addr.s_addr = htonl(address)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool reaches = connect(fd, (struct sockaddr *)&in, sizeof in) == 0;
    close(fd);
    return reaches;
}

static bool reaches_v6(uint16_t port)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6,
                               .sin6_port = htons(port),
                               .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool reaches = connect(fd, (struct sockaddr *)&in6, sizeof in6) == 0;
    close(fd);
    return reaches;
}

static void open_all(const struct ad_options *options, struct ad_listeners *listeners)
{
    struct ad_error error = {.status = AD_OK};
    ck_assert_msg(ad_listeners_open(options, NULL, listeners, &error) == AD_OK, "%s",
                  error.message);
}

/* ---- TCP ------------------------------------------------------------------------------------ */

START_TEST(one_port_for_all)
{
    struct ad_options options = options_of("127.0.0.1, 127.0.0.2,127.0.0.3");
    struct ad_listeners listeners;
    open_all(&options, &listeners);
    ck_assert_uint_eq(listeners.n, 3);
    uint16_t port = listeners.items[0].port;
    ck_assert_uint_ne(port, 0);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(listeners.items[i].port, port);
        ck_assert(!listeners.items[i].admin && !listeners.items[i].is_unix);
        ck_assert(reaches_v4(INADDR_LOOPBACK + (uint32_t)i, port));
    }
    ck_assert_str_eq(listeners.items[1].name, "127.0.0.2");
    ad_listeners_close(&listeners);
    ck_assert(!reaches_v4(INADDR_LOOPBACK, port));
    ad_listeners_close(&listeners); /* of an empty one */
}
END_TEST

START_TEST(localhost)
{
    struct ad_options options = options_of("localhost");
    struct ad_listeners listeners;
    open_all(&options, &listeners);
    ck_assert_uint_eq(listeners.n, 1);
    ck_assert(reaches_v4(INADDR_LOOPBACK, listeners.items[0].port));
    ad_listeners_close(&listeners);
}
END_TEST

/* :: takes both families, and leaves IPv4 to those that want it. */
START_TEST(both_families)
{
    static const char *const addresses[] = {"::", "::,0.0.0.0",
                                            "0.0.0.0,::", "::1,127.0.0.1"};
    for (size_t i = 0; has_v6() && i < sizeof addresses / sizeof addresses[0]; i++) {
        struct ad_options options = options_of(addresses[i]);
        struct ad_listeners listeners;
        open_all(&options, &listeners);
        uint16_t port = listeners.items[0].port;
        ck_assert(reaches_v4(INADDR_LOOPBACK, port));
        ck_assert(reaches_v6(port));
        ad_listeners_close(&listeners);
    }
}
END_TEST

START_TEST(v6_alone)
{
    struct ad_options options = options_of("::1");
    struct ad_listeners listeners;
    if (has_v6()) {
        open_all(&options, &listeners);
        ck_assert(reaches_v6(listeners.items[0].port));
        ck_assert(!reaches_v4(INADDR_LOOPBACK, listeners.items[0].port));
        ad_listeners_close(&listeners);
    }
}
END_TEST

START_TEST(bad_addresses)
{
    static const char *const bad[] = {
        "",          ",",     "300.1.2.3",   "127.0.0.1,x",
        "1.2.3.4/8", "[::1]", "example.com", "127.0.0.1:80"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct ad_options options = options_of(bad[i]);
        struct ad_listeners listeners;
        struct ad_error error = {.status = AD_OK};
        ck_assert_int_eq(ad_listeners_open(&options, NULL, &listeners, &error),
                         AD_INVALID);
        ck_assert_ptr_nonnull(strstr(error.message, "--http-address: expected"));
        ck_assert_uint_eq(listeners.n, 0);
        ad_error_clear(&error);
        ck_assert_int_eq(ad_listeners_check(&options, &error), AD_INVALID);
    }
}
END_TEST

START_TEST(port_in_use)
{
    struct ad_options first = options_of("127.0.0.1");
    struct ad_options second = options_of("127.0.0.2,127.0.0.1");
    struct ad_options twice = options_of("127.0.0.1,localhost");
    struct ad_listeners listeners;
    struct ad_listeners other;
    struct ad_error error = {.status = AD_OK};
    open_all(&first, &listeners);
    second.http_port = listeners.items[0].port;
    ck_assert_int_eq(ad_listeners_open(&second, NULL, &other, &error), AD_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(error.message, "cannot listen on 127.0.0.1 port"));
    ck_assert(!reaches_v4(INADDR_LOOPBACK + 1, listeners.items[0].port));
    ad_error_clear(&error);
    ck_assert_int_eq(ad_listeners_open(&twice, NULL, &other, &error), AD_UNAVAILABLE);
    ad_listeners_close(&listeners);
}
END_TEST

START_TEST(admin)
{
    static char here[] = "127.0.0.1";
    static char nowhere[] = "127.0.0.1,127.0.0.2";
    struct ad_options options = options_of("127.0.0.1");
    struct ad_listeners listeners;
    struct ad_error error = {.status = AD_OK};
    options.http_admin_address = here;
    open_all(&options, &listeners);
    ck_assert_uint_eq(listeners.n, 2);
    ck_assert(!listeners.items[0].admin && listeners.items[1].admin);
    ck_assert_uint_ne(listeners.items[0].port, listeners.items[1].port);
    ad_listeners_close(&listeners);
    options.http_admin_address = nowhere;
    ck_assert_int_eq(ad_listeners_open(&options, NULL, &listeners, &error), AD_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "--http-admin-address"));
    ad_error_clear(&error);
    ck_assert_int_eq(ad_listeners_check(&options, &error), AD_INVALID);
}
END_TEST

/* ---- unix ----------------------------------------------------------------------------------- */

static bool reaches_path(const char *where)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, where);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    bool reaches = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return reaches;
}

static bool is_there(const char *where)
{
    struct stat info;
    return lstat(where, &info) == 0;
}

static struct ad_options with_socket(char *where, char *mode)
{
    struct ad_options options = options_of("127.0.0.1");
    options.http_unix_socket = where;
    options.http_unix_socket_mode = mode;
    return options;
}

START_TEST(unix_socket)
{
    static char *const modes[] = {"660", "0600", "777", "0"};
    static const mode_t bits[] = {0660, 0600, 0777, 0};
    for (size_t i = 0; i < 4; i++) {
        struct ad_options options = with_socket(path, modes[i]);
        struct ad_listeners listeners;
        struct stat info;
        open_all(&options, &listeners);
        ck_assert_uint_eq(listeners.n, 2);
        ck_assert(listeners.items[1].is_unix);
        ck_assert_str_eq(listeners.items[1].name, path);
        ck_assert_int_eq(lstat(path, &info), 0);
        ck_assert_uint_eq(info.st_mode & 07777, bits[i]);
        ck_assert(reaches_path(path) || getuid() != 0);
        ad_listeners_close(&listeners);
        ck_assert(!is_there(path));
    }
}
END_TEST

START_TEST(left_over)
{
    char mode[] = "600";
    struct ad_options options = with_socket(path, mode);
    struct ad_listeners listeners;
    struct ad_error error = {.status = AD_OK};
    int fd = -1;
    ck_assert_int_eq(ad_listen_unix(path, mode, &fd, &error), AD_OK);
    /* somebody listens */
    ck_assert_int_eq(ad_listeners_open(&options, NULL, &listeners, &error),
                     AD_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(error.message, "another process listens"));
    ck_assert(reaches_path(path));
    ad_error_clear(&error);
    ck_assert_int_eq(ad_listeners_check(&options, &error), AD_OK);
    close(fd);
    ck_assert(is_there(path));
    /* nobody does */
    ck_assert_int_eq(ad_listeners_check(&options, &error), AD_OK);
    ck_assert(is_there(path));
    open_all(&options, &listeners);
    ck_assert(reaches_path(path));
    ad_listeners_close(&listeners);
}
END_TEST

/* What took the place of our file is not removed. */
START_TEST(replaced)
{
    char mode[] = "600";
    struct ad_options options = with_socket(path, mode);
    struct ad_listeners listeners;
    open_all(&options, &listeners);
    ck_assert_int_eq(unlink(path), 0);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fclose(file), 0);
    ad_listeners_close(&listeners);
    ck_assert(is_there(path));
}
END_TEST

START_TEST(other_kinds)
{
    char mode[] = "600";
    struct ad_listeners listeners;
    struct ad_error error = {.status = AD_OK};
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fclose(file), 0);
    char *const there[] = {path, folder};
    for (size_t i = 0; i < 2; i++) {
        struct ad_options options = with_socket(there[i], mode);
        ad_error_clear(&error);
        ck_assert_int_eq(ad_listeners_open(&options, NULL, &listeners, &error),
                         AD_INVALID);
        ck_assert_ptr_nonnull(strstr(error.message, "is no socket"));
        ck_assert(is_there(there[i]));
    }
}
END_TEST

START_TEST(bad_sockets)
{
    static char long_path[200];
    static char missing[] = "/nonexistent/folder/socket";
    static char empty[] = "";
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[0] = '/';
    const struct {
        char *path, *mode;
        enum ad_status status;
        const char *text;
    } bad[] = {{long_path, "660", AD_INVALID, "1 to 107 bytes, got one of 199"},
               {empty, "660", AD_INVALID, "bytes, got one of 0"},
               {missing, "660", AD_UNAVAILABLE, "No such file"},
               {path, "", AD_INVALID, "--http-unix-socket-mode: expected octal"},
               {path, "680", AD_INVALID, "got '680'"},
               {path, "rw", AD_INVALID, "got 'rw'"},
               {path, "1777", AD_INVALID, "got '1777'"},
               {path, "00660", AD_INVALID, "got '00660'"},
               {path, "-1", AD_INVALID, "got '-1'"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct ad_options options = with_socket(bad[i].path, bad[i].mode);
        struct ad_listeners listeners;
        struct ad_error error = {.status = AD_OK};
        ck_assert_int_eq(ad_listeners_open(&options, NULL, &listeners, &error),
                         bad[i].status);
        ck_assert_msg(strstr(error.message, bad[i].text) != NULL, "%s", error.message);
        ck_assert_uint_eq(listeners.n, 0);
        ck_assert(!is_there(path));
    }
}
END_TEST

/* ---- sockets that were passed --------------------------------------------------------------- */

static struct ad_passed_socket pass(const char *name, bool is_unix)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct ad_passed_socket passed = {.is_unix = is_unix, .name = strdup(name)};
    strcpy(un.sun_path, path);
    passed.fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(is_unix ? bind(passed.fd, (struct sockaddr *)&un, sizeof un)
                             : bind(passed.fd, (struct sockaddr *)&in, sizeof in),
                     0);
    ck_assert_int_eq(listen(passed.fd, 1), 0);
    return passed;
}

static struct ad_passed pass_all(const struct ad_passed_socket *sockets, size_t n)
{
    struct ad_passed passed = {calloc(n, sizeof *passed.items), n};
    ck_assert_ptr_nonnull(passed.items);
    memcpy(passed.items, sockets, n * sizeof *sockets);
    return passed;
}

/* In place of whatever the options name; the admin one is not the first, wherever it stood. */
START_TEST(all_passed)
{
    static char address[] = "192.0.2.1";
    struct ad_options options = options_of("192.0.2.1");
    struct ad_listeners listeners;
    struct ad_error error = {.status = AD_OK};
    options.http_port = 1;
    options.http_admin_address = address;
    options.http_unix_socket = address;
    const struct ad_passed_socket sockets[] = {pass("admin", false), pass("", true),
                                               pass("web", false)};
    struct ad_passed passed = pass_all(sockets, 3);
    ck_assert_msg(ad_listeners_open(&options, &passed, &listeners, &error) == AD_OK, "%s",
                  error.message);
    ck_assert_uint_eq(listeners.n, 3);
    const struct ad_listener *items = listeners.items;
    ck_assert(items[0].is_unix && items[0].passed && !items[0].admin);
    ck_assert_str_eq(items[0].name, path);
    ck_assert_uint_eq(items[0].port, 0);
    ck_assert(!items[1].is_unix && items[1].passed && !items[1].admin);
    ck_assert_str_eq(items[1].name, "127.0.0.1");
    ck_assert(reaches_v4(INADDR_LOOPBACK, items[1].port));
    ck_assert(items[2].admin && items[2].passed);
    ck_assert(ad_listeners_have_admin(&listeners));
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(passed.items[i].fd, -1);
        ck_assert_uint_gt(items[i].size, 0);
    }
    ad_listeners_close(&listeners);
    ck_assert(is_there(path)); /* whoever made it removes it */
    ad_passed_reset(&passed);
}
END_TEST

/* Each side by itself. */
START_TEST(one_side_passed)
{
    static char here[] = "127.0.0.2";
    struct ad_options options = options_of("127.0.0.1");
    struct ad_listeners listeners;
    struct ad_error error = {.status = AD_OK};
    const struct ad_passed_socket operators = pass("admin", true);
    struct ad_passed passed = pass_all(&operators, 1);
    ck_assert_int_eq(ad_listeners_open(&options, &passed, &listeners, &error), AD_OK);
    ck_assert_uint_eq(listeners.n, 2);
    ck_assert(!listeners.items[0].passed && !listeners.items[0].admin);
    ck_assert(listeners.items[1].passed && listeners.items[1].admin);
    ad_listeners_close(&listeners);
    ad_passed_reset(&passed);
    (void)unlink(path);
    options.http_admin_address = here;
    const struct ad_passed_socket clients = pass("x", true);
    passed = pass_all(&clients, 1);
    ck_assert_int_eq(ad_listeners_open(&options, &passed, &listeners, &error), AD_OK);
    ck_assert_uint_eq(listeners.n, 2);
    ck_assert(listeners.items[0].passed && !listeners.items[0].admin);
    ck_assert(!listeners.items[1].passed && listeners.items[1].admin);
    ck_assert_str_eq(listeners.items[1].name, here);
    ad_listeners_close(&listeners);
    ad_passed_reset(&passed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("listeners");
    TCase *tcase = tcase_create("listeners");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, one_port_for_all);
    tcase_add_test(tcase, localhost);
    tcase_add_test(tcase, both_families);
    tcase_add_test(tcase, v6_alone);
    tcase_add_test(tcase, bad_addresses);
    tcase_add_test(tcase, port_in_use);
    tcase_add_test(tcase, admin);
    tcase_add_test(tcase, unix_socket);
    tcase_add_test(tcase, left_over);
    tcase_add_test(tcase, replaced);
    tcase_add_test(tcase, other_kinds);
    tcase_add_test(tcase, bad_sockets);
    tcase_add_test(tcase, all_passed);
    tcase_add_test(tcase, one_side_passed);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
