/* passed.c - listening sockets that a service manager has opened for us. Called by main at start. */
#include "base/passed.h"
#include "base/digits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FIRST_FD 3

/* How many there are for us. */
static enum ad_status count_passed(size_t *n, struct ad_error *error)
{
    const char *pid = getenv("LISTEN_PID");
    const char *fds = getenv("LISTEN_FDS");
    *n = 0;
    if (!pid || !fds) {
        return AD_OK;
    }
    uint64_t for_whom = 0, number = 0;
    if (!ad_digits_read(pid, INT32_MAX, &for_whom) || for_whom == 0) {
        return ad_fail(error, AD_INVALID,
                       "LISTEN_PID: expected a process's number, got '%.64s'", pid);
    }
    if (for_whom != (uint64_t)getpid()) {
        return AD_OK; /* for the one that started us */
    }
    if (!ad_digits_read(fds, AD_PASSED_MAX, &number)) {
        return ad_fail(error, AD_INVALID,
                       "LISTEN_FDS: expected a number of sockets up to %d, got '%.64s'",
                       AD_PASSED_MAX, fds);
    }
    *n = (size_t)number;
    return AD_OK;
}

static int read_option(int fd, int option)
{
    int value = 0;
    socklen_t size = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

static enum ad_status refuse(const struct ad_passed_socket *passed, const char *reason,
                             struct ad_error *error)
{
    return ad_fail(error, AD_INVALID,
                   "LISTEN_FDS: descriptor %d%s%s: expected a TCP or unix stream socket "
                   "that listens, got %s",
                   passed->fd, passed->name[0] ? " " : "", passed->name, reason);
}

/* Is it one that we can accept on? Then it is made ready for that. */
static enum ad_status check(struct ad_passed_socket *passed, struct ad_error *error)
{
    int flags = fcntl(passed->fd, F_GETFL);
    if (flags < 0) {
        return refuse(passed, "a descriptor that is not open", error);
    }
    int type = read_option(passed->fd, SO_TYPE);
    int domain = read_option(passed->fd, SO_DOMAIN);
    if (type < 0) {
        return refuse(passed, "something that is no socket", error);
    }
    if (type != SOCK_STREAM) {
        return refuse(
            passed, type == SOCK_DGRAM ? "a datagram socket" : "a socket of another type",
            error);
    }
    if (domain != AF_INET && domain != AF_INET6 && domain != AF_UNIX) {
        return refuse(passed, "a socket of another family", error);
    }
    if (read_option(passed->fd, SO_ACCEPTCONN) != 1) {
        return refuse(passed, "a socket that does not listen (Accept=yes?)", error);
    }
    passed->is_unix = domain == AF_UNIX;
    if (fcntl(passed->fd, F_SETFD, FD_CLOEXEC) != 0 ||
        fcntl(passed->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        return refuse(passed, strerror(errno), error);
    }
    return AD_OK;
}

/* The i-th of n names between colons; without names each is "". */
static enum ad_status name_all(struct ad_passed *passed, const char *names,
                               struct ad_error *error)
{
    const char *at = names ? names : "";
    for (size_t i = 0; i < passed->n; i++) {
        size_t length = strcspn(at, ":");
        bool is_last = i + 1 == passed->n;
        if (names && is_last == (at[length] == ':')) {
            return ad_fail(error, AD_INVALID,
                           "LISTEN_FDNAMES: expected %zu names between colons, got "
                           "'%.200s'",
                           passed->n, names);
        }
        passed->items[i].name = strndup(at, length);
        if (!passed->items[i].name) {
            return ad_fail(error, AD_INTERNAL, "out of memory");
        }
        at += length + (at[length] == ':');
    }
    return AD_OK;
}

static void release(struct ad_passed *passed)
{
    for (size_t i = 0; i < passed->n; i++) {
        free(passed->items[i].name);
    }
    free(passed->items);
    *passed = (struct ad_passed){NULL, 0};
}

static enum ad_status take(struct ad_passed *passed, struct ad_error *error)
{
    size_t n = 0;
    enum ad_status status = count_passed(&n, error);
    if (status || n == 0) {
        return status;
    }
    passed->items = calloc(n, sizeof *passed->items);
    if (!passed->items) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    passed->n = n;
    for (size_t i = 0; i < n; i++) {
        passed->items[i].fd = FIRST_FD + (int)i;
    }
    status = name_all(passed, getenv("LISTEN_FDNAMES"), error);
    for (size_t i = 0; !status && i < n; i++) {
        status = check(&passed->items[i], error);
    }
    if (status) {
        release(passed);
    }
    return status;
}

enum ad_status ad_passed_take(struct ad_passed *passed, struct ad_error *error)
{
    *passed = (struct ad_passed){NULL, 0};
    enum ad_status status = take(passed, error);
    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_FDNAMES");
    return status;
}

void ad_passed_reset(struct ad_passed *passed)
{
    for (size_t i = 0; i < passed->n; i++) {
        if (passed->items[i].fd >= 0) {
            close(passed->items[i].fd);
        }
    }
    release(passed);
}
