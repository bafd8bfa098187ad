/* buffer.c - bytes that grow. Owner: whoever holds the struct; not shared between threads. */
#include "base/buffer.h"
#include "base/large.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALLEST ((size_t)64)

void ad_buffer_init(struct ad_buffer *buffer)
{
    *buffer = (struct ad_buffer){NULL, 0, 0, 0};
}

static char *allocation_of(const struct ad_buffer *buffer)
{
    return buffer->data ? buffer->data - buffer->lead : NULL;
}

void ad_buffer_reset(struct ad_buffer *buffer)
{
    free(allocation_of(buffer));
    ad_buffer_init(buffer);
}

bool ad_buffer_start(struct ad_buffer *buffer, size_t lead, size_t n)
{
    buffer->lead = lead;
    return ad_buffer_reserve(buffer, n);
}

/* Copy n bytes and give the pages that they leave back as they are left, so that there are never two
 * copies of much. from is aligned to AD_LARGE. */
static void move_bytes(char *to, char *from, size_t n)
{
    for (size_t at = 0; at < n; at += AD_LARGE) {
        size_t step = n - at < AD_LARGE ? n - at : AD_LARGE;
        memcpy(to + at, from + at, step);
        if (step == AD_LARGE) {
            ad_large_drop(from + at);
        }
    }
}

/* The contents in memory of another size, the old memory being gone; NULL: out of memory, and it is
 * not. Large memory is copied once more than realloc would, and found sooner. */
static char *move(struct ad_buffer *buffer, size_t capacity)
{
    size_t n_bytes = buffer->lead + capacity;
    if (n_bytes < AD_LARGE_FROM) {
        char *moved = realloc(allocation_of(buffer), n_bytes);
        return moved ? moved + buffer->lead : NULL;
    }
    char *moved = ad_large_alloc(n_bytes);
    if (!moved) {
        return NULL;
    }
    char *old = allocation_of(buffer);
    if (old && buffer->lead + buffer->capacity >= AD_LARGE_FROM) {
        move_bytes(moved, old, buffer->lead + buffer->size);
    } else if (old) {
        memcpy(moved + buffer->lead, old + buffer->lead, buffer->size);
    }
    free(old);
    return moved + buffer->lead;
}

bool ad_buffer_reserve(struct ad_buffer *buffer, size_t n)
{
    if (n >= PTRDIFF_MAX - buffer->size - buffer->lead) {
        return false;
    }
    size_t need = buffer->size + n + 1;
    if (need <= buffer->capacity) {
        return true;
    }
    /* Half as much again: an appended byte is copied a bounded number of times on average. */
    size_t grown = buffer->capacity + buffer->capacity / 2;
    grown = grown < SMALLEST ? SMALLEST : grown;
    size_t capacity = grown > need ? grown : need;
    char *data = move(buffer, capacity);
    if (!data && capacity > need) {
        capacity = need;
        data = move(buffer, capacity);
    }
    if (!data) {
        return false;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    buffer->data[buffer->size] = '\0';
    return true;
}

bool ad_buffer_append(struct ad_buffer *buffer, const void *bytes, size_t n)
{
    if (!ad_buffer_reserve(buffer, n)) {
        return false;
    }
    if (n > 0) {
        memcpy(buffer->data + buffer->size, bytes, n);
        buffer->size += n;
        buffer->data[buffer->size] = '\0';
    }
    return true;
}

bool ad_buffer_printf(struct ad_buffer *buffer, const char *format, ...)
{
    /* what is printed is short: mostly it fits at once */
    if (!ad_buffer_reserve(buffer, SMALLEST)) {
        return false;
    }
    size_t room = buffer->capacity - buffer->size;
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(buffer->data + buffer->size, room, format, arguments);
    va_end(arguments);
    if (n >= 0 && (size_t)n >= room && ad_buffer_reserve(buffer, (size_t)n)) {
        room = buffer->capacity - buffer->size;
        va_start(arguments, format);
        n = vsnprintf(buffer->data + buffer->size, room, format, arguments);
        va_end(arguments);
    }
    if (n < 0 || (size_t)n >= room) {
        buffer->data[buffer->size] = '\0';
        return false;
    }
    buffer->size += (size_t)n;
    return true;
}
