/* listeners.c - everything that the options want listened on.
 *
 * Owner: the server. Called by main at start and stop. */
#include "http/listeners.h"
#include "base/words.h"
#include "http/listen.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PORT_TRIES 16 /* to find a port that is free at several addresses */

/* ---- addresses ------------------------------------------------------------------------------ */

/* The addresses of an option. Owner: whoever fills it. */
struct endpoints {
    struct ad_words words;
    struct ad_endpoint *items; /* one a word */
};

static void reset_endpoints(struct endpoints *endpoints)
{
    ad_words_reset(&endpoints->words);
    free(endpoints->items);
    *endpoints = (struct endpoints){.items = NULL};
}

/* IPv4 that is listed has sockets of its own, which :: would be in the way of. */
static void keep_families_apart(struct endpoints *endpoints)
{
    bool has_v4 = false;
    for (size_t i = 0; i < endpoints->words.n; i++) {
        has_v4 = has_v4 || ad_endpoint_is_v4(&endpoints->items[i]);
    }
    for (size_t i = 0; i < endpoints->words.n; i++) {
        endpoints->items[i].v6_only = has_v4;
    }
}

/* On failure *endpoints is empty. */
static enum ad_status parse_endpoints(const char *option, const char *text,
                                      struct endpoints *endpoints, struct ad_error *error)
{
    enum ad_status status = AD_OK;
    *endpoints = (struct endpoints){.items = NULL};
    if (!ad_words_split(text, &endpoints->words)) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    if (endpoints->words.n == 0) {
        status = ad_fail(error, AD_INVALID,
                         "%s: expected an IPv4 or IPv6 address, got '%s'", option, text);
        goto out;
    }
    endpoints->items = calloc(endpoints->words.n, sizeof *endpoints->items);
    if (!endpoints->items) {
        status = ad_fail(error, AD_INTERNAL, "out of memory");
        goto out;
    }
    for (size_t i = 0; !status && i < endpoints->words.n; i++) {
        status = ad_endpoint_parse(option, endpoints->words.items[i],
                                   &endpoints->items[i], error);
    }
    if (!status) {
        keep_families_apart(endpoints);
    }
out:
    if (status) {
        reset_endpoints(endpoints);
    }
    return status;
}

enum ad_status ad_listeners_check(const struct ad_options *options,
                                  struct ad_error *error)
{
    struct endpoints endpoints;
    struct ad_endpoint admin;
    enum ad_status status =
        parse_endpoints("--http-address", options->http_address, &endpoints, error);
    if (status) {
        return status;
    }
    reset_endpoints(&endpoints);
    if (options->http_admin_address) {
        status = ad_endpoint_parse("--http-admin-address", options->http_admin_address,
                                   &admin, error);
    }
    if (!status && options->http_unix_socket) {
        status = ad_listen_check_unix(options->http_unix_socket,
                                      options->http_unix_socket_mode, error);
    }
    return status;
}

/* ---- sockets -------------------------------------------------------------------------------- */

/* Add one whose socket is open; it is closed when there is no memory. */
static enum ad_status add(struct ad_listeners *listeners, struct ad_listener added,
                          const char *name, struct ad_error *error)
{
    struct ad_listener *grown =
        realloc(listeners->items, (listeners->n + 1) * sizeof *grown);
    if (grown) {
        listeners->items = grown;
        added.name = strdup(name);
    }
    added.size = sizeof added.address;
    if (getsockname(added.fd, (struct sockaddr *)&added.address, &added.size) != 0) {
        added.size = 0;
    }
    if (!added.name) {
        close(added.fd);
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    listeners->items[listeners->n++] = added;
    return AD_OK;
}

static enum ad_status add_tcp(struct ad_listeners *listeners,
                              const struct ad_endpoint *endpoint, const char *text,
                              uint16_t port, bool admin, struct ad_error *error)
{
    struct ad_listener added = {.admin = admin, .fd = -1};
    enum ad_status status =
        ad_listen_tcp(endpoint, text, port, &added.fd, &added.port, error);
    return status ? status : add(listeners, added, text, error);
}

/* All addresses at one port: the given one, or what the first one gets. */
static enum ad_status try_port(struct ad_listeners *listeners,
                               const struct endpoints *endpoints, uint16_t port,
                               struct ad_error *error)
{
    enum ad_status status = AD_OK;
    for (size_t i = 0; !status && i < endpoints->words.n; i++) {
        status = add_tcp(listeners, &endpoints->items[i], endpoints->words.items[i],
                         i == 0 ? port : listeners->items[0].port, false, error);
    }
    return status;
}

static enum ad_status open_public(const struct ad_options *options,
                                  struct ad_listeners *listeners, struct ad_error *error)
{
    struct endpoints endpoints;
    struct ad_error last = {.status = AD_OK};
    enum ad_status status =
        parse_endpoints("--http-address", options->http_address, &endpoints, error);
    if (status) {
        return status;
    }
    int n_tries = options->http_port == 0 && endpoints.words.n > 1 ? PORT_TRIES : 1;
    do {
        ad_error_clear(&last);
        ad_listeners_close(listeners);
        status = try_port(listeners, &endpoints, (uint16_t)options->http_port, &last);
    } while (status == AD_UNAVAILABLE && --n_tries > 0);
    reset_endpoints(&endpoints);
    return status ? ad_fail(error, status, "%s", last.message) : AD_OK;
}

static enum ad_status open_admin(const struct ad_options *options,
                                 struct ad_listeners *listeners, struct ad_error *error)
{
    struct ad_endpoint endpoint;
    enum ad_status status = ad_endpoint_parse(
        "--http-admin-address", options->http_admin_address, &endpoint, error);
    return status ? status
                  : add_tcp(listeners, &endpoint, options->http_admin_address,
                            (uint16_t)options->http_admin_port, true, error);
}

static enum ad_status open_unix(const struct ad_options *options,
                                struct ad_listeners *listeners, struct ad_error *error)
{
    const char *path = options->http_unix_socket;
    struct ad_listener added = {.is_unix = true, .fd = -1};
    struct stat info = {0};
    enum ad_status status =
        ad_listen_unix(path, options->http_unix_socket_mode, &added.fd, error);
    if (status) {
        return status;
    }
    (void)lstat(path, &info);
    listeners->device = info.st_dev;
    listeners->inode = info.st_ino;
    status = add(listeners, added, path, error);
    if (status) {
        (void)unlink(path);
    }
    return status;
}

/* ---- sockets that were passed --------------------------------------------------------------- */

static bool is_admin(const struct ad_passed_socket *socket)
{
    return strcmp(socket->name, AD_LISTENERS_ADMIN) == 0;
}

static bool has_passed(const struct ad_passed *passed, bool admin)
{
    for (size_t i = 0; passed && i < passed->n; i++) {
        if (is_admin(&passed->items[i]) == admin) {
            return true;
        }
    }
    return false;
}

static enum ad_status adopt(struct ad_listeners *listeners,
                            struct ad_passed_socket *socket, struct ad_error *error)
{
    char name[AD_LISTEN_NAME_SIZE];
    struct ad_listener added = {.admin = is_admin(socket),
                                .is_unix = socket->is_unix,
                                .passed = true,
                                .fd = socket->fd};
    enum ad_status status = ad_listen_name(socket->fd, name, &added.port, error);
    if (status) {
        return status;
    }
    if (!added.is_unix) {
        ad_listen_tune(added.fd);
    }
    socket->fd = -1;
    return add(listeners, added, name, error);
}

/* All of one side. */
static enum ad_status adopt_all(struct ad_listeners *listeners, struct ad_passed *passed,
                                bool admin, struct ad_error *error)
{
    enum ad_status status = AD_OK;
    for (size_t i = 0; !status && i < passed->n; i++) {
        if (is_admin(&passed->items[i]) == admin) {
            status = adopt(listeners, &passed->items[i], error);
        }
    }
    return status;
}

/* ---- open and close ------------------------------------------------------------------------- */

static enum ad_status open_public_side(const struct ad_options *options,
                                       struct ad_passed *passed,
                                       struct ad_listeners *listeners,
                                       struct ad_error *error)
{
    if (has_passed(passed, false)) {
        return adopt_all(listeners, passed, false, error);
    }
    return open_public(options, listeners, error);
}

static enum ad_status open_admin_side(const struct ad_options *options,
                                      struct ad_passed *passed,
                                      struct ad_listeners *listeners,
                                      struct ad_error *error)
{
    if (has_passed(passed, true)) {
        return adopt_all(listeners, passed, true, error);
    }
    return options->http_admin_address ? open_admin(options, listeners, error) : AD_OK;
}

enum ad_status ad_listeners_open(const struct ad_options *options,
                                 struct ad_passed *passed, struct ad_listeners *listeners,
                                 struct ad_error *error)
{
    *listeners = (struct ad_listeners){.items = NULL};
    enum ad_status status = open_public_side(options, passed, listeners, error);
    if (!status) {
        status = open_admin_side(options, passed, listeners, error);
    }
    if (!status && options->http_unix_socket && !has_passed(passed, false)) {
        status = open_unix(options, listeners, error);
    }
    if (status) {
        ad_listeners_close(listeners);
    }
    return status;
}

bool ad_listeners_have_admin(const struct ad_listeners *listeners)
{
    for (size_t i = 0; i < listeners->n; i++) {
        if (listeners->items[i].admin) {
            return true;
        }
    }
    return false;
}

/* Whatever else came to be at the path is not ours. */
static void remove_file(const struct ad_listeners *listeners, const char *path)
{
    struct stat info;
    if (lstat(path, &info) == 0 && info.st_dev == listeners->device &&
        info.st_ino == listeners->inode) {
        (void)unlink(path);
    }
}

void ad_listeners_close(struct ad_listeners *listeners)
{
    for (size_t i = 0; i < listeners->n; i++) {
        struct ad_listener *listener = &listeners->items[i];
        if (listener->fd >= 0) {
            close(listener->fd);
        }
        if (listener->is_unix && !listener->passed) {
            remove_file(listeners, listener->name);
        }
        free(listener->name);
    }
    free(listeners->items);
    *listeners = (struct ad_listeners){.items = NULL};
}
