/* probe.c - a small HTTP client that asks for health.
 *
 * Runs on the main thread, of the daemon or of a process that only asks. Every wait ends at the
 * deadline, and of what comes no more is read than a reply to such a question may have. */
#include "http/probe.h"

#include "base/clock.h"
#include "base/words.h"
#include "http/listen.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NS_PER_MS INT64_C(1000000)
#define MAX_REPLY ((size_t)64 << 10) /* bytes; what follows is not waited for */
#define CODE_AT 9                    /* where the code is in "HTTP/1.1 200" */
#define LINE_SIZE 13                 /* that, and the byte behind it */

/* A conversation. */
struct talk {
    int fd;
    gnutls_certificate_credentials_t credentials; /* NULL: no TLS */
    gnutls_session_t session;
    int64_t deadline_ns;
    struct ad_error *error;
};

/* ---- whom to ask ---------------------------------------------------------------------------- */

struct ad_probe ad_probe_at(const struct sockaddr_storage *address, socklen_t size,
                            bool tls)
{
    struct ad_probe probe = {.address = *address, .size = size, .tls = tls};
    if (address->ss_family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)&probe.address;
        if (in->sin_addr.s_addr == htonl(INADDR_ANY)) {
            in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        }
    } else if (address->ss_family == AF_INET6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&probe.address;
        if (IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr)) {
            in6->sin6_addr = in6addr_loopback;
        }
    }
    return probe;
}

enum ad_status ad_probe_find(const struct ad_options *options, struct ad_probe *probe,
                             struct ad_error *error)
{
    struct ad_words addresses;
    struct ad_endpoint endpoint = {.size = 0};
    if (options->http_port == 0) {
        return ad_fail(error, AD_INVALID,
                       "--health-check: expected --http-port to name the daemon's port, "
                       "got 0, which any may be");
    }
    if (!ad_words_split(options->http_address, &addresses)) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    enum ad_status status = ad_endpoint_parse(
        "--http-address", addresses.n ? addresses.items[0] : "", &endpoint, error);
    ad_words_reset(&addresses);
    if (!status) {
        ad_endpoint_set_port(&endpoint, (uint16_t)options->http_port);
        *probe = ad_probe_at(&endpoint.address, endpoint.size,
                             options->tls_certificate != NULL);
    }
    return status;
}

/* ---- moving bytes --------------------------------------------------------------------------- */

static enum ad_status await(struct talk *talk, short events)
{
    struct pollfd polled = {.fd = talk->fd, .events = events};
    int n = 0;
    do {
        int64_t left_ns = talk->deadline_ns - ad_clock_now_ns();
        if (left_ns <= 0) {
            return ad_fail(talk->error, AD_UNAVAILABLE, "no answer in time");
        }
        /* a deadline may be as far off as a clock goes, and poll counts in int */
        int64_t left_ms = (left_ns + NS_PER_MS - 1) / NS_PER_MS;
        n = poll(&polled, 1, left_ms < 1000 ? (int)left_ms : 1000);
    } while (n == 0 || (n < 0 && errno == EINTR));
    return n > 0 ? AD_OK
                 : ad_fail(talk->error, AD_INTERNAL, "cannot wait for an answer: %s",
                           strerror(errno));
}

static bool is_hang_up(int code)
{
    return code == ECONNRESET || code == EPIPE;
}

static enum ad_status hung_up(struct talk *talk)
{
    return ad_fail(talk->error, AD_CANCELED,
                   "the connection was closed without an answer");
}

static enum ad_status fail_system(struct talk *talk)
{
    return is_hang_up(errno)
               ? hung_up(talk)
               : ad_fail(talk->error, AD_UNAVAILABLE, "%s", strerror(errno));
}

/* After a call of the TLS library that did not succeed: AD_OK, try again. */
static enum ad_status await_tls(struct talk *talk, ssize_t code)
{
    switch (code) {
    case GNUTLS_E_AGAIN:
        return await(talk, gnutls_record_get_direction(talk->session) ? POLLOUT : POLLIN);
    case GNUTLS_E_INTERRUPTED:
        return AD_OK;
    case GNUTLS_E_PREMATURE_TERMINATION:
    case GNUTLS_E_PULL_ERROR:
    case GNUTLS_E_PUSH_ERROR:
        return hung_up(talk);
    default:
        return ad_fail(talk->error, AD_INVALID, "TLS: %s", gnutls_strerror((int)code));
    }
}

/* At least one byte; *n receives how many. 0: there are no more. */
static enum ad_status receive(struct talk *talk, char *bytes, size_t size, size_t *n)
{
    enum ad_status status = AD_OK;
    while (!status) {
        ssize_t got = talk->session ? gnutls_record_recv(talk->session, bytes, size)
                                    : recv(talk->fd, bytes, size, 0);
        if (got >= 0) {
            *n = (size_t)got;
            return AD_OK;
        }
        if (talk->session) {
            status = await_tls(talk, got);
        } else if (errno == EAGAIN) {
            status = await(talk, POLLIN);
        } else if (errno != EINTR) {
            status = fail_system(talk);
        }
    }
    return status;
}

static enum ad_status send_all(struct talk *talk, const char *bytes, size_t n)
{
    enum ad_status status = AD_OK;
    while (!status && n > 0) {
        ssize_t sent = talk->session ? gnutls_record_send(talk->session, bytes, n)
                                     : send(talk->fd, bytes, n, MSG_NOSIGNAL);
        if (sent >= 0) {
            bytes += sent;
            n -= (size_t)sent;
        } else if (talk->session) {
            status = await_tls(talk, sent);
        } else if (errno == EAGAIN) {
            status = await(talk, POLLOUT);
        } else if (errno != EINTR) {
            status = fail_system(talk);
        }
    }
    return status;
}

/* ---- a conversation ------------------------------------------------------------------------- */

static enum ad_status connect_to(struct talk *talk, const struct ad_probe *probe)
{
    int code = 0;
    socklen_t size = sizeof code;
    talk->fd =
        socket(probe->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (talk->fd < 0) {
        return ad_fail(talk->error, AD_INTERNAL, "cannot make a socket: %s",
                       strerror(errno));
    }
    if (connect(talk->fd, (const struct sockaddr *)&probe->address, probe->size) == 0) {
        return AD_OK;
    }
    if (errno != EINPROGRESS && errno != EINTR) {
        return ad_fail(talk->error, AD_UNAVAILABLE, "cannot connect: %s",
                       strerror(errno));
    }
    enum ad_status status = await(talk, POLLOUT);
    if (!status &&
        (getsockopt(talk->fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0 || code)) {
        return ad_fail(talk->error, AD_UNAVAILABLE, "cannot connect: %s",
                       strerror(code ? code : errno));
    }
    return status;
}

static enum ad_status begin_tls(struct talk *talk)
{
    int code = gnutls_certificate_allocate_credentials(&talk->credentials);
    if (code == 0) {
        code = gnutls_init(&talk->session,
                           GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
    }
    if (code == 0) {
        code = gnutls_set_default_priority(talk->session);
    }
    if (code == 0) {
        code = gnutls_credentials_set(talk->session, GNUTLS_CRD_CERTIFICATE,
                                      talk->credentials);
    }
    if (code < 0) {
        return ad_fail(talk->error, AD_INTERNAL, "TLS: %s", gnutls_strerror(code));
    }
    gnutls_transport_set_int(talk->session, talk->fd);
    enum ad_status status = AD_OK;
    while (!status && (code = gnutls_handshake(talk->session)) < 0) {
        if (gnutls_error_is_fatal(code) || code == GNUTLS_E_AGAIN) {
            status = await_tls(talk, code);
        }
    }
    return status;
}

static void end(struct talk *talk)
{
    if (talk->session) {
        gnutls_deinit(talk->session);
    }
    if (talk->credentials) {
        gnutls_certificate_free_credentials(talk->credentials);
    }
    if (talk->fd >= 0) {
        close(talk->fd);
    }
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* "HTTP/1.1 200 OK": the code, or 0. n is LINE_SIZE, or less where no more came. */
static unsigned parse_code(const char *line, size_t n)
{
    static const char start[] = "HTTP/1.";
    if (n < LINE_SIZE || memcmp(line, start, sizeof start - 1) != 0 ||
        !is_digit(line[CODE_AT - 2]) || line[CODE_AT - 1] != ' ' ||
        (line[LINE_SIZE - 1] != ' ' && line[LINE_SIZE - 1] != '\r')) {
        return 0;
    }
    unsigned code = 0;
    for (size_t i = CODE_AT; i < LINE_SIZE - 1; i++) {
        if (!is_digit(line[i])) {
            return 0;
        }
        code = code * 10 + (unsigned)(line[i] - '0');
    }
    return code;
}

/* The code is all that counts. The rest is taken as it comes, so that the daemon can close in peace. */
static enum ad_status read_reply(struct talk *talk, unsigned *code)
{
    char line[LINE_SIZE];
    char rest[4096];
    size_t n = 1, n_line = 0;
    while (n > 0 && n_line < sizeof line) {
        enum ad_status status = receive(talk, line + n_line, sizeof line - n_line, &n);
        if (status) {
            return status;
        }
        n_line += n;
    }
    if (n_line == 0) {
        return hung_up(talk);
    }
    *code = parse_code(line, n_line);
    if (*code == 0) {
        return ad_fail(talk->error, AD_INVALID, "what answers does not speak HTTP");
    }
    talk->error = NULL; /* the answer is there, whatever becomes of the rest */
    for (size_t left = MAX_REPLY; left > 0; left -= n) {
        if (receive(talk, rest, left < sizeof rest ? left : sizeof rest, &n) || n == 0) {
            break;
        }
    }
    return AD_OK;
}

enum ad_status ad_probe_get(const struct ad_probe *probe, const char *path,
                            int64_t deadline_ns, unsigned *code, struct ad_error *error)
{
    struct talk talk = {.fd = -1, .deadline_ns = deadline_ns, .error = error};
    char request[512];
    *code = 0;
    int n = snprintf(request, sizeof request,
                     "GET %s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: attentiond\r\n"
                     "Connection: close\r\n\r\n",
                     path);
    enum ad_status status = connect_to(&talk, probe);
    if (!status && probe->tls) {
        status = begin_tls(&talk);
    }
    if (!status) {
        status = send_all(&talk, request, (size_t)n);
    }
    if (!status) {
        status = read_reply(&talk, code);
    }
    end(&talk);
    return status;
}
