/* fuzz_http.c - bytes to a running server, as a client or a proxy may send them: it answers with whole
 * replies of kinds that it gives, ends the connection, and lives.
 *
 * Bits of the first byte say which of two doors they come to (1: of the one that wants keys), whether the
 * client hangs up without reading (2), and in how many pieces beside the last they come (4 and 8); as many
 * bytes follow it, which say how long each piece is. */
#include "fuzz/http_replies.h"
#include "fuzz/http_server.h"

#include <errno.h>
#include <linux/sockios.h>
#include <sched.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <time.h>

#define MOST_BYTES ((size_t)64 << 10) /* fits the socket, so that sending ends */
#define MOST_REPLIES ((size_t)16 << 20)
#define PATIENCE_S 60
#define MOST_YIELDS 200 /* to wait for a piece to be taken */
#define MOST_TURNS 400
#define EACH_ALIVE 64 /* inputs */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int dial(size_t door)
{
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fixture_require(
        fd >= 0 &&
            setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0 &&
            connect(fd, (const struct sockaddr *)&http_server.doors[door].address,
                    http_server.doors[door].n_address) == 0,
        "cannot connect");
    return fd;
}

/* Send bytes, and let the server take them alone where it comes to it; it may have hung up. */
static void send_piece(int fd, const uint8_t *data, size_t n)
{
    const struct timespec pause = {.tv_nsec = 200000};
    int n_waiting = 1;
    if (send(fd, data, n, MSG_NOSIGNAL) < 0) {
        return;
    }
    for (int i = 0; i < MOST_TURNS && n_waiting > 0; i++) {
        if (i < MOST_YIELDS) {
            sched_yield();
        } else {
            nanosleep(&pause, NULL);
        }
        if (ioctl(fd, SIOCOUTQ, &n_waiting) != 0) {
            return;
        }
    }
}

/* The fuzzer's own alarm interrupts now and then. */
static ssize_t read_some(int fd, char *bytes, size_t size)
{
    ssize_t n;
    do {
        n = read(fd, bytes, size);
    } while (n < 0 && errno == EINTR);
    return n;
}

/* Until the server closes. */
static void read_all(int fd, struct ad_buffer *replies)
{
    char bytes[4096];
    ssize_t n;
    while ((n = read_some(fd, bytes, sizeof bytes)) > 0) {
        fixture_require(replies->size < MOST_REPLIES, "no end of replies");
        fixture_require(ad_buffer_append(replies, bytes, (size_t)n), "memory");
    }
    fixture_require(n == 0 || errno == ECONNRESET, "the server does not answer");
}

/* Sends what says how it is cut, and then the rest. */
static void send_all(int fd, const uint8_t *cuts, size_t n_cuts, const uint8_t *data,
                     size_t size)
{
    for (size_t i = 0; i < n_cuts; i++) {
        size_t n = cuts[i] < size ? cuts[i] : size;
        send_piece(fd, data, n);
        data += n;
        size -= n;
    }
    /* an end that comes with the last bytes would be seen only once the client takes too long */
    send_piece(fd, data, size);
    (void)shutdown(fd, SHUT_WR);
}

static void check_replies(const struct ad_buffer *replies)
{
    if (replies->size > 0) {
        const char *end = replies->data + replies->size;
        for (const char *at = replies->data; at < end;) {
            at = reply_check(at, end);
        }
    }
}

static void check_alive(size_t door)
{
    static const char request[] =
        "GET /v2/health/live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    struct ad_buffer replies;
    ad_buffer_init(&replies);
    int fd = dial(door);
    fixture_require(send(fd, request, sizeof request - 1, MSG_NOSIGNAL) ==
                        (ssize_t)sizeof request - 1,
                    "cannot send");
    read_all(fd, &replies);
    fixture_require(replies.size > 12 && strncmp(replies.data + 9, "200", 3) == 0,
                    "not alive");
    close(fd);
    ad_buffer_reset(&replies);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static size_t n_inputs;
    if (size == 0 || size > MOST_BYTES) {
        return 0;
    }
    if (n_inputs++ == 0) {
        http_start();
    }
    size_t door = data[0] & 1, n_cuts = (data[0] >> 2) & 3;
    bool hangs_up = (data[0] & 2) != 0;
    n_cuts = n_cuts < size - 1 ? n_cuts : size - 1;
    struct ad_buffer replies;
    ad_buffer_init(&replies);
    int fd = dial(door);
    send_all(fd, data + 1, n_cuts, data + 1 + n_cuts, size - 1 - n_cuts);
    if (!hangs_up) {
        read_all(fd, &replies);
        check_replies(&replies);
    }
    close(fd);
    ad_buffer_reset(&replies);
    if (hangs_up || n_inputs % EACH_ALIVE == 1) {
        check_alive(door);
    }
    http_forget();
    return 0;
}
