/* arena.h - memory that is given back all at once: one arena a request.
 *
 * Used by one thread at a time; whoever holds the request holds its arena. */
#ifndef AD_BASE_ARENA_H
#define AD_BASE_ARENA_H

#include <stddef.h>

struct ad_arena_block;

struct ad_arena {
    struct ad_arena_block *blocks; /* newest first */
    size_t used;                   /* bytes used of the newest block */
    size_t total;                  /* bytes allocated in all blocks */
};

void ad_arena_init(struct ad_arena *arena);
void ad_arena_reset(struct ad_arena *arena); /* frees everything; ready for reuse */

/* size bytes, aligned to 64, uninitialised; NULL when out of memory or size is absurd. A size of 0
 * gives a valid pointer. ad_arena_array checks n * size for overflow. */
void *ad_arena_alloc(struct ad_arena *arena, size_t size);
void *ad_arena_array(struct ad_arena *arena, size_t n, size_t size);
char *ad_arena_strndup(struct ad_arena *arena, const char *text, size_t n);

#endif
