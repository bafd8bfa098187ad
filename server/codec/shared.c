/* shared.c - tensors of a request that are in shared memory.
 *
 * Inputs are copied before anything is judged by them, since their owner may still write there. Runs
 * on the worker that holds the request; keeps no state. */
#include "codec/shared.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* "input 'x'" for messages. */
struct whose {
    char text[ATTN_NAME_SIZE + 16];
};

static struct whose name_of(const char *kind, const char *name)
{
    struct whose whose;
    snprintf(whose.text, sizeof whose.text, "%s '%s'", kind, name);
    return whose;
}

static enum ad_status acquire(const struct ad_request *request,
                              const struct ad_shared *place, const struct whose *whose,
                              struct ad_region **region, struct ad_error *error)
{
    *region = ad_regions_acquire(request->regions, place->region);
    return *region ? AD_OK
                   : ad_fail(error, AD_INVALID,
                             "%s: unknown shared memory region '%.128s'; register it "
                             "first",
                             whose->text, place->region);
}

/* ---- inputs ------------------------------------------------------------------------------------ */

/* Count n bytes more as those of a body are. */
static enum ad_status hold(struct ad_request *request, size_t n,
                           const struct whose *whose, struct ad_error *error)
{
    size_t total;
    if (__builtin_add_overflow(request->n_shared, n, &total) ||
        total > request->max_input_bytes) {
        return ad_fail(error, AD_TOO_LARGE,
                       "%s: with its %zu bytes the inputs in shared memory are over the "
                       "limit of %llu bytes (--http-max-input-size)",
                       whose->text, n, (unsigned long long)request->max_input_bytes);
    }
    request->n_shared = total;
    return ad_request_hold(request, n, error);
}

static enum ad_status copy(struct ad_request *request, const struct ad_input *input,
                           const struct ad_region *region, const struct whose *whose,
                           const void **elements, struct ad_error *error)
{
    /* before any memory is taken for what is not there */
    enum ad_status status =
        ad_region_check(region, input->shared.offset, input->n_bytes, whose->text, error);
    if (!status) {
        status = hold(request, input->n_bytes, whose, error);
    }
    if (status) {
        return status;
    }
    void *bytes = ad_arena_alloc(&request->arena, input->n_bytes);
    if (!bytes) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    status = ad_region_read(region, input->shared.offset, bytes, input->n_bytes,
                            whose->text, error);
    return status ? status
                  : ad_input_read_binary(input, bytes, &request->arena, elements, error);
}

enum ad_status ad_shared_read(struct ad_request *request, const struct ad_input *input,
                              const void **elements, struct ad_error *error)
{
    const struct whose whose = name_of("input", input->port->name);
    struct ad_region *region = NULL;
    enum ad_status status = acquire(request, &input->shared, &whose, &region, error);
    if (!status) {
        status = copy(request, input, region, &whose, elements, error);
    }
    ad_region_release(region);
    return status;
}

/* ---- outputs ----------------------------------------------------------------------------------- */

enum ad_status ad_shared_reserve(struct ad_request *request,
                                 const struct ad_shared *place,
                                 struct ad_wanted_output *wanted, struct ad_error *error)
{
    const struct whose whose = name_of("output", wanted->name);
    enum ad_status status = acquire(request, place, &whose, &wanted->region, error);
    if (status) {
        return status;
    }
    wanted->offset = place->offset;
    wanted->n_bytes = place->n_bytes;
    return ad_region_check(wanted->region, place->offset, place->n_bytes, whose.text,
                           error);
}

static size_t size_of(const struct ad_request *request, size_t index)
{
    size_t n_bytes;
    return attn_tensor_bytes(&attn_plan_output(request->plan, index)->tensor, &n_bytes) ==
                   ATTN_OK
               ? n_bytes
               : SIZE_MAX;
}

/* Places were checked to be inside of their regions, so no sum overflows. */
static bool meet(const struct ad_request *request, size_t i, size_t j)
{
    const struct ad_wanted_output *a = &request->wanted[i], *b = &request->wanted[j];
    if (!a->region || !b->region || a->region->device != b->region->device ||
        a->region->object != b->region->object) {
        return false;
    }
    uint64_t a_begin = a->region->offset + a->offset,
             b_begin = b->region->offset + b->offset;
    return a_begin < b_begin + size_of(request, j) &&
           b_begin < a_begin + size_of(request, i);
}

static enum ad_status check_output(const struct ad_request *request, size_t index,
                                   struct ad_error *error)
{
    const struct ad_wanted_output *wanted = &request->wanted[index];
    size_t n_bytes = size_of(request, index);
    if (wanted->region && n_bytes > wanted->n_bytes) {
        return ad_fail(error, AD_INVALID,
                       "output '%s' takes %zu bytes, its shared_memory_byte_size is %llu",
                       wanted->name, n_bytes, (unsigned long long)wanted->n_bytes);
    }
    for (size_t i = 0; i < index; i++) {
        if (meet(request, i, index)) {
            return ad_fail(error, AD_INVALID,
                           "outputs '%s' and '%s' overlap in shared memory object "
                           "'%.128s'",
                           request->wanted[i].name, wanted->name, wanted->region->key);
        }
    }
    return AD_OK;
}

enum ad_status ad_shared_check(const struct ad_request *request, struct ad_error *error)
{
    enum ad_status status = AD_OK;
    for (size_t i = 0; !status && i < request->n_wanted; i++) {
        status = check_output(request, i, error);
    }
    return status;
}

enum ad_status ad_shared_write(const struct ad_request *request,
                               const struct attn_named_tensor *outputs, size_t n_outputs,
                               struct ad_error *error)
{
    enum ad_status status = AD_OK;
    for (size_t i = 0; !status && i < n_outputs && i < request->n_wanted; i++) {
        const struct ad_wanted_output *wanted = &request->wanted[i];
        if (wanted->region) {
            const struct whose whose = name_of("output", wanted->name);
            status =
                ad_region_write(wanted->region, wanted->offset, outputs[i].tensor.data,
                                size_of(request, i), whose.text, error);
        }
    }
    return status;
}
