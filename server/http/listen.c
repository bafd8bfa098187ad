/* listen.c - the socket that the server listens on. Called by main at start. */
#include "http/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int open_socket(const struct addrinfo *info)
{
    const int on = 1;
    const int off = 0;
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    /* A port whose old connections still linger is free; the wildcard takes both
     * families. */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (info->ai_family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    if (bind(fd, info->ai_addr, info->ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0) {
        int code = errno;
        close(fd);
        errno = code;
        return -1;
    }
    return fd;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
        return 0;
    }
    if (address.ss_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, &address, sizeof in6);
        return ntohs(in6.sin6_port);
    }
    struct sockaddr_in in;
    memcpy(&in, &address, sizeof in);
    return ntohs(in.sin_port);
}

enum ad_status ad_listen_open(const char *address, uint16_t wanted_port, int *fd,
                              uint16_t *port, struct ad_error *error)
{
    const char *literal = strcmp(address, "localhost") == 0 ? "127.0.0.1" : address;
    struct addrinfo *info = NULL;
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
    char service[8];
    snprintf(service, sizeof service, "%u", wanted_port);
    if (address[0] == '\0' || getaddrinfo(literal, service, &hints, &info) != 0) {
        return ad_fail(error, AD_INVALID,
                       "--http-address: expected an IPv4 or IPv6 address, got '%s'",
                       address);
    }
    *fd = open_socket(info);
    int code = errno;
    freeaddrinfo(info);
    if (*fd < 0) {
        return ad_fail(error, AD_UNAVAILABLE, "cannot listen on %s port %u: %s", address,
                       wanted_port, strerror(code));
    }
    *port = port_of(*fd);
    return AD_OK;
}
