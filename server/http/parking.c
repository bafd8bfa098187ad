/* parking.c - a call whose answer is made elsewhere, and how its connection waits for it.
 *
 * Shared by the connection's I/O thread and the one thread that has the work in hand; each changes the
 * state in one atomic step, and what was written before is seen after. */
#include "http/parking.h"
#include "base/clock.h"

#include <sched.h>

/* How long a connection stays awake: about what it costs to send it to sleep and to wake it. */
#define AWAKE_NS 100000

/* The most that sleep after one that stayed awake for nothing: trying costs them together less than a
 * tenth of what sleeping does. */
#define MOST_ASLEEP 127u

enum state {
    AT_HOME,   /* with the I/O thread: not handed over, or done */
    AWAKE,     /* handed over; the library goes on asking */
    ASLEEP,    /* handed over; the connection is suspended */
    ABANDONED, /* handed over; the connection has ended */
};

/* Counts are only hints, so what two threads do at once may count as one. */
static bool is_lucky(struct ad_parking_luck *luck)
{
    unsigned n_asleep = atomic_load_explicit(&luck->n_asleep, memory_order_relaxed);
    if (n_asleep > 0) {
        atomic_store_explicit(&luck->n_asleep, n_asleep - 1, memory_order_relaxed);
    }
    return n_asleep == 0;
}

static void note_success(struct ad_parking_luck *luck)
{
    unsigned penalty = atomic_load_explicit(&luck->penalty, memory_order_relaxed);
    if (penalty > 0) {
        atomic_store_explicit(&luck->penalty, penalty / 2, memory_order_relaxed);
    }
}

static void note_failure(struct ad_parking_luck *luck)
{
    unsigned penalty = atomic_load_explicit(&luck->penalty, memory_order_relaxed);
    penalty = penalty < MOST_ASLEEP ? 2 * penalty + 1 : MOST_ASLEEP;
    atomic_store_explicit(&luck->penalty, penalty, memory_order_relaxed);
    atomic_store_explicit(&luck->n_asleep, penalty, memory_order_relaxed);
}

void ad_parking_begin(struct ad_parking *parking, struct ad_parking_luck *luck,
                      struct MHD_Connection *connection, bool is_near)
{
    parking->luck = luck;
    if (is_near && is_lucky(luck)) {
        parking->awake_until_ns = ad_clock_now_ns() + AWAKE_NS;
        atomic_store(&parking->state, AWAKE);
        return;
    }
    atomic_store(&parking->state, ASLEEP);
    MHD_suspend_connection(connection);
}

void ad_parking_undo(struct ad_parking *parking, struct MHD_Connection *connection)
{
    if (atomic_exchange(&parking->state, AT_HOME) == ASLEEP) {
        MHD_resume_connection(connection);
    }
}

bool ad_parking_waits(struct ad_parking *parking, struct MHD_Connection *connection)
{
    int state = atomic_load_explicit(&parking->state, memory_order_acquire);
    if (state != AWAKE) {
        if (parking->awake_until_ns != 0) {
            note_success(parking->luck);
        }
        return false;
    }
    if (ad_clock_now_ns() < parking->awake_until_ns) {
        (void)sched_yield(); /* the worker may need this processor */
        return true;
    }
    parking->awake_until_ns = 0;
    note_failure(parking->luck);
    /* Suspended first: from the moment it is said to be asleep, it may be resumed. */
    MHD_suspend_connection(connection);
    if (!atomic_compare_exchange_strong(&parking->state, &state, ASLEEP)) {
        MHD_resume_connection(connection);
    }
    return true;
}

bool ad_parking_end(struct ad_parking *parking, struct MHD_Connection *connection)
{
    int before = atomic_exchange(&parking->state, AT_HOME);
    if (before == ASLEEP) {
        MHD_resume_connection(connection);
    }
    return before != ABANDONED;
}

bool ad_parking_abandon(struct ad_parking *parking)
{
    int state = AWAKE;
    return atomic_compare_exchange_strong(&parking->state, &state, ABANDONED);
}
