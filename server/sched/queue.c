/* queue.c - the bounded queue between the I/O threads and the workers.
 *
 * A singly linked list with a pointer to its last link, so that push and pop take
 * constant time under one lock. `tail` points at `head` when the list is empty, else
 * at the last request's `next`. Any thread may call any function; main creates and
 * frees. */
#include "sched/queue.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

struct ad_queue {
    size_t capacity; /* immutable */
    pthread_mutex_t lock;
    pthread_cond_t not_empty; /* or closed */
    struct ad_request *head;  /* guarded by lock, as is all below */
    struct ad_request **tail;
    size_t length;
    bool closed;
};

struct ad_queue *ad_queue_create(size_t capacity)
{
    struct ad_queue *queue = calloc(1, sizeof *queue);
    if (!queue) {
        return NULL;
    }
    queue->capacity = capacity;
    queue->tail = &queue->head;
    if (pthread_mutex_init(&queue->lock, NULL) != 0) {
        free(queue);
        return NULL;
    }
    if (pthread_cond_init(&queue->not_empty, NULL) != 0) {
        pthread_mutex_destroy(&queue->lock);
        free(queue);
        return NULL;
    }
    return queue;
}

void ad_queue_free(struct ad_queue *queue)
{
    if (!queue) {
        return;
    }
    assert(!queue->head);
    pthread_cond_destroy(&queue->not_empty);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

/* Append under the lock. False: the queue is closed or full, which *closed tells
 * apart. */
static bool append_locked(struct ad_queue *queue, struct ad_request *request,
                          bool *closed)
{
    *closed = queue->closed;
    if (queue->closed || queue->length >= queue->capacity) {
        return false;
    }
    request->next = NULL;
    *queue->tail = request;
    queue->tail = &request->next;
    queue->length++;
    return true;
}

enum ad_status ad_queue_push(struct ad_queue *queue, struct ad_request **request,
                             struct ad_error *error)
{
    /* The caller's pointer is cleared before a worker can see the request: once it
     * can, on_done may run, and nothing of the request's surroundings may be written
     * any more. */
    struct ad_request *pushed = *request;
    *request = NULL;
    bool closed = false;
    pthread_mutex_lock(&queue->lock);
    bool appended = append_locked(queue, pushed, &closed);
    if (appended) {
        pthread_cond_signal(&queue->not_empty);
    }
    pthread_mutex_unlock(&queue->lock);
    if (appended) {
        return AD_OK;
    }
    *request = pushed;
    if (closed) {
        return ad_fail(error, AD_UNAVAILABLE,
                       "the server is stopping and takes no new inference requests");
    }
    return ad_fail(error, AD_UNAVAILABLE,
                   "Exceeds maximum queue size: %zu requests are waiting, which is the "
                   "limit (--queue-size); try again",
                   queue->capacity);
}

struct ad_request *ad_queue_pop(struct ad_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    while (!queue->head && !queue->closed) {
        pthread_cond_wait(&queue->not_empty, &queue->lock);
    }
    struct ad_request *request = queue->head;
    if (request) {
        queue->head = request->next;
        if (!queue->head) {
            queue->tail = &queue->head;
        }
        queue->length--;
        request->next = NULL;
    }
    pthread_mutex_unlock(&queue->lock);
    return request;
}

void ad_queue_close(struct ad_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    pthread_cond_broadcast(&queue->not_empty);
    pthread_mutex_unlock(&queue->lock);
}

struct ad_request *ad_queue_take_all(struct ad_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    struct ad_request *all = queue->head;
    queue->head = NULL;
    queue->tail = &queue->head;
    queue->length = 0;
    pthread_mutex_unlock(&queue->lock);
    return all;
}

size_t ad_queue_length(struct ad_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    size_t length = queue->length;
    pthread_mutex_unlock(&queue->lock);
    return length;
}
