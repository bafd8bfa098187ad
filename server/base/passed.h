/* passed.h - listening sockets that a service manager has opened for us.
 *
 * They are descriptors from 3 on; LISTEN_FDS says how many, LISTEN_PID for whom, LISTEN_FDNAMES what they
 * are called: the interface of sd_listen_fds(3). While the daemon is restarted, clients wait in them. */
#ifndef AD_BASE_PASSED_H
#define AD_BASE_PASSED_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

#define AD_PASSED_MAX 256

struct ad_passed_socket {
    int fd;       /* owned until whoever serves it takes it and sets -1 */
    char *name;   /* owned; "" where it was given none */
    bool is_unix; /* a unix socket, else TCP */
};

/* Owner: main. {0} is an empty one. */
struct ad_passed {
    struct ad_passed_socket *items;
    size_t n;
};

/* Read the variables, and take them out of the environment: before any thread is started. Empty when
 * nothing was passed, or not to this process. AD_INVALID: something else than sockets that listen for
 * streams was; the message says what. On failure *passed is empty, and the descriptors stay open. */
enum ad_status ad_passed_take(struct ad_passed *passed,
                              struct ad_error *error) AD_MUST_CHECK;

/* Close what was not taken; empty afterwards. */
void ad_passed_reset(struct ad_passed *passed);

#endif
