/* service.h - what all requests share.
 *
 * Owner: the server. Everything that the pointers refer to outlives it. */
#ifndef AD_HTTP_SERVICE_H
#define AD_HTTP_SERVICE_H

#include "base/log.h"
#include "base/options.h"
#include "model/repository.h"
#include "sched/queue.h"

#include <stdatomic.h>
#include <stdint.h>

struct ad_service {
    const struct ad_options *options; /* immutable, as are the next three pointers */
    const struct ad_log *log;
    const struct ad_repository *repository;
    struct ad_queue *queue;
    atomic_bool stopping;           /* set once, by quiesce */
    atomic_uint_fast64_t n_numbers; /* infer requests numbered so far, for the log */
    atomic_size_t n_parked; /* infer requests pushed whose reply has not all been sent */
};

#endif
