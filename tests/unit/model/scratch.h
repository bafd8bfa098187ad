/* scratch.h - a model repository in a scratch folder, for one test. */
#ifndef TESTS_UNIT_MODEL_SCRATCH_H
#define TESTS_UNIT_MODEL_SCRATCH_H

#include "model/repository.h"

#include <check.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
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

/* Let a file be as old as that, so that its time can be relied on. */
static inline void scratch_age(struct scratch *scratch, const char *name, time_t seconds)
{
    const struct timespec then = {.tv_sec = time(NULL) - seconds};
    const struct timespec times[2] = {then, then};
    ck_assert_int_eq(utimensat(AT_FDCWD, scratch_path(scratch, name), times, 0), 0);
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

static inline struct ad_repository *
scratch_open(const struct ad_repository_config *config)
{
    struct ad_repository *repository = NULL;
    struct ad_error error = {0};
    ck_assert_msg(ad_repository_open(config, &repository, &error) == AD_OK, "%s",
                  error.message);
    return repository;
}

static inline struct ad_repository *scratch_load(const struct scratch *scratch)
{
    return scratch_open(&(struct ad_repository_config){.root = scratch->root});
}

/* One model as it is seen; to be reset. */
static inline struct ad_view scratch_view(struct ad_repository *repository,
                                          const char *model)
{
    struct ad_view view;
    ck_assert_int_eq(ad_repository_view(repository, model, &view, NULL), AD_OK);
    ck_assert_msg(!model || view.n_models == 1, "no model %s", model);
    return view;
}

static inline size_t scratch_n_models(struct ad_repository *repository)
{
    struct ad_view view = scratch_view(repository, NULL);
    const size_t n = view.n_models;
    ad_view_reset(&view);
    return n;
}

static inline size_t scratch_n_versions(struct ad_repository *repository,
                                        const char *model)
{
    struct ad_view view = scratch_view(repository, model);
    const size_t n = view.models[0].n_versions;
    ad_view_reset(&view);
    return n;
}

/* The reason of a model, or of one of its versions; "" when there is none. Valid until called again
 * four times. */
static inline const char *scratch_reason(struct ad_repository *repository,
                                         const char *model, const char *version)
{
    static char texts[4][1024];
    static size_t next;
    struct ad_view view = scratch_view(repository, model);
    const char *reason = version ? NULL : view.models[0].reason;
    for (size_t i = 0; version && i < view.models[0].n_versions; i++) {
        if (strcmp(view.models[0].versions[i].text, version) == 0) {
            reason = view.models[0].versions[i].reason;
        }
    }
    char *text = texts[next++ % 4];
    snprintf(text, sizeof texts[0], "%s", reason ? reason : "");
    ad_view_reset(&view);
    return text;
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

static inline enum ad_status scratch_acquire(struct ad_repository *repository,
                                             const char *model, const char *version,
                                             struct ad_version **acquired,
                                             struct ad_error *error)
{
    *acquired = NULL;
    return ad_repository_acquire(repository, model, strlen(model), version,
                                 version ? strlen(version) : 0, acquired, error);
}

/* Acquire and release: the version that comes, or the message. */
static inline void scratch_check_acquire(struct ad_repository *repository,
                                         const char *model, const char *version,
                                         enum ad_status expected, const char *text)
{
    struct ad_version *acquired;
    struct ad_error error = {0};
    ck_assert_msg(scratch_acquire(repository, model, version, &acquired, &error) ==
                      expected,
                  "%s", error.message);
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
