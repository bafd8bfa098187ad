/* service_manager.c - what the daemon tells whoever started it.
 *
 * Owner: main. A message is one datagram, so threads do not mix theirs; the lock keeps their order. */
#include "base/service_manager.h"

#include "base/clock.h"
#include "base/digits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define MESSAGE_SIZE 1024
#define NS_PER_US 1000
#define MAX_WATCHDOG_US (INT64_MAX / NS_PER_US)

static void warn(const struct ad_service_manager *manager, const char *what,
                 const char *reason)
{
    const struct ad_log_field field = ad_log_text("error", reason);
    ad_log_write(manager->log, AD_LOG_WARNING, what, &field, 1);
}

/* ---- the environment ------------------------------------------------------------------------ */

/* A path, or a name that is in no folder, written with @ in front. */
static bool parse_address(struct ad_service_manager *manager, const char *text)
{
    size_t n = strlen(text);
    struct sockaddr_un *address = &manager->address;
    if ((text[0] != '/' && text[0] != '@') || n < 2 || n >= sizeof address->sun_path) {
        return false;
    }
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, text, n);
    bool is_abstract = text[0] == '@';
    if (is_abstract) {
        address->sun_path[0] = '\0';
    }
    /* the name of an abstract one ends where the address does */
    manager->size =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (is_abstract ? 0 : 1));
    return true;
}

static void open_socket(struct ad_service_manager *manager, const char *text)
{
    const struct timeval patience = {.tv_sec = 1};
    if (!parse_address(manager, text)) {
        warn(manager, "cannot tell the service manager",
             "NOTIFY_SOCKET: expected a path or a name after @");
        return;
    }
    manager->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (manager->fd < 0) {
        warn(manager, "cannot tell the service manager", strerror(errno));
        return;
    }
    /* a manager that takes nothing must not hold up a signal for long */
    (void)setsockopt(manager->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

/* The variable may be meant for the process that started us. */
static void read_watchdog(struct ad_service_manager *manager)
{
    const char *interval = getenv("WATCHDOG_USEC");
    const char *pid = getenv("WATCHDOG_PID");
    uint64_t for_whom = 0, interval_us = 0;
    if (!interval || (pid && (!ad_digits_read(pid, INT32_MAX, &for_whom) ||
                              for_whom != (uint64_t)getpid()))) {
        return;
    }
    if (!ad_digits_read(interval, MAX_WATCHDOG_US, &interval_us) || interval_us == 0) {
        warn(manager, "cannot use the service manager's watchdog",
             "WATCHDOG_USEC: expected a number of microseconds over 0");
        return;
    }
    manager->watchdog_ns = (int64_t)interval_us * NS_PER_US;
}

void ad_service_manager_init(struct ad_service_manager *manager, const struct ad_log *log)
{
    *manager = (struct ad_service_manager){.log = log, .fd = -1};
    pthread_mutex_init(&manager->lock, NULL);
    const char *address = getenv("NOTIFY_SOCKET");
    if (address) {
        open_socket(manager, address);
    }
    if (manager->fd >= 0) {
        read_watchdog(manager);
    }
    (void)unsetenv("NOTIFY_SOCKET");
    (void)unsetenv("WATCHDOG_USEC");
    (void)unsetenv("WATCHDOG_PID");
}

void ad_service_manager_reset(struct ad_service_manager *manager)
{
    if (manager->fd >= 0) {
        close(manager->fd);
    }
    pthread_mutex_destroy(&manager->lock);
}

/* ---- messages ------------------------------------------------------------------------------- */

/* With the lock held. The first message that is lost is logged, until one arrives again. */
static void tell(struct ad_service_manager *manager, const char *message)
{
    size_t n = strlen(message);
    ssize_t n_sent = sendto(manager->fd, message, n, MSG_NOSIGNAL,
                            (const struct sockaddr *)&manager->address, manager->size);
    bool failed = n_sent != (ssize_t)n;
    if (failed && !manager->failed) {
        warn(manager, "cannot tell the service manager",
             n_sent < 0 ? strerror(errno) : "the message was cut");
    }
    manager->failed = failed;
}

/* A message that depends on nothing that was told before. */
static void say(struct ad_service_manager *manager, const char *message)
{
    if (manager->fd < 0) {
        return;
    }
    pthread_mutex_lock(&manager->lock);
    tell(manager, message);
    pthread_mutex_unlock(&manager->lock);
}

/* A status, as the last line of a message. */
static const char *fill(char message[MESSAGE_SIZE], const char *text, const char *format,
                        ...) __attribute__((format(printf, 3, 4)));

static const char *fill(char message[MESSAGE_SIZE], const char *text, const char *format,
                        ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(message, MESSAGE_SIZE, format, arguments);
    va_end(arguments);
    size_t start = n < 0 ? 0 : (size_t)n;
    snprintf(message + start, MESSAGE_SIZE - start, "STATUS=%s", text);
    for (char *at = message + start; *at; at++) {
        *at = (unsigned char)*at < ' ' ? '?' : *at; /* one would end the line */
    }
    return message;
}

void ad_service_manager_status(struct ad_service_manager *manager, const char *text)
{
    char message[MESSAGE_SIZE];
    say(manager, fill(message, text, "%s", ""));
}

void ad_service_manager_ready(struct ad_service_manager *manager, const char *text)
{
    char message[MESSAGE_SIZE];
    say(manager, fill(message, text, "READY=1\nMAINPID=%ld\n", (long)getpid()));
}

void ad_service_manager_reloading(struct ad_service_manager *manager)
{
    char message[MESSAGE_SIZE];
    if (manager->fd < 0) {
        return;
    }
    pthread_mutex_lock(&manager->lock);
    manager->n_reloads++;
    if (!manager->stopping) {
        snprintf(message, sizeof message, "RELOADING=1\nMONOTONIC_USEC=%" PRId64,
                 ad_clock_now_ns() / NS_PER_US);
        tell(manager, message);
    }
    pthread_mutex_unlock(&manager->lock);
}

void ad_service_manager_reloaded(struct ad_service_manager *manager)
{
    if (manager->fd < 0) {
        return;
    }
    pthread_mutex_lock(&manager->lock);
    manager->n_reloads--;
    if (manager->n_reloads == 0 && !manager->stopping) {
        tell(manager, "READY=1");
    }
    pthread_mutex_unlock(&manager->lock);
}

void ad_service_manager_stopping(struct ad_service_manager *manager, const char *text,
                                 int64_t within_ns)
{
    char message[MESSAGE_SIZE];
    if (manager->fd < 0) {
        return;
    }
    pthread_mutex_lock(&manager->lock);
    manager->stopping = true;
    tell(manager, fill(message, text, "STOPPING=1\nEXTEND_TIMEOUT_USEC=%" PRId64 "\n",
                       within_ns / NS_PER_US));
    pthread_mutex_unlock(&manager->lock);
}

void ad_service_manager_alive(struct ad_service_manager *manager)
{
    say(manager, "WATCHDOG=1");
}
