/* settings.h - how a model is to be served: what its config.json says beside the layer.
 *
 *     "dynamic_batching": {"max_batch_rows": 32, "max_batch_requests": 64,
 *                          "max_queue_delay_microseconds": 0},
 *     "queue_policy": {"max_queue_size": 0, "priority_levels": 0, "default_priority_level": 0,
 *                      "default_timeout_microseconds": 0}
 */
#ifndef AD_MODEL_SETTINGS_H
#define AD_MODEL_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

#define AD_MAX_PRIORITY_LEVELS 16
#define AD_MAX_BATCH_REQUESTS 256

/* Immutable once its version is loaded. The defaults are those above. */
struct ad_model_settings {
    size_t
        max_batch_rows; /* joined in one pass, 1 to 2^20; a larger request runs alone */
    size_t
        max_batch_requests; /* 1 to AD_MAX_BATCH_REQUESTS; 1: no request is ever joined with another */
    uint64_t
        max_queue_delay_us; /* how long a batch that is not full waits; 0: not at all */
    size_t max_queue_size;  /* requests waiting; 0: as many as --queue-size says */
    unsigned n_priorities;  /* 1 (highest) to n; 0 in the file: one level, no choice */
    unsigned default_priority;   /* 1 to n_priorities; in the file 0 means the lowest */
    uint64_t default_timeout_us; /* waiting longer is refused; 0: no limit */
};

#endif
