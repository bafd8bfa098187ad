/* negotiate.c - which text format of metrics a client prefers. Pure; any thread. */
#include "http/exposition.h"

#include <string.h>
#include <strings.h>

#define MAX_QUALITY 1000 /* q=1, in thousandths */

/* What is left of a header's value. */
struct cursor {
    const char *at;
};

struct word {
    const char *text;
    size_t n;
};

/* One of the ranges that a client accepts: type;parameter=value;...;q=0.5 */
struct range {
    struct word type;
    struct word version; /* n is 0: not said */
    int quality;
    bool malformed;
};

/* How well the ranges fit a format. */
struct fit {
    int precision; /* 0: no range fits; 1: any type, 2: any subtype, 3: the type itself */
    int quality;
};

static bool is(struct word word, const char *text)
{
    return word.n == strlen(text) && strncasecmp(word.text, text, word.n) == 0;
}

static void skip_blanks(struct cursor *cursor)
{
    cursor->at += strspn(cursor->at, " \t");
}

/* Up to a delimiter or a blank. */
static struct word take_word(struct cursor *cursor)
{
    skip_blanks(cursor);
    struct word word = {cursor->at, strcspn(cursor->at, " \t,;=\"")};
    cursor->at += word.n;
    skip_blanks(cursor);
    return word;
}

/* A word or a quoted string; of the latter what is between the quotes. */
static struct word take_value(struct cursor *cursor)
{
    skip_blanks(cursor);
    if (*cursor->at != '"') {
        return take_word(cursor);
    }
    struct word value = {cursor->at + 1, 0};
    for (cursor->at++; *cursor->at && *cursor->at != '"'; cursor->at++) {
        cursor->at += cursor->at[0] == '\\' && cursor->at[1] != '\0';
    }
    value.n = (size_t)(cursor->at - value.text);
    cursor->at += *cursor->at == '"';
    skip_blanks(cursor);
    return value;
}

/* "0", "0.5", "1.000": at most three digits behind the point. -1: none of these. */
static int quality_of(struct word text)
{
    if (text.n == 0 || text.n > 5 || (text.text[0] != '0' && text.text[0] != '1') ||
        (text.n > 1 && text.text[1] != '.')) {
        return -1;
    }
    int quality = (text.text[0] - '0') * MAX_QUALITY;
    int unit = MAX_QUALITY / 10;
    for (size_t i = 2; i < text.n; i++, unit /= 10) {
        if (text.text[i] < '0' || text.text[i] > '9') {
            return -1;
        }
        quality += (text.text[i] - '0') * unit;
    }
    return quality <= MAX_QUALITY ? quality : -1;
}

static struct range take_range(struct cursor *cursor)
{
    struct range range = {.type = take_word(cursor), .quality = MAX_QUALITY};
    while (*cursor->at == ';') {
        cursor->at++;
        struct word name = take_word(cursor);
        struct word value = {cursor->at, 0};
        if (*cursor->at == '=') {
            cursor->at++;
            value = take_value(cursor);
        }
        if (is(name, "version")) {
            range.version = value;
        } else if (is(name, "q")) {
            range.quality = quality_of(value);
        }
    }
    range.malformed = range.quality < 0 || (*cursor->at != ',' && *cursor->at != '\0');
    cursor->at += strcspn(cursor->at, ",");
    cursor->at += *cursor->at == ',';
    return range;
}

static int precision_of(const struct range *range, const char *type, const char *subtypes,
                        const char *version)
{
    if (is(range->type, "*/*")) {
        return 1;
    }
    if (is(range->type, subtypes)) {
        return 2;
    }
    bool same_version = range->version.n == 0 || is(range->version, version);
    return is(range->type, type) && same_version ? 3 : 0;
}

/* The most precise range decides; of equal ones the best. */
static void improve(struct fit *fit, const struct range *range, int precision)
{
    bool equal = precision > 0 && precision == fit->precision;
    if (precision > fit->precision || (equal && range->quality > fit->quality)) {
        *fit = (struct fit){precision, range->quality};
    }
}

enum ad_exposition_format ad_exposition_negotiate(const char *accept)
{
    struct fit open = {0, 0};
    struct fit plain = {0, 0};
    struct cursor cursor = {accept ? accept : ""};
    while (*cursor.at) {
        struct range range = take_range(&cursor);
        if (!range.malformed) {
            improve(&open, &range,
                    precision_of(&range, "application/openmetrics-text", "application/*",
                                 "1.0.0"));
            improve(&plain, &range,
                    precision_of(&range, "text/plain", "text/*", "0.0.4"));
        }
    }
    /* Who names neither gets what everybody can read, and so does who wants nothing of ours. */
    bool better = open.quality > plain.quality ||
                  (open.quality == plain.quality && open.precision > plain.precision);
    return open.quality > 0 && better ? AD_OPENMETRICS_1_0 : AD_PROMETHEUS_0_0_4;
}
