/* request.h - one inference request on its way: bytes in, bytes out.
 *
 * Ownership moves with the request: http fills and pushes it, a worker decodes, runs
 * and encodes it, on_done hands it back to http. Whoever holds it may touch every
 * field; nobody else may. */
#ifndef AD_SCHED_REQUEST_H
#define AD_SCHED_REQUEST_H

#include "attention.h"
#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "model/repository.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What becomes of NaN and infinities in a JSON output. */
enum ad_nonfinite { AD_NONFINITE_ERROR, AD_NONFINITE_NULL, AD_NONFINITE_LITERAL };

struct ad_wanted_output {
    const char *name;
    bool binary;
};

struct ad_request {
    /* Filled by http before the push. */
    struct ad_version *version; /* a counted reference, released by ad_request_free */
    struct attn_mode mode;      /* of it `gradient`; the decoder fills the rest */
    struct ad_buffer body;      /* body.data[body.size] == '\0' */
    size_t n_json; /* leading bytes of body that are JSON; the rest is binary tensors */
    uint64_t max_output_bytes; /* limit on the bytes of all outputs */
    const struct ad_log *log;
    int64_t received_ns; /* ad_clock_now_ns when the request was complete */
    /* Once after a push: on a worker, or on main for what a stop leaves waiting. */
    void (*on_done)(struct ad_request *request);
    void *context; /* for on_done */

    /* Filled by the decoder; memory is the arena's or the body's. */
    struct ad_arena arena;
    const char *id;  /* NULL: none was given (an empty one counts as none) */
    bool seed_given; /* else the reply says which one training used */
    const struct attn_port *input_ports, *output_ports; /* in this mode */
    size_t n_input_ports, n_output_ports;
    struct attn_named_tensor *inputs; /* floats are F32, masks BOOL, indices I32 or I64 */
    size_t n_inputs;
    struct ad_wanted_output *wanted; /* n_wanted 0: all that are not optional */
    size_t n_wanted;
    bool binary_default; /* how outputs that say nothing go out */
    enum ad_nonfinite nonfinite;

    /* The answer, when error.status is AD_OK: JSON, then binary tensors. */
    struct ad_buffer reply;
    size_t n_reply_json; /* its leading bytes that are JSON; all: nothing is binary */
    struct ad_error error;
    int64_t started_ns, finished_ns; /* by the worker, for the log */

    struct ad_request *next; /* the queue's */
};

/* NULL when out of memory. */
struct ad_request *ad_request_create(void);
void ad_request_free(struct ad_request *request); /* NULL is fine; releases the version */

#endif
