/* stop.c - the end, in the order that loses nothing. Runs on the main thread. */
#include "base/clock.h"
#include "daemon.h"

#include <stdlib.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)
#define LAST_GRACE_NS NS_PER_S /* after the exit timeout, for what is about to end */

/* What still waits when the time is up is answered too. Their number. */
static size_t fail_waiting(struct ad_queue *queue)
{
    struct ad_requests waiting = {NULL, NULL, 0};
    struct ad_request *request = NULL;
    ad_queue_take_all(queue, &waiting);
    size_t n = waiting.n;
    while ((request = ad_requests_shift(&waiting)) != NULL) {
        ad_fail_code(&request->error, AD_UNAVAILABLE, "stopping",
                     "the server stopped before the request's turn came");
        ad_sequences_give(request, ad_clock_now_ns());
        request->on_done(request);
    }
    return n;
}

/* Let the workers finish until the deadline. False: some still compute. */
static bool finish(struct daemon *daemon, int64_t deadline_ns)
{
    ad_queue_close(daemon->queue);
    if (!daemon->workers || ad_workers_join(daemon->workers, deadline_ns)) {
        return true;
    }
    const struct ad_log_field failed =
        ad_log_number("refused", (int64_t)fail_waiting(daemon->queue));
    ad_log_write(&daemon->log, AD_LOG_WARNING, "exit timeout passed", &failed, 1);
    return ad_workers_join(daemon->workers, ad_clock_now_ns() + LAST_GRACE_NS);
}

void ad_daemon_stop(struct daemon *daemon)
{
    if (daemon->server) {
        ad_server_quiesce(daemon->server);
    }
    const int64_t deadline_ns =
        ad_clock_now_ns() + (int64_t)daemon->options.exit_timeout * NS_PER_S;
    const bool loaded = ad_loader_stop(daemon->loader, deadline_ns);
    if (daemon->queue && !finish(daemon, deadline_ns)) {
        ad_log_write(&daemon->log, AD_LOG_ERROR, "stopped with requests unfinished", NULL,
                     0);
        _exit(EXIT_FAILURE);
    }
    if (!loaded) {
        if (daemon->server) {
            ad_server_await_replies(daemon->server);
        }
        ad_log_write(&daemon->log, AD_LOG_ERROR, "stopped while a model was being loaded",
                     NULL, 0);
        _exit(EXIT_FAILURE);
    }
    ad_watch_stop(daemon->watch);
    ad_server_free(daemon->server);
    ad_loader_free(daemon->loader); /* until here it was asked, and refused */
    ad_tracer_close(daemon->tracer);
    ad_workers_free(daemon->workers);
    ad_queue_free(daemon->queue);
    ad_sequences_free(daemon->sequences);
    ad_regions_free(daemon->regions);
    ad_repository_free(daemon->repository);
}
