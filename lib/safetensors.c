/* safetensors.c - reads the format: 8 bytes of little-endian header length, a JSON header, data.
 * Cuts the file, has its header read, then sorts: the names, to see that none comes twice and to
 * find them; the data ranges, to see that they cover the data without overlap or gap. The bytes are
 * hostile. The caller owns the table; one thread fills it, any may read it afterwards. */
#include "safetensors.h"

#include "safetensors_header.h"
#include "status.h"
#include "tensor.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The format's own limit. */
#define MAX_HEADER_BYTES ((size_t)100 * 1000 * 1000)
#define LENGTH_BYTES ((size_t)8)

/* A file, cut. */
struct file {
    const unsigned char *header, *data;
    size_t n_header, n_data;
};

/* ---- all tensors together -------------------------------------------------------------- */

static size_t checked_bytes(const struct attn_tensor *tensor)
{
    size_t n_bytes = 0;
    enum attn_status status = attn_tensor_bytes(tensor, &n_bytes);
    assert(status == ATTN_OK); /* the header reader saw to it */
    (void)status;
    return n_bytes;
}

/* By begin, empty ones first, then as in the header. */
static int compare_data(const void *left, const void *right)
{
    const struct attn_named_tensor *const *a = left;
    const struct attn_named_tensor *const *b = right;
    const unsigned char *a_data = (*a)->tensor.data;
    const unsigned char *b_data = (*b)->tensor.data;
    if (a_data != b_data) {
        return a_data < b_data ? -1 : 1;
    }
    bool a_empty = checked_bytes(&(*a)->tensor) == 0;
    bool b_empty = checked_bytes(&(*b)->tensor) == 0;
    if (a_empty != b_empty) {
        return a_empty ? -1 : 1;
    }
    return *a < *b ? -1 : *a > *b;
}

static int compare_names(const void *left, const void *right)
{
    const struct attn_named_tensor *const *a = left;
    const struct attn_named_tensor *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

/* The n tensors as a sorted array of pointers, NULL when there are none. */
static enum attn_status make_order(const struct attni_safetensors *table,
                                   int (*compare)(const void *, const void *),
                                   const struct attn_named_tensor ***order,
                                   struct attn_error *error)
{
    size_t n = table->n_tensors;
    if (n == 0) {
        return ATTN_OK;
    }
    *order = calloc(n, sizeof **order);
    if (!*order) {
        return attni_fail_memory(error);
    }
    for (size_t i = 0; i < n; i++) {
        (*order)[i] = &table->tensors[i];
    }
    qsort(*order, n, sizeof **order, compare);
    return ATTN_OK;
}

static enum attn_status check_names(const struct attni_safetensors *table,
                                    struct attn_error *error)
{
    for (size_t i = 1; i < table->n_tensors; i++) {
        const char *name = table->by_name[i]->name;
        if (strcmp(table->by_name[i - 1]->name, name) == 0) {
            return attni_fail(error, ATTN_FORMAT, name,
                              "tensor \"%s\" is there more than once", name);
        }
    }
    return ATTN_OK;
}

/* Every byte of the data belongs to one tensor. */
static enum attn_status check_cover(const struct attni_safetensors *table,
                                    const struct file *file, struct attn_error *error)
{
    size_t covered = 0;
    for (size_t i = 0; i < table->n_tensors; i++) {
        const struct attn_named_tensor *tensor = table->by_data[i];
        const unsigned char *data = tensor->tensor.data;
        size_t begin = (size_t)(data - file->data);
        if (begin < covered) {
            return attni_fail(error, ATTN_FORMAT, tensor->name,
                              "tensor \"%s\": its data begin at %zu, inside those of "
                              "\"%s\", which end at %zu",
                              tensor->name, begin, table->by_data[i - 1]->name, covered);
        }
        if (begin > covered) {
            return attni_fail(error, ATTN_FORMAT, tensor->name,
                              "tensor \"%s\": its data begin at %zu, and the %zu bytes "
                              "before belong to no tensor",
                              tensor->name, begin, begin - covered);
        }
        covered = begin + checked_bytes(&tensor->tensor);
    }
    if (covered != file->n_data) {
        return attni_fail(error, ATTN_FORMAT, "",
                          "the last %zu bytes of data belong to no tensor",
                          file->n_data - covered);
    }
    return ATTN_OK;
}

/* ---- entry points ---------------------------------------------------------------------- */

/* Find header and data. */
static enum attn_status cut(const unsigned char *bytes, size_t n_bytes, struct file *file,
                            struct attn_error *error)
{
    if (n_bytes < LENGTH_BYTES) {
        return attni_fail(error, ATTN_FORMAT, "",
                          "file of %zu bytes is too short for a safetensors file",
                          n_bytes);
    }
    uint64_t n_header = 0;
    for (size_t i = 0; i < LENGTH_BYTES; i++) {
        n_header |= (uint64_t)bytes[i] << 8 * i;
    }
    if (n_header > MAX_HEADER_BYTES) {
        return attni_fail(error, ATTN_FORMAT, "",
                          "header length %" PRIu64 " is over the limit of %zu bytes",
                          n_header, MAX_HEADER_BYTES);
    }
    if (n_header > n_bytes - LENGTH_BYTES) {
        return attni_fail(error, ATTN_FORMAT, "",
                          "header length %" PRIu64 " goes past the end of the file, "
                          "which has %zu bytes",
                          n_header, n_bytes);
    }
    file->header = bytes + LENGTH_BYTES;
    file->n_header = (size_t)n_header;
    file->data = file->header + file->n_header;
    file->n_data = n_bytes - LENGTH_BYTES - file->n_header;
    return ATTN_OK;
}

enum attn_status attni_safetensors_parse(const void *bytes, size_t n_bytes,
                                         struct attni_safetensors *table,
                                         struct attn_error *error)
{
    *table = (struct attni_safetensors){0};
    struct file file = {0};
    enum attn_status status = cut(bytes, n_bytes, &file, error);
    if (status != ATTN_OK) {
        return status;
    }
    status = attni_safetensors_read_header(file.header, file.n_header, file.data,
                                           file.n_data, table, error);
    if (status == ATTN_OK) {
        status = make_order(table, compare_names, &table->by_name, error);
    }
    if (status == ATTN_OK) {
        status = check_names(table, error);
    }
    if (status == ATTN_OK) {
        status = make_order(table, compare_data, &table->by_data, error);
    }
    if (status == ATTN_OK) {
        status = check_cover(table, &file, error);
    }
    if (status != ATTN_OK) {
        attni_safetensors_reset(table);
    }
    return status;
}

void attni_safetensors_reset(struct attni_safetensors *table)
{
    free(table->tensors);
    free(table->by_data);
    free(table->by_name);
    free(table->metadata);
    free(table->text);
    *table = (struct attni_safetensors){0};
}

static int compare_key(const void *key, const void *element)
{
    const struct attn_named_tensor *const *tensor = element;
    return strcmp(key, (*tensor)->name);
}

const struct attn_named_tensor *
attni_safetensors_find(const struct attni_safetensors *table, const char *name)
{
    if (table->n_tensors == 0) {
        return NULL;
    }
    const struct attn_named_tensor *const *found = bsearch(
        name, table->by_name, table->n_tensors, sizeof *table->by_name, compare_key);
    return found ? *found : NULL;
}
