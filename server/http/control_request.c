/* control_request.c - what a client asks of the loader.
 *
 * Names end up in paths, so they are checked before anything else is done with them. Files come as
 * base64 and may be as large as a body: each is decoded where it was unescaped. Runs on an I/O
 * thread. */
#include "http/control_request.h"

#include "http/base64.h"
#include "http/json_reader.h"
#include "model/scan.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FILE_PREFIX "file:"
#define MAX_FILES 1024
#define MAX_FILE_NAME 255

static enum ad_status check_model(const char *model, struct ad_error *error)
{
    if (model[0] == '\0') {
        return ad_fail(error, AD_INVALID, "Model name cannot be empty");
    }
    if (!ad_scan_is_servable(model)) {
        return ad_fail(error, AD_INVALID,
                       "model name '%.64s': expected UTF-8 without '/' and control "
                       "characters, at most 255 bytes, not beginning with '.'",
                       model);
    }
    return AD_OK;
}

/* "1/model.safetensors": a version and the plain name of a file in its folder. */
static bool is_file_path(const char *path)
{
    char version[24] = "";
    const size_t n = strcspn(path, "/");
    if (path[n] != '/' || n >= sizeof version) {
        return false;
    }
    memcpy(version, path, n);
    const char *name = path + n + 1;
    return ad_scan_version(version) != 0 && name[0] != '\0' && !strchr(name, '/') &&
           strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
           strlen(name) <= MAX_FILE_NAME;
}

/* Room for one more file, zeroed; NULL: out of memory. */
static struct ad_override_file *add_file(struct ad_command *command)
{
    struct ad_override_file *files =
        reallocarray(command->files, command->n_files + 1, sizeof *command->files);
    if (!files) {
        return NULL;
    }
    command->files = files;
    files[command->n_files] = (struct ad_override_file){NULL, NULL, 0};
    return &files[command->n_files++];
}

/* Whether there is no such file yet, and it can be one. */
static bool check_file(struct ad_reader *reader, const struct ad_command *command,
                       const char *path)
{
    if (!is_file_path(path)) {
        ad_reader_fail(reader,
                       "parameter '%.64s': expected file:<version>/<name>, of a file in "
                       "the version's folder",
                       reader->key);
    }
    if (command->n_files >= MAX_FILES) {
        ad_reader_fail(reader, "expected at most %d files", MAX_FILES);
    }
    for (size_t i = 0; i < command->n_files; i++) {
        if (strcmp(command->files[i].path, path) == 0) {
            ad_reader_fail(reader, "parameter '%.64s' is given twice", reader->key);
        }
    }
    return !reader->status;
}

static void read_file(struct ad_reader *reader, struct ad_command *command)
{
    const char *path = reader->key + strlen(FILE_PREFIX);
    if (!check_file(reader, command, path)) {
        return;
    }
    struct ad_override_file *file = add_file(command);
    if (file) {
        file->path = strdup(path);
    }
    if (!file || !file->path) {
        command->n_files -= file != NULL; /* a file without a path is none */
        ad_reader_no_memory(reader);
        return;
    }
    size_t n = 0;
    char *text = ad_reader_string(reader, &n);
    file->bytes = text;
    if (text && !ad_base64_decode(text, n, &file->n_bytes)) {
        ad_reader_fail(reader, "parameter '%.64s': expected base64", reader->key);
    }
}

static void read_config(struct ad_reader *reader, struct ad_command *command)
{
    if (command->config) {
        ad_reader_fail(reader, "parameter 'config' is given twice");
        return;
    }
    command->config = ad_reader_string(reader, &command->n_config);
}

static void read_parameter(struct ad_reader *reader, struct ad_command *command)
{
    const bool loads = command->kind == AD_COMMAND_LOAD;
    if (loads && strcmp(reader->key, "config") == 0) {
        read_config(reader, command);
    } else if (loads && strncmp(reader->key, FILE_PREFIX, strlen(FILE_PREFIX)) == 0) {
        read_file(reader, command);
    } else if (!loads && strcmp(reader->key, "unload_dependents") == 0) {
        (void)ad_reader_bool(reader); /* no model here depends on another */
    } else {
        ad_reader_fail(reader, "unknown parameter '%.64s', expected %s", reader->key,
                       loads ? "config or file:<version>/<name>" : "unload_dependents");
    }
}

static void read_body(struct ad_reader *reader, struct ad_command *command)
{
    bool seen = false;
    for (bool more = ad_reader_open(reader); more; more = ad_reader_more(reader)) {
        if (seen || strcmp(reader->key, "parameters") != 0) {
            ad_reader_fail(reader, "unknown member '%.64s', expected one: parameters",
                           reader->key);
            return;
        }
        seen = true;
        for (bool inner = ad_reader_open(reader); inner; inner = ad_reader_more(reader)) {
            read_parameter(reader, command);
        }
    }
    ad_reader_end(reader);
    if (command->n_files > 0 && !command->config) {
        ad_reader_fail(reader, "files need the parameter 'config'");
    }
}

enum ad_status ad_control_request_parse(enum ad_command_kind kind, const char *model,
                                        const char *body, size_t n,
                                        struct ad_command **command,
                                        struct ad_error *error)
{
    enum ad_status status = check_model(model, error);
    if (status) {
        return status;
    }
    struct ad_command *created = ad_command_create(kind);
    if (created) {
        created->model = strdup(model);
    }
    if (!created || !created->model) {
        ad_command_free(created);
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    struct ad_reader reader;
    ad_reader_init(&reader, body, n, error);
    if (!ad_reader_is_empty(&reader)) {
        read_body(&reader, created);
    }
    if (reader.status) {
        ad_command_free(created);
        return reader.status;
    }
    *command = created;
    return AD_OK;
}
