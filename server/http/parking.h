/* parking.h - a call whose answer is made elsewhere, and how its connection waits for it.
 *
 * The library offers two ways. A suspended connection costs a few system calls on the way there and
 * a wake-up of its I/O thread on the way back. One that is left awake is asked about again and again:
 * nothing is cheaper for an answer that is there within microseconds, and nothing dearer for one that
 * is not. So a call whose answer may be near stays awake for a moment first, as long as that helps: whenever it
 * did not, more of those that follow sleep at once.
 *
 * A connection that is awake can end at any time. Then the call outlives it, until whoever has its
 * request in hand is done. */
#ifndef AD_HTTP_PARKING_H
#define AD_HTTP_PARKING_H

#include "base/error.h"

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How that went of late. Any thread; begins as zeros. */
struct ad_parking_luck {
    atomic_uint n_asleep; /* calls that are not to try it */
    atomic_uint penalty;  /* how many after the next failure */
};

struct ad_parking {
    atomic_int state;       /* enum in parking.c; begins as 0 */
    int64_t awake_until_ns; /* owner: the I/O thread, as of the next */
    struct ad_parking_luck *luck;
};

/* The I/O thread, before the work is handed over. is_near: the answer may be there at once, and nothing
 * that the work needs ends with the connection. */
void ad_parking_begin(struct ad_parking *parking, struct ad_parking_luck *luck,
                      struct MHD_Connection *connection, bool is_near);

/* The I/O thread, when the work was refused instead. The library calls again. */
void ad_parking_undo(struct ad_parking *parking, struct MHD_Connection *connection);

/* The I/O thread, when the library calls again: true, there is no answer yet, and it is to do so once
 * more. */
bool ad_parking_waits(struct ad_parking *parking, struct MHD_Connection *connection);

/* Whoever did the work: the call is the I/O thread's again, and may be gone when this returns. False: the
 * connection has ended, and the call is the caller's to free. */
bool ad_parking_end(struct ad_parking *parking,
                    struct MHD_Connection *connection) AD_MUST_CHECK;

/* The I/O thread, when the connection has ended: true, the call is still in use elsewhere, and will be
 * freed there. */
bool ad_parking_abandon(struct ad_parking *parking);

#endif
