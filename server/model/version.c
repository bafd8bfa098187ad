/* version.c - count who uses a version, and free it after the last of them.
 *
 * Any thread holds and releases: whoever brings the count to zero frees the version, its weights
 * included, there and then. */
#include "model/version.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ad_presence *presence_create(void)
{
    struct ad_presence *presence = malloc(sizeof *presence);
    if (presence) {
        atomic_init(&presence->references, 1);
        atomic_init(&presence->gone, false);
    }
    return presence;
}

struct ad_presence *ad_presence_hold(struct ad_presence *presence)
{
    if (presence) {
        atomic_fetch_add_explicit(&presence->references, 1, memory_order_relaxed);
    }
    return presence;
}

void ad_presence_release(struct ad_presence *presence)
{
    if (presence &&
        atomic_fetch_sub_explicit(&presence->references, 1, memory_order_acq_rel) == 1) {
        free(presence);
    }
}

bool ad_presence_is_gone(const struct ad_presence *presence)
{
    return !presence || atomic_load(&presence->gone);
}

struct ad_version *ad_version_create(const char *model, uint64_t number,
                                     struct ad_stats *stats)
{
    struct ad_version *version = calloc(1, sizeof *version);
    if (!version) {
        return NULL;
    }
    atomic_init(&version->references, 1);
    version->number = number;
    snprintf(version->text, sizeof version->text, "%" PRIu64, number);
    version->model = strdup(model);
    version->presence = presence_create();
    version->stats = stats ? ad_stats_hold(stats) : ad_stats_create();
    if (!version->model || !version->presence || !version->stats) {
        ad_version_release(version);
        return NULL;
    }
    return version;
}

void ad_version_hold(struct ad_version *version)
{
    atomic_fetch_add_explicit(&version->references, 1, memory_order_relaxed);
}

void ad_version_release(struct ad_version *version)
{
    if (!version ||
        atomic_fetch_sub_explicit(&version->references, 1, memory_order_acq_rel) > 1) {
        return;
    }
    attn_layer_free(version->layer);
    ad_stats_release(version->stats);
    free(version->config);
    free(version->model);
    if (version->presence) {
        atomic_store(&version->presence->gone, true);
        ad_presence_release(version->presence);
    }
    free(version);
}
