/* weights.c - the public handle of a safetensors file: the file's bytes, its tensors, and the names
 * by which a layer asks for them. The caller owns the handle and changes it from one thread; once
 * its names are set, any thread may look tensors up. */
#include "attention.h"

#include "safetensors.h"
#include "status.h"
#include "tensor.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct renamed {
    char *parameter; /* owned; apart, so that it stays where it is when the array grows */
    const struct attn_named_tensor *tensor;
};

struct attn_weights {
    void *bytes; /* the file when it was read here, else NULL */
    struct attni_safetensors file;
    char prefix[ATTN_NAME_SIZE];
    struct renamed *renamed; /* a layer has a handful of parameters: searched in order */
    size_t n_renamed;
};

/* ---- reading --------------------------------------------------------------------------- */

/* The path is cut so that the reason, which comes after it, always fits. */
static enum attn_status fail_io(struct attn_error *error, const char *path,
                                const char *reason)
{
    return attni_fail(error, ATTN_IO, "", "cannot read \"%.400s\": %s", path, reason);
}

static enum attn_status fail_errno(struct attn_error *error, const char *path)
{
    char text[80];
    return fail_io(error, path, strerror_r(errno, text, sizeof text));
}

/* Read n bytes into memory that holds one more: a file that has grown since its size was taken is
 * as wrong as one that has shrunk. */
static enum attn_status read_exactly(int fd, const char *path, unsigned char *bytes,
                                     size_t n, struct attn_error *error)
{
    size_t done = 0;
    while (done <= n) {
        ssize_t got = read(fd, bytes + done, n + 1 - done);
        if (got < 0 && errno != EINTR) {
            return fail_errno(error, path);
        }
        if (got == 0) {
            break;
        }
        done += got > 0 ? (size_t)got : 0;
    }
    if (done < n) {
        return fail_io(error, path, "it shrank while it was read");
    }
    return done > n ? fail_io(error, path, "it grew while it was read") : ATTN_OK;
}

/* Read the open file into *bytes, which the caller frees. */
static enum attn_status read_open(int fd, const char *path, unsigned char **bytes,
                                  size_t *n_bytes, struct attn_error *error)
{
    struct stat info;
    if (fstat(fd, &info) != 0) {
        return fail_errno(error, path);
    }
    if (!S_ISREG(info.st_mode)) {
        return fail_io(error, path, "it is not a regular file");
    }
    if ((uintmax_t)info.st_size >= SIZE_MAX) {
        return attni_fail(error, ATTN_TOO_LARGE, "", "\"%.400s\" is too large", path);
    }
    *n_bytes = (size_t)info.st_size;
    *bytes = attn_alloc(*n_bytes + 1);
    if (!*bytes) {
        return attni_fail_memory(error);
    }
    enum attn_status status = read_exactly(fd, path, *bytes, *n_bytes, error);
    if (status != ATTN_OK) {
        free(*bytes);
    }
    return status;
}

static enum attn_status read_file(const char *path, unsigned char **bytes,
                                  size_t *n_bytes, struct attn_error *error)
{
    int fd;
    do { /* O_NONBLOCK: to open a pipe must not wait for its other end */
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        return fail_errno(error, path);
    }
    enum attn_status status = read_open(fd, path, bytes, n_bytes, error);
    close(fd);
    return status;
}

/* ---- create and free ------------------------------------------------------------------- */

enum attn_status attn_weights_parse(const void *bytes, size_t n_bytes,
                                    attn_weights **weights, struct attn_error *error)
{
    *weights = NULL;
    attn_weights *made = calloc(1, sizeof *made);
    if (!made) {
        return attni_fail_memory(error);
    }
    enum attn_status status = attni_safetensors_parse(bytes, n_bytes, &made->file, error);
    if (status != ATTN_OK) {
        free(made);
        return status;
    }
    *weights = made;
    return ATTN_OK;
}

enum attn_status attn_weights_read(const char *path, attn_weights **weights,
                                   struct attn_error *error)
{
    *weights = NULL;
    unsigned char *bytes = NULL;
    size_t n_bytes = 0;
    enum attn_status status = read_file(path, &bytes, &n_bytes, error);
    if (status != ATTN_OK) {
        return status;
    }
    status = attn_weights_parse(bytes, n_bytes, weights, error);
    if (status != ATTN_OK) {
        free(bytes);
        return status;
    }
    (*weights)->bytes = bytes;
    return ATTN_OK;
}

void attn_weights_free(attn_weights *weights)
{
    if (!weights) {
        return;
    }
    for (size_t i = 0; i < weights->n_renamed; i++) {
        free(weights->renamed[i].parameter);
    }
    free(weights->renamed);
    attni_safetensors_reset(&weights->file);
    free(weights->bytes);
    free(weights);
}

/* ---- tensors and names ----------------------------------------------------------------- */

size_t attn_weights_count(const attn_weights *weights)
{
    return weights->file.n_tensors;
}

const struct attn_named_tensor *attn_weights_at(const attn_weights *weights, size_t index)
{
    assert(index < weights->file.n_tensors);
    return weights->file.by_data[index];
}

const char *attn_weights_metadata(const attn_weights *weights, const char *key)
{
    for (size_t i = 0; i < weights->file.n_metadata; i++) {
        if (strcmp(weights->file.metadata[i].key, key) == 0) {
            return weights->file.metadata[i].value;
        }
    }
    return NULL;
}

enum attn_status attn_weights_set_prefix(attn_weights *weights, const char *prefix,
                                         struct attn_error *error)
{
    size_t length = strlen(prefix);
    if (length >= ATTN_NAME_SIZE) {
        return attni_fail(error, ATTN_INVALID, "prefix",
                          "prefix \"%.100s...\" is too long: %zu bytes, at most %d",
                          prefix, length, ATTN_NAME_SIZE - 1);
    }
    memcpy(weights->prefix, prefix, length + 1);
    return ATTN_OK;
}

static const struct renamed *find_renamed(const attn_weights *weights,
                                          const char *parameter)
{
    for (size_t i = 0; i < weights->n_renamed; i++) {
        if (strcmp(weights->renamed[i].parameter, parameter) == 0) {
            return &weights->renamed[i];
        }
    }
    return NULL;
}

static enum attn_status add_renamed(attn_weights *weights, const char *parameter,
                                    const struct attn_named_tensor *tensor)
{
    size_t n_bytes;
    if (!attni_multiply(weights->n_renamed + 1, sizeof *weights->renamed, &n_bytes)) {
        return ATTN_NO_MEMORY;
    }
    struct renamed *renamed = realloc(weights->renamed, n_bytes);
    if (!renamed) {
        return ATTN_NO_MEMORY;
    }
    weights->renamed = renamed;
    char *copy = strdup(parameter);
    if (!copy) {
        return ATTN_NO_MEMORY;
    }
    renamed[weights->n_renamed++] = (struct renamed){.parameter = copy, .tensor = tensor};
    return ATTN_OK;
}

enum attn_status attn_weights_rename(attn_weights *weights, const char *parameter,
                                     const char *file_name, struct attn_error *error)
{
    if (strlen(parameter) >= ATTN_NAME_SIZE) {
        return attni_fail(
            error, ATTN_INVALID, parameter,
            "parameter name \"%.100s...\" is too long: %zu bytes, at most %d", parameter,
            strlen(parameter), ATTN_NAME_SIZE - 1);
    }
    if (find_renamed(weights, parameter)) {
        return attni_fail(error, ATTN_INVALID, parameter,
                          "parameter \"%s\" was given a name twice", parameter);
    }
    const struct attn_named_tensor *tensor =
        attni_safetensors_find(&weights->file, file_name);
    if (!tensor) {
        return attni_fail(error, ATTN_MISSING, parameter,
                          "parameter \"%s\": the weights have no tensor \"%.200s\"",
                          parameter, file_name);
    }
    return add_renamed(weights, parameter, tensor) == ATTN_OK ? ATTN_OK
                                                              : attni_fail_memory(error);
}

size_t attn_weights_n_renamed(const attn_weights *weights)
{
    return weights->n_renamed;
}

const char *attn_weights_renamed(const attn_weights *weights, size_t index)
{
    assert(index < weights->n_renamed);
    return weights->renamed[index].parameter;
}

const struct attn_tensor *attn_weights_find(const attn_weights *weights,
                                            const char *parameter,
                                            char file_name[2 * ATTN_NAME_SIZE])
{
    const struct renamed *renamed = find_renamed(weights, parameter);
    if (renamed) {
        if (file_name) {
            snprintf(file_name, sizeof(char[2 * ATTN_NAME_SIZE]), "%s",
                     renamed->tensor->name);
        }
        return &renamed->tensor->tensor;
    }
    /* A name that is cut here was too long for any tensor, and still is. */
    char name[2 * ATTN_NAME_SIZE];
    snprintf(name, sizeof name, "%s%s", weights->prefix, parameter);
    if (file_name) {
        memcpy(file_name, name, sizeof name);
    }
    const struct attn_named_tensor *tensor = attni_safetensors_find(&weights->file, name);
    return tensor ? &tensor->tensor : NULL;
}
