/* listen.c - sockets that listeners listen on: IPv4, IPv6, unix. Called by main at start. */
#include "http/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define MODE_OPTION "--http-unix-socket-mode"
#define UNIX_OPTION "--http-unix-socket"
#define MOST_UNSENT \
    (256 << 10) /* bytes of a reply that the system keeps for a slow client */

/* Close fd and keep errno. */
static int give_up(int fd)
{
    int code = errno;
    close(fd);
    errno = code;
    return -1;
}

/* ---- TCP ------------------------------------------------------------------------------------ */

enum ad_status ad_endpoint_parse(const char *option, const char *text,
                                 struct ad_endpoint *endpoint, struct ad_error *error)
{
    const char *literal = strcmp(text, "localhost") == 0 ? "127.0.0.1" : text;
    struct addrinfo *info = NULL;
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | AI_PASSIVE};
    if (text[0] == '\0' || getaddrinfo(literal, NULL, &hints, &info) != 0) {
        return ad_fail(error, AD_INVALID,
                       "%s: expected an IPv4 or IPv6 address, got '%s'", option, text);
    }
    *endpoint = (struct ad_endpoint){.size = info->ai_addrlen};
    memcpy(&endpoint->address, info->ai_addr, info->ai_addrlen);
    freeaddrinfo(info);
    return AD_OK;
}

bool ad_endpoint_is_v4(const struct ad_endpoint *endpoint)
{
    return endpoint->address.ss_family == AF_INET;
}

static size_t port_offset(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? offsetof(struct sockaddr_in6, sin6_port)
                                          : offsetof(struct sockaddr_in, sin_port);
}

void ad_endpoint_set_port(struct ad_endpoint *endpoint, uint16_t port)
{
    in_port_t number = htons(port);
    memcpy((char *)&endpoint->address + port_offset(&endpoint->address), &number,
           sizeof number);
}

static uint16_t port_in(const struct sockaddr_storage *address)
{
    in_port_t number = 0;
    memcpy(&number, (const char *)address + port_offset(address), sizeof number);
    return ntohs(number);
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    return getsockname(fd, (struct sockaddr *)&address, &size) == 0 ? port_in(&address)
                                                                    : 0;
}

/* A path ends at its NUL, or with the address; an abstract name begins with a NUL and may hold more. */
static void name_unix(const struct sockaddr_un *address, socklen_t size,
                      char text[AD_LISTEN_NAME_SIZE])
{
    size_t offset = offsetof(struct sockaddr_un, sun_path);
    size_t n = size > offset ? size - offset : 0;
    bool is_abstract = n > 0 && address->sun_path[0] == '\0';
    n = is_abstract ? n : strnlen(address->sun_path, n);
    for (size_t i = 0; i < n; i++) {
        text[i] = address->sun_path[i] ? address->sun_path[i] : '@';
    }
    text[n] = '\0';
}

enum ad_status ad_listen_name(int fd, char text[AD_LISTEN_NAME_SIZE], uint16_t *port,
                              struct ad_error *error)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    *port = 0;
    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
        return ad_fail(error, AD_INTERNAL, "cannot tell where a socket listens: %s",
                       strerror(errno));
    }
    if (address.ss_family == AF_UNIX) {
        name_unix((const struct sockaddr_un *)&address, size, text);
        return AD_OK;
    }
    int code = getnameinfo((const struct sockaddr *)&address, size, text,
                           AD_LISTEN_NAME_SIZE, NULL, 0, NI_NUMERICHOST);
    *port = port_in(&address);
    return code == 0
               ? AD_OK
               : ad_fail(error, AD_INTERNAL, "cannot tell where a socket listens: %s",
                         gai_strerror(code));
}

/* Connections inherit it. Without it, megabytes that nobody takes count as sent. What is on its way to a
 * client does not count, so that long fast lines stay full. */
void ad_listen_tune(int fd)
{
    const int most_unsent = MOST_UNSENT;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most_unsent,
                     sizeof most_unsent);
}

static int open_socket(const struct sockaddr_storage *address, socklen_t size,
                       int v6_only)
{
    const int on = 1;
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    /* A port whose old connections still linger is free. */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    ad_listen_tune(fd);
    if (address->ss_family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only);
    }
    if (bind(fd, (const struct sockaddr *)address, size) != 0 ||
        listen(fd, SOMAXCONN) != 0) {
        return give_up(fd);
    }
    return fd;
}

enum ad_status ad_listen_tcp(const struct ad_endpoint *endpoint, const char *text,
                             uint16_t port, int *fd, uint16_t *bound,
                             struct ad_error *error)
{
    struct ad_endpoint bound_to = *endpoint;
    ad_endpoint_set_port(&bound_to, port);
    *fd = open_socket(&bound_to.address, bound_to.size, bound_to.v6_only);
    if (*fd < 0) {
        return ad_fail(error, AD_UNAVAILABLE, "cannot listen on %s port %u: %s", text,
                       port, strerror(errno));
    }
    *bound = port_of(*fd);
    return AD_OK;
}

/* ---- unix ----------------------------------------------------------------------------------- */

static bool parse_mode(const char *text, mode_t *bits)
{
    size_t n = strspn(text, "01234567");
    *bits = 0;
    if (n == 0 || n > 4 || text[n] != '\0') {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        *bits = *bits << 3 | (mode_t)(text[i] - '0');
    }
    return *bits <= 0777;
}

static bool fill_address(struct sockaddr_un *address, const char *path)
{
    size_t n = strlen(path);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (n == 0 || n >= sizeof address->sun_path) {
        return false;
    }
    memcpy(address->sun_path, path, n);
    return true;
}

/* Why nobody answers at a socket file: 0 when somebody does, ECONNREFUSED when nobody listens. */
static int try_to_reach(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    int code =
        connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 ? 0 : errno;
    close(fd);
    return code == EAGAIN ? 0 : code; /* its queue is full, so it has one */
}

/* *is_there: a socket is at the path, used or not. */
static enum ad_status check_file(const char *path, bool *is_there, struct ad_error *error)
{
    struct stat info;
    *is_there = lstat(path, &info) == 0;
    if (!*is_there) {
        return errno == ENOENT ? AD_OK
                               : ad_fail(error, AD_UNAVAILABLE, UNIX_OPTION ": %s: %s",
                                         path, strerror(errno));
    }
    return S_ISSOCK(info.st_mode)
               ? AD_OK
               : ad_fail(error, AD_INVALID,
                         UNIX_OPTION ": %s is there and is no socket; it is left alone",
                         path);
}

/* Make room for our file, where only a left-over is in the way. */
static enum ad_status remove_left_over(const char *path,
                                       const struct sockaddr_un *address,
                                       struct ad_error *error)
{
    int code = try_to_reach(address);
    if (code == 0) {
        return ad_fail(error, AD_UNAVAILABLE,
                       UNIX_OPTION ": another process listens on %s", path);
    }
    if (code != ECONNREFUSED) {
        return ad_fail(error, AD_UNAVAILABLE,
                       UNIX_OPTION ": %s: cannot tell whether it is in use: %s", path,
                       strerror(code));
    }
    (void)unlink(path); /* bind tells when it is still there */
    return AD_OK;
}

static enum ad_status check_unix(const char *path, const char *mode, mode_t *bits,
                                 struct sockaddr_un *address, bool *is_there,
                                 struct ad_error *error)
{
    if (!parse_mode(mode, bits)) {
        return ad_fail(error, AD_INVALID,
                       MODE_OPTION ": expected octal digits up to 777, got '%s'", mode);
    }
    if (!fill_address(address, path)) {
        return ad_fail(error, AD_INVALID,
                       UNIX_OPTION
                       ": expected a path of 1 to %zu bytes, got one of %zu: %s",
                       sizeof address->sun_path - 1, strlen(path), path);
    }
    return check_file(path, is_there, error);
}

enum ad_status ad_listen_check_unix(const char *path, const char *mode,
                                    struct ad_error *error)
{
    struct sockaddr_un address;
    bool is_there = false;
    mode_t bits = 0;
    return check_unix(path, mode, &bits, &address, &is_there, error);
}

/* Nobody gets in before listen, so the mode is in force by then. */
static int open_unix(const struct sockaddr_un *address, mode_t bits)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    if (bind(fd, (const struct sockaddr *)address, sizeof *address) != 0) {
        return give_up(fd);
    }
    if (chmod(address->sun_path, bits) != 0 || listen(fd, SOMAXCONN) != 0) {
        int code = errno;
        (void)unlink(address->sun_path);
        errno = code;
        return give_up(fd);
    }
    return fd;
}

enum ad_status ad_listen_unix(const char *path, const char *mode, int *fd,
                              struct ad_error *error)
{
    struct sockaddr_un address;
    bool is_there = false;
    mode_t bits = 0;
    enum ad_status status = check_unix(path, mode, &bits, &address, &is_there, error);
    if (!status && is_there) {
        status = remove_left_over(path, &address, error);
    }
    if (status) {
        return status;
    }
    *fd = open_unix(&address, bits);
    return *fd >= 0 ? AD_OK
                    : ad_fail(error, AD_UNAVAILABLE, UNIX_OPTION ": %s: %s", path,
                              strerror(errno));
}
