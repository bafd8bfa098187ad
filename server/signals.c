/* signals.c - the signals that main waits for. They are blocked in every thread; the main thread takes
 * them when it is ready to. */
#include "signals.h"

#include "base/clock.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)

/* A library may have started threads before main could block the signals in them. One
 * that gets a signal of ours passes it to the main thread, whose id is the process's. */
static void pass_to_main(int signal_number)
{
    (void)syscall(SYS_tgkill, getpid(), getpid(), signal_number);
}

static void end_cleanly(int signal_number)
{
    (void)signal_number;
    _exit(EXIT_SUCCESS);
}

static void exit_at_once(int signal_number)
{
    (void)signal_number;
    _exit(EXIT_FAILURE);
}

static sigset_t awaited_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    return set;
}

static void set_handler(int signal_number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    (void)sigaction(signal_number, &action, NULL);
}

/* Blocked first, since main must never run the handler: it would pass the signal to itself without
 * end. */
void ad_signals_block(void)
{
    sigset_t set = awaited_signals();
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    set_handler(SIGPIPE, SIG_IGN);
    set_handler(SIGXFSZ,
                SIG_IGN); /* a log that has grown to its limit is no reason to end */
    set_handler(SIGTERM, pass_to_main);
    set_handler(SIGINT, pass_to_main);
    set_handler(SIGHUP, pass_to_main);
}

int ad_signals_wait(int64_t until_ns)
{
    sigset_t set = awaited_signals();
    for (;;) {
        int64_t left_ns = until_ns - ad_clock_now_ns();
        left_ns = left_ns > 0 ? left_ns : 0;
        const struct timespec left = {.tv_sec = left_ns / NS_PER_S,
                                      .tv_nsec = left_ns % NS_PER_S};
        int signal_number = sigtimedwait(&set, NULL, &left);
        if (signal_number > 0) {
            return signal_number;
        }
        if (errno == EAGAIN && ad_clock_now_ns() >= until_ns) {
            return 0;
        }
    }
}

/* SIGTERM and SIGINT go to handler, at once; SIGHUP waits, for ever or until it is wanted. */
static void unblock(void (*handler)(int))
{
    sigset_t set = awaited_signals();
    sigdelset(&set, SIGHUP);
    set_handler(SIGTERM, handler);
    set_handler(SIGINT, handler);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

void ad_signals_let_end(void)
{
    unblock(end_cleanly);
}

void ad_signals_let_kill(void)
{
    unblock(exit_at_once);
}
