/* counts.c - how often each route was answered with what. Any thread. A route claims a row of the
 * table the first time that it is counted; rows are found by the pattern's address. */
#include "http/counts.h"

#include <assert.h>
#include <string.h>

#define N_CELLS ((size_t)AD_COUNTS_VERBS * AD_COUNTS_CODES)

static const char no_route[] = "";

static const char *const verbs[AD_COUNTS_VERBS] = {"GET", "HEAD", "POST", "DELETE",
                                                   "other"};

static const struct {
    unsigned number;
    const char *text;
} codes[AD_COUNTS_CODES] = {
    {200, "200"}, {204, "204"}, {206, "206"}, {304, "304"}, {400, "400"}, {401, "401"},
    {403, "403"}, {404, "404"}, {405, "405"}, {406, "406"}, {408, "408"}, {409, "409"},
    {411, "411"}, {412, "412"}, {413, "413"}, {414, "414"}, {415, "415"}, {416, "416"},
    {421, "421"}, {422, "422"}, {429, "429"}, {431, "431"}, {499, "499"}, {500, "500"},
    {501, "501"}, {503, "503"}, {504, "504"}, {0, "other"}};

/* The row of a pattern; NULL when there are more patterns than rows. */
static struct ad_route_counts *row_of(struct ad_counts *counts, const char *pattern)
{
    size_t first = ((uintptr_t)pattern >> 3) % AD_COUNTS_MAX_ROUTES;
    for (size_t i = 0; i < AD_COUNTS_MAX_ROUTES; i++) {
        struct ad_route_counts *row = &counts->routes[(first + i) % AD_COUNTS_MAX_ROUTES];
        const char *found = atomic_load_explicit(&row->pattern, memory_order_acquire);
        if (found == pattern ||
            (!found && atomic_compare_exchange_strong(&row->pattern, &found, pattern)) ||
            found == pattern) {
            return row;
        }
    }
    return NULL;
}

static size_t verb_index(const char *verb)
{
    size_t i = 0;
    while (i < AD_COUNTS_VERBS - 1 && strcmp(verbs[i], verb) != 0) {
        i++;
    }
    return i;
}

static size_t code_index(unsigned code)
{
    size_t i = 0;
    while (i < AD_COUNTS_CODES - 1 && codes[i].number != code) {
        i++;
    }
    return i;
}

void ad_counts_add(struct ad_counts *counts, const char *pattern, const char *verb,
                   unsigned code)
{
    struct ad_route_counts *row = row_of(counts, pattern ? pattern : no_route);
    assert(row && "AD_COUNTS_MAX_ROUTES is above the number of routes");
    if (row) {
        atomic_fetch_add_explicit(&row->counts[verb_index(verb)][code_index(code)], 1,
                                  memory_order_relaxed);
    }
}

void ad_counts_reject(struct ad_counts *counts, enum ad_rejection reason)
{
    atomic_fetch_add_explicit(&counts->rejections[reason], 1, memory_order_relaxed);
}

const char *ad_rejection_text(enum ad_rejection reason)
{
    switch (reason) {
    case AD_REJECTED_QUEUE_FULL:
        return "queue_full";
    case AD_REJECTED_TIMEOUT:
        return "timeout";
    case AD_REJECTED_MEMORY:
        return "memory";
    case AD_REJECTED_STOPPING:
        return "stopping";
    case AD_REJECTED_NOT_LOADED:
        return "not_loaded";
    case AD_REJECTED_CANCELED:
        return "canceled";
    case AD_REJECTED_SEQUENCE:
        return "sequence";
    case AD_REJECTED_UNAUTHORIZED:
        return "unauthorized";
    case AD_REJECTED_FORBIDDEN:
        return "forbidden";
    case AD_REJECTED_RATE:
        return "rate";
    case AD_N_REJECTIONS:
        break;
    }
    return "other";
}

uint64_t ad_counts_rejected(const struct ad_counts *counts, enum ad_rejection reason)
{
    return atomic_load_explicit(&counts->rejections[reason], memory_order_relaxed);
}

void ad_counts_cut(struct ad_counts *counts, enum ad_cut cut)
{
    atomic_fetch_add_explicit(&counts->cuts[cut], 1, memory_order_relaxed);
}

void ad_counts_turn_away(struct ad_counts *counts, enum ad_turned_away reason)
{
    atomic_fetch_add_explicit(&counts->turned_away[reason], 1, memory_order_relaxed);
}

const char *ad_cut_text(enum ad_cut cut)
{
    switch (cut) {
    case AD_CUT_HEADERS:
        return "headers";
    case AD_CUT_BODY:
        return "body";
    case AD_CUT_REPLY:
        return "reply";
    case AD_CUT_IDLE:
        return "idle";
    case AD_N_CUTS:
        break;
    }
    return "other";
}

const char *ad_turned_away_text(enum ad_turned_away reason)
{
    switch (reason) {
    case AD_TURNED_AWAY_LIMIT:
        return "limit";
    case AD_TURNED_AWAY_ADDRESS:
        return "address";
    case AD_N_TURNED_AWAY:
        break;
    }
    return "other";
}

bool ad_counts_next(const struct ad_counts *counts, size_t *position,
                    struct ad_count *count)
{
    for (; *position < AD_COUNTS_MAX_ROUTES * N_CELLS; *position += 1) {
        const struct ad_route_counts *row = &counts->routes[*position / N_CELLS];
        size_t verb = *position % N_CELLS / AD_COUNTS_CODES;
        size_t code = *position % AD_COUNTS_CODES;
        uint64_t n = atomic_load_explicit(&row->counts[verb][code], memory_order_relaxed);
        if (n > 0) {
            const char *pattern =
                atomic_load_explicit(&row->pattern, memory_order_acquire);
            *count = (struct ad_count){pattern, verbs[verb], codes[code].text, n};
            *position += 1;
            return true;
        }
    }
    return false;
}
