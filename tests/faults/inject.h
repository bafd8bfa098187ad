/* inject.h - the file that the injecting library and whoever steers it both map.
 *
 * tests/faults/control.py has the same layout; the assertions below guard it. */
#ifndef TESTS_FAULTS_INJECT_H
#define TESTS_FAULTS_INJECT_H

#include <stdint.h>

enum kind {
    KIND_ALLOC,   /* malloc and its kin, anonymous mmap */
    KIND_OPEN,    /* open, openat, opendir, fopen of a path under `path` */
    KIND_STAT,    /* stat, fstat, fstatat of such a file */
    KIND_READ,    /* read, pread of such a file */
    KIND_WRITE,   /* write to a file: log and trace */
    KIND_RECEIVE, /* recv, and read of a socket */
    KIND_SEND,    /* send, sendmsg, sendto, writev, sendfile */
    KIND_ACCEPT,
    KIND_WAIT, /* epoll_wait, poll, nanosleep */
    KIND_THREAD,
    KIND_RANDOM,
    KIND_CONNECT,
    N_KINDS
};

/* Calls are counted while the kind is armed; those in [from, past) fail with `error`, or each in 65536
 * with the chance of `rate`. What is `shorten`ed moves fewer bytes instead, each other time. */
struct kind_control {
    uint32_t armed, error;
    uint32_t rate, shorten;
    uint64_t n_calls, from, past, n_hits;
};

struct control {
    char path[256];           /* files whose path has this in it */
    char where[256];          /* the function whose call failed last */
    int64_t real_ns, mono_ns; /* added to what the clocks say */
    uint64_t seed;
    struct kind_control kinds[N_KINDS];
};

_Static_assert(sizeof(struct kind_control) == 48, "as control.py has it");
_Static_assert(sizeof(struct control) == 536 + 48 * N_KINDS, "as control.py has it");

#endif
