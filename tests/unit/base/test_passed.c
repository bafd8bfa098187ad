/* Are sockets that were passed taken, and is everything else refused with a clear word? Each case is a
 * process of its own, whose descriptors from 3 on are what it was passed. */
#include "base/passed.h"

#include "unit/support.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_PASSED 3

/* What may lie at a descriptor. */
enum kind { NOTHING, TCP, TCP6, UNIX, SILENT_TCP, DATAGRAM, PACKETS, A_FILE };

struct scene {
    const char *pid; /* NULL: ours; "": the variable is not there */
    const char *fds;
    const char *names; /* NULL: the variable is not there */
    enum kind kinds[MAX_PASSED];
    const char *wanted; /* kind and name of each; or part of the error, after '!' */
};

static const struct scene scenes[] = {
    {NULL, "1", NULL, {TCP}, "tcp:,"},
    {NULL, "1", "web", {TCP}, "tcp:web,"},
    {NULL, "3", "web::admin", {TCP, UNIX, TCP6}, "tcp:web,unix:,tcp:admin,"},
    {NULL, "2", "a b:c", {UNIX, TCP}, "unix:a b,tcp:c,"},
    {NULL, "0", NULL, {TCP}, ""},
    {"", "1", NULL, {TCP}, ""},
    {"1", "1", NULL, {DATAGRAM}, ""}, /* for somebody else, whatever it is */
    {"1", "x", NULL, {TCP}, ""},
    {NULL,
     "",
     NULL,
     {TCP},
     "!LISTEN_FDS: expected a number of sockets up to 256, got ''"},
    {NULL, "-1", NULL, {TCP}, "!LISTEN_FDS: expected a number"},
    {NULL, "1x", NULL, {TCP}, "!got '1x'"},
    {NULL, "257", NULL, {TCP}, "!got '257'"},
    {NULL, "99999999999999999999", NULL, {TCP}, "!LISTEN_FDS: expected a number"},
    {"x", "1", NULL, {TCP}, "!LISTEN_PID: expected a process's number, got 'x'"},
    {"-1", "1", NULL, {TCP}, "!LISTEN_PID"},
    {"0", "1", NULL, {TCP}, "!LISTEN_PID"},
    {NULL, "1", NULL, {NOTHING}, "!descriptor 3: expected a TCP or unix stream socket"},
    {NULL, "2", "a:b", {TCP, NOTHING}, "!descriptor 4 b: "},
    {NULL, "1", NULL, {DATAGRAM}, "!got a datagram socket"},
    {NULL, "1", NULL, {PACKETS}, "!got a socket of another type"},
    {NULL, "1", NULL, {A_FILE}, "!got something that is no socket"},
    {NULL, "1", NULL, {SILENT_TCP}, "!got a socket that does not listen"},
    {NULL,
     "2",
     "a",
     {TCP, TCP},
     "!LISTEN_FDNAMES: expected 2 names between colons, got 'a'"},
    {NULL, "1", "a:b", {TCP}, "!LISTEN_FDNAMES: expected 1 names"},
    {NULL, "2", "", {TCP, TCP}, "!LISTEN_FDNAMES"},
};

/* Listening, where the kind does. A unix socket gets a name that is in no folder. */
static int open_kind(enum kind kind)
{
    struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
    socklen_t size = 0;
    int type = SOCK_STREAM;
    switch (kind) {
    case NOTHING:
        return -1;
    case A_FILE:
        return open("/dev/null", O_RDWR);
    case DATAGRAM:
        return socket(AF_UNIX, SOCK_DGRAM, 0);
    case PACKETS:
        type = SOCK_SEQPACKET;
        __attribute__((fallthrough));
    case UNIX:
        address.ss_family = AF_UNIX;
        size = sizeof(sa_family_t); /* the system finds a name */
        break;
    case TCP:
    case SILENT_TCP:
        address.ss_family = AF_INET;
        size = sizeof(struct sockaddr_in);
        break;
    case TCP6:
        address.ss_family = AF_INET6;
        size = sizeof(struct sockaddr_in6);
        break;
    }
    int fd = socket(address.ss_family, type, 0);
    if (fd < 0 && kind == TCP6) {
        return open_kind(TCP); /* no IPv6 here */
    }
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 ||
        (kind != SILENT_TCP && listen(fd, 1) != 0)) {
        _exit(100);
    }
    return fd;
}

static void pass(const struct scene *scene)
{
    char pid[32];
    int fds[MAX_PASSED];
    for (size_t i = 0; i < MAX_PASSED; i++) {
        int fd = open_kind(scene->kinds[i]);
        fds[i] = fd < 0 ? fd : fcntl(fd, F_DUPFD, 20);
    }
    for (int i = 0; i < MAX_PASSED; i++) {
        if (fds[i] < 0) {
            close(3 + i);
        } else if (dup2(fds[i], 3 + i) < 0) {
            _exit(101);
        }
    }
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDNAMES");
    setenv("LISTEN_FDS", scene->fds, 1);
    if (!scene->pid || scene->pid[0]) {
        setenv("LISTEN_PID", scene->pid ? scene->pid : pid, 1);
    }
    if (scene->names) {
        setenv("LISTEN_FDNAMES", scene->names, 1);
    }
}

static void describe(const struct ad_passed *passed, char *text, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < passed->n; i++) {
        const struct ad_passed_socket *item = &passed->items[i];
        n += (size_t)snprintf(text + n, size - n, "%s:%s,",
                              item->is_unix ? "unix" : "tcp", item->name);
        if (item->fd != 3 + (int)i || !(fcntl(item->fd, F_GETFD) & FD_CLOEXEC) ||
            !(fcntl(item->fd, F_GETFL) & O_NONBLOCK)) {
            _exit(102);
        }
    }
}

/* In the process of its own. */
static int play(const struct scene *scene)
{
    struct ad_passed passed;
    struct ad_error error = {.status = AD_OK};
    char text[256] = "";
    pass(scene);
    enum ad_status status = ad_passed_take(&passed, &error);
    describe(&passed, text, sizeof text);
    bool as_wanted = scene->wanted[0] == '!'
                         ? status == AD_INVALID && passed.n == 0 &&
                               strstr(error.message, scene->wanted + 1) != NULL
                         : status == AD_OK && strcmp(text, scene->wanted) == 0;
    if (!as_wanted) {
        fprintf(stderr, "wanted '%s', got %d '%s' '%s'\n", scene->wanted, status, text,
                error.message);
        return 1;
    }
    if (getenv("LISTEN_PID") || getenv("LISTEN_FDS") || getenv("LISTEN_FDNAMES")) {
        return 2;
    }
    size_t n = passed.n;
    ad_passed_reset(&passed);
    if (n > 0 && (fcntl(3, F_GETFD) != -1 || errno != EBADF)) {
        return 3; /* what nobody took is closed */
    }
    return 0;
}

START_TEST(passing)
{
    int code = 0;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        _exit(play(&scenes[_i]));
    }
    ck_assert_int_eq(waitpid(pid, &code, 0), pid);
    ck_assert(WIFEXITED(code));
    ck_assert_int_eq(WEXITSTATUS(code), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("passed");
    TCase *tcase = tcase_create("passed");
    tcase_add_loop_test(tcase, passing, 0, sizeof scenes / sizeof *scenes);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
