/* fuzz_control.c - the bodies that operators send. The first byte says which: l to load a model, u to unload
 * one, g the settings of the log, i the index; of the first two the name of the model comes before the body,
 * up to the end of its line. What is read is what it may be, and what is refused has a reason of a line. */
#include "base/utf8.h"
#include "http/control_request.h"
#include "http/index_request.h"
#include "http/logging_request.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "control: %s\n", what);
        abort();
    }
}

/* Success has no message, and a failure one of a line. */
static void check_error(enum ad_status status, const struct ad_error *error)
{
    size_t n = strlen(error->message);
    require(status == error->status && (status == AD_OK || status == AD_INVALID),
            "another status");
    require((n > 0) == (status != AD_OK), "a message and no failure, or none");
    for (size_t i = 0; i < n;) {
        size_t length = ad_utf8_length(error->message + i, n - i);
        require(length > 0 && !ad_utf8_is_control(error->message + i, length),
                "more than a line");
        i += length;
    }
}

static void check_command(const struct ad_command *command, const char *model, size_t n)
{
    require(strcmp(command->model, model) == 0, "another model");
    require(model[0] != '.' && !strchr(model, '/'), "a model elsewhere");
    require(command->n_files == 0 || command->config, "files without their config");
    require(command->n_config <= n, "a config longer than the body");
    for (size_t i = 0; i < command->n_files; i++) {
        const struct ad_override_file *file = &command->files[i];
        const char *slash = strchr(file->path, '/');
        require(slash && slash[1] != '\0' && !strchr(slash + 1, '/') &&
                    strcmp(slash + 1, "..") != 0 && slash > file->path &&
                    strspn(file->path, "0123456789") == (size_t)(slash - file->path),
                "a file elsewhere");
        require(file->n_bytes <= n, "a file longer than the body");
        volatile char sum = 0; /* reading it is the sanitizers' chance */
        for (size_t j = 0; j < file->n_bytes; j++) {
            sum = (char)(sum + ((const char *)file->bytes)[j]);
        }
    }
}

static void fuzz_command(enum ad_command_kind kind, const char *text, size_t n)
{
    struct ad_error error = {.status = AD_OK};
    struct ad_command *command = NULL;
    const char *end = n > 0 ? memchr(text, '\n', n) : NULL;
    size_t n_model = end ? (size_t)(end - text) : n;
    char *model = strndup(n > 0 ? text : "", n_model);
    require(model != NULL, "no memory");
    const char *body = end ? end + 1 : NULL;
    size_t n_body = end ? n - n_model - 1 : 0;
    enum ad_status status =
        ad_control_request_parse(kind, model, body, n_body, &command, &error);
    check_error(status, &error);
    require((command != NULL) == (status == AD_OK), "a command and a failure");
    if (command) {
        check_command(command, model, n_body);
    }
    ad_command_free(command);
    free(model);
}

static void fuzz_logging(const char *text, size_t n)
{
    struct ad_error error = {.status = AD_OK};
    struct ad_log_change change = {.given = 0};
    enum ad_status status = ad_logging_request_parse(text, n, &change, &error);
    check_error(status, &error);
    if (status) {
        return;
    }
    require(memchr(change.to.file, '\0', sizeof change.to.file) != NULL, "a long name");
    require(change.given < 2 * AD_LOG_GIVES_STYLE, "another setting");
    struct ad_buffer buffer;
    ad_buffer_init(&buffer);
    struct ad_json json = ad_json_to(&buffer);
    ad_logging_write(&json, &change.to);
    require(ad_json_ok(&json), "no memory");
    if (change.given == 2 * AD_LOG_GIVES_STYLE - 1) { /* what is written can be read */
        struct ad_log_change again = {.given = 0};
        require(ad_logging_request_parse(buffer.data, buffer.size, &again, NULL) ==
                        AD_OK &&
                    again.given == change.given &&
                    strcmp(again.to.file, change.to.file) == 0 &&
                    again.to.verbose_level == change.to.verbose_level &&
                    again.to.style == change.to.style,
                "other settings");
    }
    ad_buffer_reset(&buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ad_error error = {.status = AD_OK};
    bool ready_only = false;
    if (size == 0) {
        return 0;
    }
    /* exactly as large, so that a read past the end is seen */
    size_t n = size - 1;
    char *text = malloc(n > 0 ? n : 1);
    require(text != NULL, "no memory");
    memcpy(text, data + 1, n);
    switch (data[0]) {
    case 'l':
        fuzz_command(AD_COMMAND_LOAD, text, n);
        break;
    case 'u':
        fuzz_command(AD_COMMAND_UNLOAD, text, n);
        break;
    case 'g':
        fuzz_logging(text, n);
        break;
    case 'i':
        check_error(ad_index_request_parse(text, n, &ready_only, &error), &error);
        break;
    default:
        break;
    }
    free(text);
    return 0;
}
