/* fuzz_headers.c - the first line is the target of a request, the next ones are its headers as the HTTP
 * library hands them over: each of their values is read, or refused with a line that says why. */
#include "base/trace.h"
#include "base/utf8.h"
#include "http/accept.h"
#include "http/coding.h"
#include "http/exposition.h"
#include "http/headers.h"
#include "http/path.h"
#include "http/request_id.h"
#include "http/routes.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "headers: %s\n", what);
        abort();
    }
}

/* Success has no message, and a failure one of a line. */
static void check_error(enum ad_status status, struct ad_error *error)
{
    size_t n = strlen(error->message);
    require(status == error->status, "another status");
    require(status != AD_INTERNAL, error->message);
    require((n > 0) == (status != AD_OK), "a message and no failure, or none");
    for (size_t i = 0; i < n;) {
        size_t length = ad_utf8_length(error->message + i, n - i);
        require(length > 0 && !ad_utf8_is_control(error->message + i, length),
                "more than a line");
        i += length;
    }
    ad_error_clear(error);
}

/* What is before the end of the line, of which *rest is behind; NULL: no line is left. */
static char *take_line(char **rest)
{
    char *line = *rest, *end = line ? strchr(line, '\n') : NULL;
    *rest = end ? end + 1 : NULL;
    if (end) {
        *end = '\0';
    }
    return line;
}

static void check_target(const char *raw)
{
    struct ad_path path;
    struct ad_target target;
    struct ad_error error = {.status = AD_OK};
    enum ad_status status = ad_path_parse(&path, raw, &error);
    check_error(status, &error);
    if (status) {
        require(status == AD_INVALID || status == AD_NOT_FOUND, "another failure");
        return;
    }
    require(path.n_segments <= AD_PATH_MAX_SEGMENTS, "too many segments");
    for (size_t i = 0; i < path.n_segments; i++) {
        bool is_id = i > 0 && strcmp(path.segments[i - 1], "sequences") == 0;
        require(is_id || !strpbrk(path.segments[i], "/\n\r\t"), "more than a segment");
        require(is_id || strcmp(path.segments[i], "..") != 0, "another folder");
    }
    const struct ad_route *route = ad_route_find(&path, &target);
    if (route) {
        require(ad_route_allow(route)[0] != '\0', "no verb");
        check_error(ad_route_check_verb(route, raw, &error), &error);
    }
}

static void check_framing(const struct ad_headers *headers)
{
    struct ad_error error = {.status = AD_OK};
    enum ad_status status = ad_headers_check_framing(headers, "HTTP/1.1", &error);
    uint64_t length = 0;
    check_error(status, &error);
    if (status == AD_OK) {
        require(!headers->transfer_encoding || !headers->content_length, "two lengths");
        require(ad_headers_body(headers, &length) ||
                    (length == 0 && !headers->transfer_encoding),
                "a body of no length");
    }
    check_error(ad_headers_check_infer(headers, &error), &error);
    status = ad_headers_check_uncoded(headers, &error);
    check_error(status, &error);
    require(status || ad_headers_check_infer(headers, NULL) != AD_MEDIA,
            "more codings for all than for tensors");
}

static void check_lists(const struct ad_headers *headers)
{
    const char *list = headers->accept, *end = list ? list + strlen(list) : NULL;
    struct ad_accepted accepted;
    while (ad_accept_next(&list, &accepted)) {
        require(accepted.quality >= 0 && accepted.quality <= AD_MAX_QUALITY, "a quality");
        require(accepted.name.n > 0 && accepted.name.text + accepted.name.n <= end,
                "a name outside of the list");
        require(accepted.version.n == 0 ||
                    accepted.version.text + accepted.version.n <= end,
                "a version outside of the list");
    }
    (void)ad_exposition_negotiate(headers->accept);
    const char *name = ad_coding_name(ad_coding_negotiate(headers->accept_encoding));
    require(!name || strchr(headers->accept_encoding, '*') ||
                strcasestr(headers->accept_encoding, name) ||
                strcasestr(headers->accept_encoding, "x-gzip"),
            "a coding that nobody listed");
}

static void check_names(const struct ad_headers *headers)
{
    static struct ad_request_ids ids;
    char id[AD_REQUEST_ID_SIZE];
    struct ad_trace trace;
    ad_request_id_choose(&ids, headers->request_id, id);
    size_t n = strlen(id);
    require(n > 0 && n < sizeof id, "the length of an id");
    for (size_t i = 0; i < n; i++) {
        require(id[i] >= ' ' && id[i] < 0x7f, "an id that cannot be printed");
    }
    if (ad_trace_parse(headers->traceparent, &trace)) {
        static const uint8_t zeros[AD_TRACE_ID_BYTES];
        require(memcmp(trace.trace_id, zeros, AD_TRACE_ID_BYTES) != 0 &&
                    memcmp(trace.span_id, zeros, AD_SPAN_ID_BYTES) != 0,
                "a trace without a name");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ad_headers headers = {.host = NULL};
    char *text = malloc(size + 1), *rest = text;
    require(text != NULL, "no memory");
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    check_target(take_line(&rest));
    for (char *line; (line = take_line(&rest)) != NULL;) {
        char *value = strchr(line, ':');
        if (value) {
            *value++ = '\0';
            value += strspn(value, " \t");
        }
        ad_headers_note(&headers, line, value);
    }
    check_framing(&headers);
    check_lists(&headers);
    check_names(&headers);
    free(text);
    return 0;
}
