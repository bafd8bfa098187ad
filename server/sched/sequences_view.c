/* sequences_view.c - which sequences are kept, for operators. Any thread; a walk over them under the lock of all,
 * which copies nothing but ids. */
#include "sched/sequences_state.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

struct gathering {
    const struct ad_version *version;
    struct ad_sequence **items;
    size_t n;
};

static void gather(const void *node, VISIT visit, void *closure)
{
    struct gathering *gathering = closure;
    struct ad_sequence *sequence = *(struct ad_sequence *const *)node;
    if ((visit == postorder || visit == leaf) &&
        (!gathering->version || sequence->version == gathering->version)) {
        gathering->items[gathering->n++] = sequence;
    }
}

struct ad_sequence **ad_sequences_gather(const struct ad_sequences *sequences,
                                         const struct ad_version *version, size_t *n)
{
    struct gathering gathering = {version, NULL, 0};
    gathering.items = calloc(sequences->n + 1, sizeof(struct ad_sequence *));
    if (gathering.items) {
        twalk_r(sequences->tree, gather, &gathering);
    }
    *n = gathering.n;
    return gathering.items;
}

/* False: out of memory. */
static bool show(const struct ad_sequence *sequence, int64_t now_ns,
                 struct ad_sequence_view *view)
{
    int64_t idle_ns = now_ns - sequence->used_ns;
    *view = (struct ad_sequence_view){
        .id = strdup(sequence->id),
        .length = sequence->length,
        .n_bytes = sequence->n_bytes,
        .idle_ns = sequence->in_hand || idle_ns < 0 ? 0 : idle_ns,
        .busy = sequence->in_hand,
    };
    return view->id != NULL;
}

enum ad_status ad_sequences_view(struct ad_sequences *sequences,
                                 const struct ad_version *version, int64_t now_ns,
                                 struct ad_sequences_view *view, struct ad_error *error)
{
    size_t n = 0;
    struct ad_sequences_view shown = {NULL, 0};
    pthread_mutex_lock(&sequences->lock);
    struct ad_sequence **items = ad_sequences_gather(sequences, version, &n);
    shown.items = items ? calloc(n + 1, sizeof *shown.items) : NULL;
    bool ok = shown.items != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        ok = show(items[i], now_ns, &shown.items[shown.n++]);
    }
    pthread_mutex_unlock(&sequences->lock);
    free(items);
    if (!ok) {
        ad_sequences_view_reset(&shown);
    }
    *view = shown;
    return ok ? AD_OK : ad_fail(error, AD_INTERNAL, "out of memory");
}

void ad_sequences_view_reset(struct ad_sequences_view *view)
{
    for (size_t i = 0; i < view->n; i++) {
        free(view->items[i].id);
    }
    free(view->items);
    *view = (struct ad_sequences_view){NULL, 0};
}
