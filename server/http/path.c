/* path.c - the raw path of a request -> its decoded segments. Pure; any thread. */
#include "http/path.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

/* Skip the scheme and authority of an absolute URL; a plain path is returned as it is. */
static const char *skip_authority(const char *raw)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        size_t n = strlen(schemes[i]);
        if (strncasecmp(raw, schemes[i], n) == 0) {
            const char *slash = strchr(raw + n, '/');
            return slash ? slash : "/";
        }
    }
    return raw;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte at raw, which may be an escape; *n_taken says how much of raw it took. -1:
 * bad escape. */
static int decode_byte(const char *raw, size_t n, size_t *n_taken)
{
    *n_taken = 1;
    if (raw[0] != '%') {
        return (unsigned char)raw[0];
    }
    if (n < 3 || hex_value(raw[1]) < 0 || hex_value(raw[2]) < 0) {
        return -1;
    }
    *n_taken = 3;
    return hex_value(raw[1]) * 16 + hex_value(raw[2]);
}

/* Names of models and versions become those of files; ids do not. */
static bool is_forbidden(int byte, bool is_id)
{
    return is_id ? byte <= 0 : byte < 0x20 || byte == '/' || byte == 0x7f;
}

static enum ad_status decode_segment(char segment[AD_PATH_SEGMENT_SIZE], const char *raw,
                                     size_t n, bool is_id, struct ad_error *error)
{
    int shown = (int)(n > 64 ? 64 : n);
    size_t length = 0;
    for (size_t i = 0; i < n;) {
        size_t n_taken = 0;
        int byte = decode_byte(raw + i, n - i, &n_taken);
        if (is_forbidden(byte, is_id)) {
            return ad_fail(error, AD_INVALID,
                           "path segment '%.*s': bad or forbidden escape '%.*s'", shown,
                           raw, (int)(n - i < 3 ? n - i : 3), raw + i);
        }
        if (length + 1 >= AD_PATH_SEGMENT_SIZE) {
            return ad_fail(error, AD_NOT_FOUND,
                           "Not Found: path segment '%.*s...' is longer than %d bytes",
                           shown, raw, AD_PATH_SEGMENT_SIZE - 1);
        }
        segment[length++] = (char)byte;
        i += n_taken;
    }
    segment[length] = '\0';
    if (!is_id && (strcmp(segment, ".") == 0 || strcmp(segment, "..") == 0)) {
        return ad_fail(error, AD_INVALID, "path segment '%.*s' is not allowed", shown,
                       raw);
    }
    return AD_OK;
}

/* Is the next segment the id of a sequence: .../models/M[/versions/V]/sequences/ID? */
static bool awaits_id(const struct ad_path *path)
{
    size_t n = path->n_segments;
    return (n == 4 || n == 6) && strcmp(path->segments[n - 1], "sequences") == 0;
}

enum ad_status ad_path_parse(struct ad_path *path, const char *raw,
                             struct ad_error *error)
{
    const char *at = skip_authority(raw);
    path->n_segments = 0;
    bool well_formed = at[0] == '/';
    if (well_formed && strcmp(at, "/v2/") == 0) {
        at = "/v2";
    }
    while (well_formed && at[0] == '/') {
        const char *start = at + 1;
        size_t n = strcspn(start, "/");
        well_formed = n > 0 && path->n_segments < AD_PATH_MAX_SEGMENTS;
        if (well_formed) {
            enum ad_status status = decode_segment(path->segments[path->n_segments],
                                                   start, n, awaits_id(path), error);
            if (status) {
                return status;
            }
            path->n_segments++;
            at = start + n;
        }
    }
    if (!well_formed) {
        return ad_fail(error, AD_NOT_FOUND, "Not Found: no such path: %.200s", raw);
    }
    return AD_OK;
}
