/* fuzz_peek.c - the bytes are the JSON part of a request. Where they are JSON, what is found in them
 * before they are decoded is what jansson finds there, or nothing. */
#include "codec/peek.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT64_MAX /* it is left as it was */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition, const char *what, const char *name)
{
    if (!condition) {
        fprintf(stderr, "%s: %s\n", name, what);
        abort();
    }
}

/* escaped: a name could be written so that it is not seen. */
static void check(const json_t *root, const char *name, uint64_t found, bool escaped)
{
    const json_t *value = json_object_get(json_object_get(root, "parameters"), name);
    json_int_t number = json_integer_value(value);
    if (found != NONE) {
        require(json_is_integer(value) && number >= 0 && found == (uint64_t)number,
                "not what it is", name);
        return;
    }
    /* -0 is an integer too */
    require(!json_is_integer(value) || number <= 0 || escaped, "not seen", name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ad_request request = {.timeout_us = NONE, .priority = NONE, .n_json = size};
    /* exactly as large, so that a read past the end is seen */
    request.body.data = malloc(size > 0 ? size : 1);
    require(request.body.data != NULL, "no memory", "body");
    memcpy(request.body.data, data, size);
    request.body.size = size;
    ad_peek_parameters(&request);
    /* jansson passes over bytes that are 0, which the decoder refuses */
    bool is_text = size > 0 && !memchr(data, '\0', size);
    json_t *root =
        is_text ? json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL)
                : NULL;
    if (root) {
        bool escaped = memchr(data, '\\', size) != NULL;
        check(root, "timeout", request.timeout_us, escaped);
        check(root, "priority", request.priority, escaped);
        json_decref(root);
    }
    free(request.body.data);
    return 0;
}
