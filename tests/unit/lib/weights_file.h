/* weights_file.h - safetensors files written in memory, and dice that fall alike on every machine.
 * Needs no test framework, so fuzz targets use it too. */
#ifndef TESTS_UNIT_LIB_WEIGHTS_FILE_H
#define TESTS_UNIT_LIB_WEIGHTS_FILE_H

#include "attention.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Memory or the end of the test: zeroed, never of size 0, freed by the caller. */
static inline void *need_memory(size_t n_bytes)
{
    void *memory = calloc(n_bytes ? n_bytes : 1, 1);
    if (!memory) {
        abort();
    }
    return memory;
}

/* ---- dice ---------------------------------------------------------------------------------- */

struct dice {
    uint64_t state;
};

static inline uint64_t dice_next(struct dice *dice)
{
    uint64_t x = dice->state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* One of 0 to n - 1. */
static inline size_t dice_below(struct dice *dice, size_t n)
{
    return (size_t)(dice_next(dice) % n);
}

static inline bool dice_bool(struct dice *dice)
{
    return dice_next(dice) >> 63;
}

/* A number from -1 to 1. */
static inline float dice_real(struct dice *dice)
{
    return (float)(dice_next(dice) >> 40) / (float)(1 << 23) - 1;
}

/* n numbers from -size to size. */
static inline void dice_fill(struct dice *dice, float *out, size_t n, float size)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = size * dice_real(dice);
    }
}

/* ---- files --------------------------------------------------------------------------------- */

/* The tensors as a safetensors file of *n_bytes; the caller frees it. Names must need no escape. */
static inline unsigned char *weights_file(const struct attn_named_tensor *tensors,
                                          size_t n, size_t *n_bytes)
{
    size_t room = 512 * (n + 1), used = 0, n_data = 0;
    char *header = need_memory(room);
    header[used++] = '{';
    for (size_t i = 0; i < n; i++) {
        const struct attn_tensor *tensor = &tensors[i].tensor;
        size_t bytes;
        if (attn_tensor_bytes(tensor, &bytes)) {
            abort();
        }
        used += (size_t)snprintf(header + used, room - used,
                                 "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", i ? "," : "",
                                 tensors[i].name, attn_dtype_name(tensor->dtype));
        for (size_t k = 0; k < tensor->rank; k++) {
            used += (size_t)snprintf(header + used, room - used, "%s%zu", k ? "," : "",
                                     tensor->shape[k]);
        }
        used += (size_t)snprintf(header + used, room - used,
                                 "],\"data_offsets\":[%zu,%zu]}", n_data, n_data + bytes);
        n_data += bytes;
    }
    header[used++] = '}';
    *n_bytes = 8 + used + n_data;
    unsigned char *file = need_memory(*n_bytes), *at = file + 8 + used;
    for (size_t i = 0; i < 8; i++) {
        file[i] = (unsigned char)((uint64_t)used >> 8 * i);
    }
    memcpy(file + 8, header, used);
    free(header);
    for (size_t i = 0; i < n; i++) {
        size_t bytes;
        if (attn_tensor_bytes(&tensors[i].tensor, &bytes)) {
            abort();
        }
        if (bytes) {
            memcpy(at, tensors[i].tensor.data, bytes);
        }
        at += bytes;
    }
    return file;
}

#endif
