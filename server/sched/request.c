/* request.c - the life of one inference request, and lists of them.
 *
 * Owner: whoever holds the request (see request.h). No thread of its own. */
#include "sched/request.h"
#include "sched/budget.h"

#include <assert.h>
#include <stdlib.h>

struct ad_request *ad_request_create(void)
{
    struct ad_request *request = calloc(1, sizeof *request);
    if (!request) {
        return NULL;
    }
    request->mode.size = sizeof request->mode;
    request->fd = -1;
    ad_buffer_init(&request->body);
    ad_buffer_init(&request->reply);
    ad_arena_init(&request->arena);
    return request;
}

void ad_request_free(struct ad_request *request)
{
    if (!request) {
        return;
    }
    assert(!request->sequence);
    for (size_t i = 0; i < request->n_wanted; i++) {
        ad_region_release(request->wanted[i].region);
    }
    attn_plan_free(request->plan);
    ad_request_release(request, request->n_held);
    ad_version_release(request->version);
    ad_buffer_reset(&request->body);
    ad_buffer_reset(&request->reply);
    ad_arena_reset(&request->arena);
    free(request);
}

void ad_request_release(struct ad_request *request, size_t n)
{
    if (request->budget && n > 0) {
        request->n_held -= n;
        ad_budget_give(request->budget, &request->version->n_body_bytes, n);
    }
}

enum ad_status ad_request_hold(struct ad_request *request, size_t n,
                               struct ad_error *error)
{
    struct ad_budget *budget = request->budget;
    if (!budget) {
        return AD_OK;
    }
    if (ad_budget_take(budget, &request->version->n_body_bytes, n)) {
        request->n_held += n;
        return AD_OK;
    }
    size_t size = request->n_held + n;
    ad_request_release(request, request->n_held);
    if (size > budget->limit / 2) {
        return ad_fail(error, AD_TOO_LARGE,
                       "request body of at least %zu bytes is more than half of what all "
                       "bodies together may take (--queue-memory, %zu bytes)",
                       size, budget->limit);
    }
    return ad_fail_code(error, AD_UNAVAILABLE, "memory",
                        "request bodies that wait take the memory that they may "
                        "(--queue-memory, %zu bytes); try again",
                        budget->limit);
}

/* Put the request behind another; NULL: to the front. */
static void insert_behind(struct ad_requests *list, struct ad_request *before,
                          struct ad_request *request)
{
    request->previous = before;
    request->next = before ? before->next : list->first;
    *(before ? &before->next : &list->first) = request;
    *(request->next ? &request->next->previous : &list->last) = request;
    list->n++;
}

void ad_requests_append(struct ad_requests *list, struct ad_request *request)
{
    insert_behind(list, list->last, request);
}

void ad_requests_insert(struct ad_requests *list, struct ad_request *request)
{
    struct ad_request *before = list->last;
    while (before && before->level > request->level) {
        before = before->previous;
    }
    insert_behind(list, before, request);
}

void ad_requests_remove(struct ad_requests *list, struct ad_request *request)
{
    *(request->previous ? &request->previous->next : &list->first) = request->next;
    *(request->next ? &request->next->previous : &list->last) = request->previous;
    request->next = NULL;
    request->previous = NULL;
    list->n--;
}

struct ad_request *ad_requests_shift(struct ad_requests *list)
{
    struct ad_request *first = list->first;
    if (first) {
        ad_requests_remove(list, first);
    }
    return first;
}
