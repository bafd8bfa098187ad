/* daemon.h - everything that is started, and how it is tended and stopped. */
#ifndef AD_DAEMON_H
#define AD_DAEMON_H

#include "base/log.h"
#include "base/log_control.h"
#include "base/options.h"
#include "base/passed.h"
#include "base/service_manager.h"
#include "base/trace.h"
#include "base/watchdog.h"
#include "codec/serve.h"
#include "confine.h"
#include "http/server.h"
#include "model/loader.h"
#include "model/repository.h"
#include "sched/queue.h"
#include "sched/regions.h"
#include "sched/sequences.h"
#include "sched/watch.h"
#include "sched/workers.h"

#include <stddef.h>

/* In the order of its start. Owner: main. */
struct daemon {
    struct ad_options options;
    struct ad_log log;
    struct ad_service_manager manager;
    struct ad_passed passed;
    struct ad_log_control *log_control;
    struct ad_confinement confinement;
    struct ad_sequences *sequences;
    struct ad_regions *regions; /* NULL: shared memory is not offered */
    struct ad_repository *repository;
    struct ad_queue *queue;
    struct ad_watch *watch;
    struct ad_serving serving; /* for the workers */
    struct ad_workers *workers;
    size_t n_workers;
    struct ad_loader *loader;
    struct ad_tracer *tracer;
    struct ad_server *server;
    struct ad_watchdog watchdog;
};

void ad_daemon_log_failure(const struct daemon *daemon, const char *what,
                           const struct ad_error *error);

/* Tell the service manager that it serves, and see to it until a signal ends that; its number. */
int ad_daemon_tend(struct daemon *daemon);

/* Send clients elsewhere for as long as the options say, or until the next signal. From here on, one more
 * ends the process. */
void ad_daemon_drain(struct daemon *daemon, int signal_number);

/* Undo the start, as far as it came. Does not return when a worker cannot be waited for: it still uses
 * what would be freed. */
void ad_daemon_stop(struct daemon *daemon);

#endif
