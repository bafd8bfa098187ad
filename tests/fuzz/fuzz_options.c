/* fuzz_options.c - any bytes as the content of the file that --config names. */
#include "base/options_file.h"
#include "base/utf8.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds)
{
    if (!holds) {
        abort();
    }
}

/* One line of text, whatever the file held. */
static void check_message(const char *message)
{
    size_t n = strlen(message);
    check(n > 0);
    for (size_t i = 0; i < n;) {
        size_t length = ad_utf8_length(message + i, n - i);
        check(length > 0 && !ad_utf8_is_control(message + i, length));
        i += length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ad_options options;
    struct ad_options_reader reader;
    struct ad_error error;
    ad_error_clear(&error);
    ad_options_reader_init(&reader, &options, &error);
    enum ad_status status =
        ad_options_read_json(&reader, (const char *)data, size, "fuzz.json");
    check(status == AD_OK || status == AD_INVALID);
    check(error.status == status);
    if (status == AD_OK) {
        check(ad_options_set_defaults(&reader) == AD_OK);
        check(options.http_port <= 65535 && options.queue_size >= 1);
        check(options.http_address && options.log_level && options.log_format);
        check(options.action == AD_RUN && !options.config);
    } else {
        check_message(error.message);
    }
    ad_options_reset(&options);
    return 0;
}
