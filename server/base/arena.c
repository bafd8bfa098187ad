/* arena.c - memory that is given back all at once. Blocks grow with what the arena already holds, so
 * that a small request costs one small block and a large one few. Owner: whoever holds the arena,
 * one thread at a time. */
#include "base/arena.h"
#include "base/large.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT ((size_t)64)
#define SMALLEST_BLOCK ((size_t)4096)
#define LARGEST_BLOCK ((size_t)1 << 20) /* but for an allocation that needs more */

/* The header takes the first ALIGNMENT bytes of a block; what is handed out follows. */
struct ad_arena_block {
    struct ad_arena_block *next;
    size_t capacity; /* bytes after the header */
};

_Static_assert(sizeof(struct ad_arena_block) <= ALIGNMENT, "the header fits its place");

static char *block_data(struct ad_arena_block *block)
{
    return (char *)block + ALIGNMENT;
}

void ad_arena_init(struct ad_arena *arena)
{
    *arena = (struct ad_arena){NULL, 0, 0};
}

void ad_arena_reset(struct ad_arena *arena)
{
    struct ad_arena_block *block = arena->blocks;
    while (block) {
        struct ad_arena_block *next = block->next;
        free(block);
        block = next;
    }
    ad_arena_init(arena);
}

/* A block for at least size bytes, a multiple of the alignment. */
static struct ad_arena_block *create_block(struct ad_arena *arena, size_t size)
{
    size_t capacity = arena->total < SMALLEST_BLOCK  ? SMALLEST_BLOCK - ALIGNMENT
                      : arena->total > LARGEST_BLOCK ? LARGEST_BLOCK - ALIGNMENT
                                                     : arena->total;
    capacity = capacity > size ? capacity : size;
    struct ad_arena_block *block = ad_large_alloc(ALIGNMENT + capacity);
    if (block) {
        *block = (struct ad_arena_block){NULL, capacity};
        arena->total += ALIGNMENT + capacity;
    }
    return block;
}

void *ad_arena_alloc(struct ad_arena *arena, size_t size)
{
    /* Half the address space bounds every sum below. */
    if (size > PTRDIFF_MAX - 2 * ALIGNMENT || arena->total > PTRDIFF_MAX - size) {
        return NULL;
    }
    size_t need = size == 0 ? ALIGNMENT : (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    size_t room = arena->blocks ? arena->blocks->capacity - arena->used : 0;
    if (arena->blocks && need <= room) {
        char *memory = block_data(arena->blocks) + arena->used;
        arena->used += need;
        return memory;
    }
    struct ad_arena_block *block = create_block(arena, need);
    if (!block) {
        return NULL;
    }
    if (arena->blocks && room >= block->capacity - need) {
        /* The block in use has more room left: keep using it, and put this one behind it. */
        block->next = arena->blocks->next;
        arena->blocks->next = block;
    } else {
        block->next = arena->blocks;
        arena->blocks = block;
        arena->used = need;
    }
    return block_data(block);
}

void *ad_arena_array(struct ad_arena *arena, size_t n, size_t size)
{
    size_t n_bytes;
    if (__builtin_mul_overflow(n, size, &n_bytes)) {
        return NULL;
    }
    return ad_arena_alloc(arena, n_bytes);
}

char *ad_arena_strndup(struct ad_arena *arena, const char *text, size_t n)
{
    size_t length = strnlen(text, n);
    char *copy = ad_arena_alloc(arena, length + 1);
    if (copy) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}
