/* service_manager.h - what the daemon tells whoever started it: ready, reloading, stopping, alive.
 *
 * A manager that wants to know names a datagram socket in NOTIFY_SOCKET. The messages are those of
 * sd_notify(3), an interface that is documented and stable: lines of NAME=value. They are written here,
 * since libsystemd would bring more code than all of this daemon has. Without a manager nothing
 * happens. */
#ifndef AD_BASE_SERVICE_MANAGER_H
#define AD_BASE_SERVICE_MANAGER_H

#include "base/log.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Owner: main. Any thread may tell. */
struct ad_service_manager {
    const struct ad_log *log; /* immutable, as are the next four */
    int fd;                   /* -1: there is nobody to tell */
    struct sockaddr_un address;
    socklen_t size;
    int64_t watchdog_ns; /* it wants to hear of us this often; 0: it does not */
    pthread_mutex_t lock;
    size_t n_reloads; /* guarded by lock, as is all that follows: those that run */
    bool stopping;
    bool failed; /* a message was lost, and the log says so */
};

/* Read NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and take them out of the environment: before any
 * thread is started. What cannot be used is logged, and does not keep the daemon from serving. */
void ad_service_manager_init(struct ad_service_manager *manager,
                             const struct ad_log *log);

void ad_service_manager_reset(struct ad_service_manager *manager);

/* text is for people, of one line, and may be cut. */
void ad_service_manager_status(struct ad_service_manager *manager, const char *text);

/* It serves. */
void ad_service_manager_ready(struct ad_service_manager *manager, const char *text);

/* A reload begins, and has ended; several may overlap. Of no interest once it stops. */
void ad_service_manager_reloading(struct ad_service_manager *manager);
void ad_service_manager_reloaded(struct ad_service_manager *manager);

/* It stops, and what comes next takes at most so long: the manager does not lose patience before. */
void ad_service_manager_stopping(struct ad_service_manager *manager, const char *text,
                                 int64_t within_ns);

/* It was seen to answer. */
void ad_service_manager_alive(struct ad_service_manager *manager);

#endif
