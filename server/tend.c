/* tend.c - what the main thread does while the daemon serves: it waits for signals, reloads, looks
 * whether the daemon answers, and sends clients elsewhere before a stop. */
#include "base/clock.h"
#include "daemon.h"
#include "signals.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define NS_PER_S INT64_C(1000000000)
#define SPARE_NS (10 * NS_PER_S) /* of a stop, beside the times that the options set */
#define STATUS_SIZE 256

/* ---- reload --------------------------------------------------------------------------------- */

/* On the loader's thread, or on main at a stop. */
static void on_reloaded(struct ad_command *command)
{
    struct daemon *daemon = command->context;
    ad_command_free(command);
    ad_service_manager_reloaded(&daemon->manager);
}

static enum ad_status submit_rescan(struct daemon *daemon, struct ad_error *error)
{
    struct ad_command *command = ad_command_create(AD_COMMAND_RESCAN);
    if (!command) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    command->everything = true;
    command->on_done = on_reloaded;
    command->context = daemon;
    enum ad_status status = ad_loader_submit(daemon->loader, &command, error);
    ad_command_free(command); /* NULL unless it was refused */
    return status;
}

/* SIGHUP: every model that is loaded is loaded again, files that are written to are opened anew, and
 * certificates are read again. */
static void reload(struct daemon *daemon)
{
    struct ad_error error = {.status = AD_OK};
    ad_service_manager_reloading(&daemon->manager);
    if (ad_log_reopen(daemon->log_control, &error) != AD_OK) {
        ad_daemon_log_failure(daemon, "cannot reopen the log", &error);
    }
    ad_error_clear(&error);
    ad_log_write(&daemon->log, AD_LOG_INFO, "reloading", NULL, 0);
    if (daemon->tracer && ad_tracer_reopen(daemon->tracer, &error) != AD_OK) {
        ad_daemon_log_failure(daemon, "cannot reopen the trace file", &error);
    }
    ad_error_clear(&error);
    ad_server_reload(daemon->server);
    if (submit_rescan(daemon, &error) != AD_OK) {
        ad_daemon_log_failure(daemon, "cannot reload", &error);
        ad_service_manager_reloaded(&daemon->manager);
    }
}

/* ---- is it alive? --------------------------------------------------------------------------- */

/* The manager hears of us only as long as the daemon really answers: a thread that did nothing but
 * send would do so for one that hangs. */
static void look(struct daemon *daemon)
{
    struct ad_error error = {.status = AD_OK};
    int64_t deadline_ns = ad_clock_now_ns() + ad_watchdog_patience_ns(&daemon->watchdog);
    enum ad_status status = ad_server_probe(daemon->server, deadline_ns, &error);
    bool answered = status == AD_OK || status == AD_CANCELED;
    if (answered) {
        ad_service_manager_alive(&daemon->manager);
    } else {
        ad_daemon_log_failure(daemon, "the daemon does not answer itself", &error);
    }
    ad_watchdog_note(&daemon->watchdog, answered, ad_clock_now_ns());
}

/* ---- signals -------------------------------------------------------------------------------- */

/* The next signal to stop; 0: none came until then. */
static int wait_for_stop(struct daemon *daemon, int64_t until_ns)
{
    for (;;) {
        int64_t look_ns = daemon->watchdog.next_ns;
        int signal_number = ad_signals_wait(look_ns < until_ns ? look_ns : until_ns);
        if (signal_number == SIGHUP) {
            reload(daemon);
        } else if (signal_number != 0) {
            return signal_number;
        }
        if (ad_clock_now_ns() >= until_ns) {
            return 0;
        }
        if (ad_watchdog_is_due(&daemon->watchdog, ad_clock_now_ns())) {
            look(daemon);
        }
    }
}

int ad_daemon_tend(struct daemon *daemon)
{
    char status[STATUS_SIZE];
    unsigned port = ad_server_port(daemon->server);
    int n = snprintf(status, sizeof status, "serving at %s",
                     ad_server_address(daemon->server));
    if (port != 0 && n > 0 && (size_t)n < sizeof status) {
        snprintf(status + n, sizeof status - (size_t)n, " port %u", port);
    }
    ad_service_manager_ready(&daemon->manager, status);
    ad_watchdog_start(&daemon->watchdog, daemon->manager.watchdog_ns, ad_clock_now_ns());
    return wait_for_stop(daemon, INT64_MAX);
}

/* ---- before a stop -------------------------------------------------------------------------- */

static void serve_on(struct daemon *daemon, int signal_number)
{
    const struct ad_options *options = &daemon->options;
    int64_t seconds = (int64_t)options->drain_seconds;
    int64_t begun_ns = ad_clock_now_ns();
    char status[STATUS_SIZE];
    const struct ad_log_field fields[] = {ad_log_text("signal", strsignal(signal_number)),
                                          ad_log_number("seconds", seconds)};
    ad_server_drain(daemon->server);
    ad_log_write(&daemon->log, AD_LOG_INFO, "draining", fields,
                 sizeof fields / sizeof fields[0]);
    snprintf(status, sizeof status, "sending clients elsewhere for %lld s",
             (long long)seconds);
    ad_service_manager_stopping(&daemon->manager, status,
                                (seconds + (int64_t)options->exit_timeout) * NS_PER_S +
                                    SPARE_NS);
    int next = wait_for_stop(daemon, begun_ns + seconds * NS_PER_S);
    if (next != 0) {
        const struct ad_log_field cut[] = {
            ad_log_text("signal", strsignal(next)),
            ad_log_number("after_ms", (ad_clock_now_ns() - begun_ns) / 1000000)};
        ad_log_write(&daemon->log, AD_LOG_INFO, "draining was cut short", cut,
                     sizeof cut / sizeof cut[0]);
    }
}

void ad_daemon_drain(struct daemon *daemon, int signal_number)
{
    if (daemon->options.drain_seconds > 0) {
        serve_on(daemon, signal_number);
    }
    ad_signals_let_kill();
    ad_service_manager_stopping(&daemon->manager, "finishing what runs",
                                (int64_t)daemon->options.exit_timeout * NS_PER_S +
                                    SPARE_NS);
}
