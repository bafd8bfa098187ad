/* scratch.h - a model repository in a scratch folder, for one test. */
#ifndef TESTS_UNIT_MODEL_SCRATCH_H
#define TESTS_UNIT_MODEL_SCRATCH_H

#include "model/repository.h"

#include <check.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct scratch {
    char root[64];
    char path[512]; /* of scratch_path's last call */
};

static inline void scratch_make(struct scratch *scratch)
{
    strcpy(scratch->root, "/tmp/attentiond-model-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(scratch->root));
}

static inline int scratch_remove_one(const char *path, const struct stat *about, int kind,
                                     struct FTW *walk)
{
    (void)about;
    (void)kind;
    (void)walk;
    return remove(path);
}

static inline void scratch_remove(struct scratch *scratch)
{
    ck_assert_int_eq(nftw(scratch->root, scratch_remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static inline const char *scratch_path(struct scratch *scratch, const char *name)
{
    snprintf(scratch->path, sizeof scratch->path, "%s/%s", scratch->root, name);
    return scratch->path;
}

static inline void scratch_folder(struct scratch *scratch, const char *name)
{
    ck_assert_int_eq(mkdir(scratch_path(scratch, name), 0755), 0);
}

/* Write a file, after the folders that its name asks for. */
static inline void scratch_write(struct scratch *scratch, const char *name,
                                 const void *bytes, size_t n)
{
    char path[512];
    snprintf(path, sizeof path, "%s", scratch_path(scratch, name));
    for (char *c = path + strlen(scratch->root) + 1; *c != '\0'; c++) {
        if (*c == '/') {
            *c = '\0';
            mkdir(path, 0755); /* may be there */
            *c = '/';
        }
    }
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, n, file), n);
    ck_assert_int_eq(fclose(file), 0);
}

static inline void scratch_text(struct scratch *scratch, const char *name,
                                const char *text)
{
    scratch_write(scratch, name, text, strlen(text));
}

/* Write a safetensors file with one F32 tensor [n_out, n_in] of that name. */
static inline void scratch_weights(struct scratch *scratch, const char *name,
                                   const char *tensor, size_t n_out, size_t n_in)
{
    uint8_t bytes[2048] = {0};
    const size_t n_data = n_out * n_in * sizeof(float);
    const uint64_t n_header = 248;
    memcpy(bytes, &n_header, sizeof n_header);
    memset(bytes + 8, ' ', n_header);
    int n = snprintf(
        (char *)bytes + 8, n_header,
        "{\"%s\":{\"dtype\":\"F32\",\"shape\":[%zu,%zu],\"data_offsets\":[0,%zu]}}",
        tensor, n_out, n_in, n_data);
    ck_assert(n > 0 && (size_t)n < n_header && 8 + n_header + n_data <= sizeof bytes);
    bytes[8 + n] = ' '; /* over snprintf's NUL */
    scratch_write(scratch, name, bytes, 8 + n_header + n_data);
}

#define SCRATCH_CONFIG \
    "{\"layer\": {\"kind\": \"routing_mha\", \"embedding_dim\": 4, \"n_heads\": 2}}"
#define SCRATCH_SCORE "{\"layer\": {\"kind\": \"routing_score\"}}"

/* A good version of the model that SCRATCH_CONFIG describes; name: "<model>/<version>". */
static inline void scratch_version(struct scratch *scratch, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/model.safetensors", name);
    scratch_weights(scratch, path, "project_out.weight", 4, 4);
}

static inline struct ad_repository *scratch_load(const struct scratch *scratch)
{
    struct ad_repository *repository = NULL;
    struct ad_error error = {0};
    ck_assert_msg(ad_repository_load(scratch->root, NULL, &repository, &error) == AD_OK,
                  "%s", error.message);
    return repository;
}

static inline const struct ad_model *scratch_find(const struct ad_repository *repository,
                                                  const char *name)
{
    const struct ad_model *model = ad_repository_find(repository, name, strlen(name));
    ck_assert_msg(model != NULL, "no model %s", name);
    return model;
}

/* reason is "<root folder>/<expected>", or begins so when expected ends in "...". */
static inline void scratch_check_reason(struct scratch *scratch, const char *reason,
                                        const char *expected)
{
    ck_assert_ptr_nonnull(reason);
    char text[1024];
    snprintf(text, sizeof text, "%s", scratch_path(scratch, expected));
    const size_t n = strlen(text);
    if (n > 3 && strcmp(text + n - 3, "...") == 0) {
        ck_assert_msg(strncmp(reason, text, n - 3) == 0, "%s is not %s", reason, text);
    } else {
        ck_assert_str_eq(reason, text);
    }
}

/* Acquire and release: the version that comes, or the message. */
static inline void scratch_check_acquire(const struct ad_model *model,
                                         const char *version, enum ad_status expected,
                                         const char *text)
{
    struct ad_version *acquired = NULL;
    struct ad_error error = {0};
    ck_assert_int_eq(ad_model_acquire(model, version, version ? strlen(version) : 0,
                                      &acquired, &error),
                     expected);
    if (expected == AD_OK) {
        ck_assert_str_eq(acquired->text, text);
        ck_assert_ptr_nonnull(acquired->layer);
    } else {
        ck_assert_str_eq(error.message, text);
        ck_assert_ptr_null(acquired);
    }
    ad_version_release(acquired);
}

#endif
