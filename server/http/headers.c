/* headers.c - what the headers of a request say about its body. Pure; any thread. */
#include "http/headers.h"
#include "http/coding.h"

#include <string.h>
#include <strings.h>

#define JSON_LENGTH "Inference-Header-Content-Length"

/* A name with a blank before the colon is taken for an unknown header by the library;
 * a proxy may read it as the known one. */
static bool is_token(const char *name)
{
    static const char special[] = "!#$%&'*+-.^_`|~";
    for (const char *at = name; *at; at++) {
        bool alphanumeric = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
                            (*at >= '0' && *at <= '9');
        if (!alphanumeric && !strchr(special, *at)) {
            return false;
        }
    }
    return name[0] != '\0';
}

/* May a header come again? Codings add up, so two of them are never one. */
enum repetition { NEVER, IF_EQUAL, FIRST_COUNTS, LAST_COUNTS, ADDS_UP };

/* The headers that are known, and where their values go. */
static const struct {
    const char *name;
    size_t offset; /* in struct ad_headers */
    enum repetition repeated;
} known[] = {
#define AT(member) offsetof(struct ad_headers, member)
    {"Host", AT(host), NEVER},
    {"Content-Length", AT(content_length), IF_EQUAL},
    {"Transfer-Encoding", AT(transfer_encoding), NEVER},
    {"Content-Encoding", AT(content_encoding), ADDS_UP},
    {JSON_LENGTH, AT(json_length), IF_EQUAL},
    {"Expect", AT(expect), IF_EQUAL},
    {"Accept", AT(accept), FIRST_COUNTS},
    {"Accept-Encoding", AT(accept_encoding), FIRST_COUNTS},
    {"Authorization", AT(authorization), IF_EQUAL},
    {"X-API-Key", AT(api_key), IF_EQUAL},
    {"Origin", AT(origin), IF_EQUAL},
    {"Access-Control-Request-Method", AT(requested_method), IF_EQUAL},
    {"Access-Control-Request-Headers", AT(requested_headers), FIRST_COUNTS},
    {"Forwarded", AT(forwarded), LAST_COUNTS},
    {"X-Forwarded-For", AT(forwarded_for), LAST_COUNTS},
    {"X-Sequence-Id", AT(sequence_id), IF_EQUAL},
    {"X-Request-Id", AT(request_id), FIRST_COUNTS},
    {"traceparent", AT(traceparent), FIRST_COUNTS},
    {"Server-Timing", AT(server_timing), FIRST_COUNTS},
#undef AT
};

/* One more value of a header that is known, by its place in the table. */
static void note_known(struct ad_headers *headers, size_t index, const char *value)
{
    const char **slot = (void *)((char *)headers + known[index].offset);
    enum repetition repeated = known[index].repeated;
    if (!*slot || repeated == LAST_COUNTS) {
        *slot = value;
    } else if (repeated == ADDS_UP) {
        *slot = "several codings";
    } else if (repeated == NEVER || (repeated == IF_EQUAL && strcmp(*slot, value) != 0)) {
        headers->repeated = known[index].name;
    }
}

void ad_headers_note(struct ad_headers *headers, const char *name, const char *value)
{
    if (!is_token(name)) {
        headers->bad_name = name;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcasecmp(name, known[i].name) == 0) {
            note_known(headers, i, value ? value : "");
            return;
        }
    }
}

bool ad_headers_brings_key(const char *name)
{
    return strcasecmp(name, "Authorization") == 0 || strcasecmp(name, "X-API-Key") == 0;
}

enum ad_status ad_headers_check_framing(const struct ad_headers *headers,
                                        const char *version, struct ad_error *error)
{
    const char *coding = headers->transfer_encoding;
    uint64_t length = 0;
    if (headers->bad_name) {
        return ad_fail(error, AD_INVALID, "header name '%.64s' is not valid",
                       headers->bad_name);
    }
    if (headers->repeated) {
        return ad_fail(error, AD_INVALID, "header %s came more than once",
                       headers->repeated);
    }
    if (coding && headers->content_length) {
        return ad_fail(error, AD_INVALID,
                       "Transfer-Encoding and Content-Length must not come together");
    }
    if (coding && strcasecmp(coding, "chunked") != 0) {
        return ad_fail(error, AD_UNSUPPORTED,
                       "Transfer-Encoding: expected chunked, got '%.64s'", coding);
    }
    if (coding && strcmp(version, "HTTP/1.0") == 0) {
        return ad_fail(error, AD_INVALID, "HTTP/1.0 has no Transfer-Encoding");
    }
    if (headers->content_length && !ad_headers_number(headers->content_length, &length)) {
        return ad_fail(error, AD_INVALID,
                       "Content-Length: expected an unsigned integer, got '%.64s'",
                       headers->content_length);
    }
    return AD_OK;
}

enum ad_status ad_headers_check_infer(const struct ad_headers *headers,
                                      struct ad_error *error)
{
    const char *encoding = headers->content_encoding;
    enum ad_coding coding;
    uint64_t length = 0;
    if (encoding && !ad_coding_parse(encoding, &coding)) {
        return ad_fail(error, AD_MEDIA,
                       "Content-Encoding: expected one of " AD_CODINGS
                       ", identity, got '%.64s'",
                       encoding);
    }
    if (!headers->json_length) {
        return AD_OK;
    }
    if (!ad_headers_number(headers->json_length, &length)) {
        return ad_fail(error, AD_INVALID,
                       JSON_LENGTH ": expected an unsigned integer, got '%.64s'",
                       headers->json_length);
    }
    return AD_OK;
}

enum ad_status ad_headers_check_uncoded(const struct ad_headers *headers,
                                        struct ad_error *error)
{
    const char *encoding = headers->content_encoding;
    enum ad_coding coding;
    if (!encoding ||
        (ad_coding_parse(encoding, &coding) && coding == AD_CODING_IDENTITY)) {
        return AD_OK;
    }
    return ad_fail(error, AD_MEDIA,
                   "Content-Encoding: expected " AD_NO_CODINGS
                   " or none for this path, got '%.64s'",
                   encoding);
}

bool ad_headers_number(const char *value, uint64_t *number)
{
    uint64_t sum = 0;
    /* white space behind a value is not part of it (RFC 9110, 5.5) */
    size_t n = strcspn(value, " \t");
    if (n == 0 || value[n + strspn(value + n, " \t")] != '\0') {
        return false;
    }
    for (const char *at = value; at < value + n; at++) {
        if (*at < '0' || *at > '9') {
            return false;
        }
        uint64_t digit = (uint64_t)(*at - '0');
        if (sum > (UINT64_MAX - digit) / 10) {
            return false;
        }
        sum = sum * 10 + digit;
    }
    *number = sum;
    return true;
}

bool ad_headers_body(const struct ad_headers *headers, uint64_t *length)
{
    *length = 0;
    if (headers->transfer_encoding) {
        return true;
    }
    return headers->content_length &&
           ad_headers_number(headers->content_length, length) && *length > 0;
}
