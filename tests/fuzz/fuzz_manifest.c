/* fuzz_manifest.c - any bytes as a config.json: read or refused with a reason, never more. */
#include "model/manifest.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition) {
        abort();
    }
}

static void check_read(const struct ad_manifest *manifest, const struct ad_error *error)
{
    require(error->status == AD_OK);
    require(manifest->spec.size == sizeof manifest->spec);
    require(manifest->file[0] != '\0' && !strchr(manifest->file, '/'));
    require(strlen(manifest->prefix) < ATTN_NAME_SIZE);
    require(manifest->has_weights || manifest->n_names == 0);
    for (size_t i = 0; i < manifest->n_names; i++) {
        require(manifest->names[i].parameter[0] != '\0');
        require(manifest->names[i].file_name[0] != '\0');
    }
}

static void check_refused(const struct ad_manifest *manifest,
                          const struct ad_error *error)
{
    require(error->status == AD_INVALID);
    require(strncmp(error->message, "config.json: ", 13) == 0);
    require(error->message[13] != '\0' && !strpbrk(error->message, "\n\r"));
    require(!manifest->file && !manifest->names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ad_manifest manifest;
    struct ad_error error = {0};
    const char *text = (const char *)data;
    if (ad_manifest_parse(&manifest, text, size, "config.json", &error) == AD_OK) {
        check_read(&manifest, &error);
    } else {
        check_refused(&manifest, &error);
    }
    ad_manifest_reset(&manifest);
    return 0;
}
