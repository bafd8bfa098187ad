/* request.h - one inference request on its way: bytes in, bytes out.
 *
 * Ownership moves with the request: http fills and pushes it; a worker decodes it and gives it back
 * to the queue, where it may wait for others to be joined with; a worker runs and encodes it; on_done
 * hands it back to http. Whoever holds it may touch every field; nobody else may. */
#ifndef AD_SCHED_REQUEST_H
#define AD_SCHED_REQUEST_H

#include "attention.h"
#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/times.h"
#include "model/repository.h"
#include "sched/budget.h"
#include "sched/regions.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What becomes of NaN and infinities in a JSON output. */
enum ad_nonfinite { AD_NONFINITE_ERROR, AD_NONFINITE_NULL, AD_NONFINITE_LITERAL };

struct ad_wanted_output {
    const char *name;
    bool binary;
    struct ad_region *region; /* a reference: it goes there; NULL: into the reply */
    uint64_t offset, n_bytes; /* the room for it in the region */
};

/* How a body is written. */
enum ad_form {
    AD_FORM_INFER,  /* JSON, then binary tensors */
    AD_FORM_RAW,    /* the bytes of the only input */
    AD_FORM_PREDICT /* KServe v1: {"instances": ...} */
};

/* How bytes are packed for the way. */
enum ad_coding { AD_CODING_IDENTITY, AD_CODING_GZIP, AD_CODING_DEFLATE, AD_CODING_ZSTD };

#define AD_ALL_JSON SIZE_MAX /* all of a body, whatever its size */

/* What a request does with a sequence as a whole. Such a request computes nothing, and is done once it has been
 * decoded. */
enum ad_move {
    AD_MOVE_NONE,   /* it is one for inference or gradients */
    AD_MOVE_EXPORT, /* the reply is what the sequence keeps */
    AD_MOVE_IMPORT, /* the sequence keeps what the body holds */
    AD_MOVE_FORGET  /* the sequence goes */
};

struct ad_budget;   /* budget.h */
struct ad_sequence; /* sequences.h */

/* Which sequence a request belongs to. Ids are texts; an integer is its decimal digits. */
struct ad_sequence_call {
    const char *id;   /* NULL: none */
    const char *fork; /* NULL: none; the sequence that this one starts from */
    bool start, end;
};

struct ad_request {
    /* Filled by http before the push. */
    struct ad_version *version; /* a counted reference, released by ad_request_free */
    struct attn_mode mode;      /* of it `gradient`; the decoder fills the rest */
    enum ad_form form;
    enum ad_move move;           /* of the sequence that sequence_call.id names */
    enum ad_coding coding;       /* of the body, until it is decoded */
    enum ad_coding reply_coding; /* that the client would like best */
    unsigned reply_level;        /* of its compression, 1 to 9; 0: none */
    struct ad_buffer body;       /* body.data[body.size] == '\0' */
    size_t n_json; /* leading bytes of the uncoded body that are JSON; the rest is binary
                      tensors. Of a coded body as announced, or AD_ALL_JSON */
    struct ad_budget *budget;  /* that counts the body; NULL: none does */
    uint64_t max_input_bytes;  /* limit on the uncoded body */
    uint64_t max_output_bytes; /* limit on the bytes of all outputs */
    const struct ad_log *log;
    struct ad_regions *regions;  /* NULL: shared memory is not offered */
    const char *sequence_header; /* X-Sequence-Id; NULL: none; lives until on_done */
    int fd;              /* the client's socket, to see whether it left; -1: none */
    uint64_t timeout_us; /* longest wait; 0: as the model's settings say */
    uint64_t priority;   /* as asked for; 0: as the model's settings say */
    struct ad_times times;
    /* Once after a push, on a worker, the watch or main. */
    void (*on_done)(struct ad_request *request);
    void *context; /* for on_done */

    /* The worker's that has it in hand: whom long work is shared with; NULL: nobody. */
    const struct attn_parallel *helpers;

    /* Filled by the decoder; memory is the arena's or the body's. */
    struct ad_arena arena;
    const char *id;  /* NULL: none was given (an empty one counts as none) */
    bool seed_given; /* else the reply says which one training used */
    const struct attn_port *input_ports, *output_ports; /* in this mode */
    size_t n_input_ports, n_output_ports;
    size_t n_shared; /* bytes of inputs that were copied out of shared memory */
    struct attn_named_tensor *inputs; /* floats are F32, masks BOOL, indices I32 or I64 */
    size_t n_inputs;
    struct ad_wanted_output *wanted; /* n_wanted 0: all that are not optional */
    size_t n_wanted;
    bool binary_default; /* how outputs that say nothing go out */
    enum ad_nonfinite nonfinite;
    struct ad_sequence_call sequence_call; /* of a move: filled by http */

    /* What is to be computed, known once it is decoded. */
    attn_plan *plan; /* freed with the request, or before its sequence goes back */
    struct ad_sequence *sequence; /* taken for it; NULL: none */
    bool advanced;                /* what the sequence keeps has grown by this step */
    bool joins;                   /* may run in one pass with others */
    size_t n_rows;                /* that pass the projections */
    size_t n_items;               /* samples */
    size_t n_batch;               /* requests of its pass, itself included */
    double cost;                  /* multiply-adds, roughly */

    /* The answer, when error.status is AD_OK: JSON, then binary tensors. */
    struct ad_buffer reply;
    size_t n_reply_json; /* its leading bytes that are JSON; all: nothing is binary */
    enum ad_coding reply_coded; /* how `reply` is packed; n_reply_json and what follows
                                   count what it was */
    size_t n_reply;             /* bytes of a reply that is packed */
    struct ad_error error;

    /* The queue's. */
    struct ad_request *next, *previous;
    unsigned level;      /* 1: goes first */
    int64_t deadline_ns; /* of its waiting; 0: none */
    uint64_t number;     /* of pushes; tells requests apart that had the same memory */

    /* Of ad_request_hold. */
    size_t n_held;
};

/* NULL when out of memory. */
struct ad_request *ad_request_create(void);

/* NULL is fine; releases the version and what is held. A sequence must have gone back. */
void ad_request_free(struct ad_request *request);

/* The body is to take n bytes more: count them in the budget. AD_UNAVAILABLE, with a code: bodies that
 * wait take what they may; AD_TOO_LARGE: none may take so much. After a failure nothing of it is
 * counted any more: the body is to be thrown away. */
enum ad_status ad_request_hold(struct ad_request *request, size_t n,
                               struct ad_error *error) AD_MUST_CHECK;

/* It takes n bytes less. */
void ad_request_release(struct ad_request *request, size_t n);

/* Requests one after the other, linked through next and previous; {NULL, NULL, 0} is empty. */
struct ad_requests {
    struct ad_request *first, *last;
    size_t n;
};

void ad_requests_append(struct ad_requests *list, struct ad_request *request);
void ad_requests_remove(struct ad_requests *list, struct ad_request *request);

/* Behind all of its level and those above. */
void ad_requests_insert(struct ad_requests *list, struct ad_request *request);

/* The first, taken out; NULL: there is none. */
struct ad_request *ad_requests_shift(struct ad_requests *list);

#endif
