/* safetensors_file.h - safetensors files made in memory, for the tests of those who read them. */
#ifndef TESTS_UNIT_LIB_SAFETENSORS_FILE_H
#define TESTS_UNIT_LIB_SAFETENSORS_FILE_H

#include "attention.h"
#include "unit/support.h"

#include <stdlib.h>
#include <string.h>

#define TENSOR(name, dtype, shape, offsets)                  \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape \
    ",\"data_offsets\":" offsets "}"
#define ONE(dtype, shape, offsets) "{" TENSOR("w", dtype, shape, offsets) "}"
#define NAMED(name) "{" TENSOR(name, "U8", "[4]", "[0,4]") "}"
#define TEN "0123456789"
#define NAME_127 TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN "0123456"

/* Two tensors, in another order than their data, with 11 bytes of data; white space all over. */
#define TWO_TENSORS                                                         \
    "{\"__metadata__\":{\"format\":\"pt\"},"                                \
    "\"late\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[3,11]}," \
    " \"b.ool\" : { \"shape\" : [ 3 ] , \"data_offsets\":[0,3],\r\n\t"      \
    "\"dtype\":\"BOOL\" } }   "

/* A file in memory that is exactly as large as its content. */
struct file {
    unsigned char *bytes;
    size_t n_bytes;
};

/* Data are 0, 1, 2, ... */
static inline struct file make_file(const char *header, size_t n_header, size_t n_data)
{
    struct file file = {.n_bytes = 8 + n_header + n_data};
    file.bytes = malloc(file.n_bytes);
    ck_assert(file.bytes);
    for (size_t i = 0; i < 8; i++) {
        file.bytes[i] = (unsigned char)((uint64_t)n_header >> 8 * i);
    }
    memcpy(file.bytes + 8, header, n_header);
    for (size_t i = 0; i < n_data; i++) {
        file.bytes[8 + n_header + i] = (unsigned char)i;
    }
    return file;
}

/* Parse a file that must be good. */
static inline attn_weights *parse_good(const struct file *file)
{
    struct attn_error error = {0};
    attn_weights *weights = NULL;
    enum attn_status status =
        attn_weights_parse(file->bytes, file->n_bytes, &weights, &error);
    ck_assert_msg(status == ATTN_OK, "%s", error.message);
    ck_assert(error.status == ATTN_OK && weights);
    return weights;
}

#endif
