/* accept.c - what a client says that it takes: the lists of Accept and Accept-Encoding. Pure; any
 * thread. */
#include "http/accept.h"

#include <string.h>
#include <strings.h>

/* What is left of a header's value. */
struct cursor {
    const char *at;
};

bool ad_word_is(struct ad_word word, const char *text)
{
    return word.n == strlen(text) && strncasecmp(word.text, text, word.n) == 0;
}

static void skip_blanks(struct cursor *cursor)
{
    cursor->at += strspn(cursor->at, " \t");
}

/* Up to a delimiter or a blank. */
static struct ad_word take_word(struct cursor *cursor)
{
    skip_blanks(cursor);
    struct ad_word word = {cursor->at, strcspn(cursor->at, " \t,;=\"")};
    cursor->at += word.n;
    skip_blanks(cursor);
    return word;
}

/* A word or a quoted string; of the latter what is between the quotes. */
static struct ad_word take_value(struct cursor *cursor)
{
    skip_blanks(cursor);
    if (*cursor->at != '"') {
        return take_word(cursor);
    }
    struct ad_word value = {cursor->at + 1, 0};
    for (cursor->at++; *cursor->at && *cursor->at != '"'; cursor->at++) {
        cursor->at += cursor->at[0] == '\\' && cursor->at[1] != '\0';
    }
    value.n = (size_t)(cursor->at - value.text);
    cursor->at += *cursor->at == '"';
    skip_blanks(cursor);
    return value;
}

/* "0", "0.5", "1.000": at most three digits behind the point. -1: none of these. */
static int quality_of(struct ad_word text)
{
    if (text.n == 0 || text.n > 5 || (text.text[0] != '0' && text.text[0] != '1') ||
        (text.n > 1 && text.text[1] != '.')) {
        return -1;
    }
    int quality = (text.text[0] - '0') * AD_MAX_QUALITY;
    int unit = AD_MAX_QUALITY / 10;
    for (size_t i = 2; i < text.n; i++, unit /= 10) {
        if (text.text[i] < '0' || text.text[i] > '9') {
            return -1;
        }
        quality += (text.text[i] - '0') * unit;
    }
    return quality <= AD_MAX_QUALITY ? quality : -1;
}

/* name;parameter=value;...;q=0.5 and the comma behind it. False: it is malformed. */
static bool take_one(struct cursor *cursor, struct ad_accepted *accepted)
{
    *accepted =
        (struct ad_accepted){.name = take_word(cursor), .quality = AD_MAX_QUALITY};
    while (*cursor->at == ';') {
        cursor->at++;
        struct ad_word name = take_word(cursor);
        struct ad_word value = {cursor->at, 0};
        if (*cursor->at == '=') {
            cursor->at++;
            value = take_value(cursor);
        }
        if (ad_word_is(name, "version")) {
            accepted->version = value;
        } else if (ad_word_is(name, "q")) {
            accepted->quality = quality_of(value);
        }
    }
    bool well_formed = accepted->name.n > 0 && accepted->quality >= 0 &&
                       (*cursor->at == ',' || *cursor->at == '\0');
    cursor->at += strcspn(cursor->at, ",");
    cursor->at += *cursor->at == ',';
    return well_formed;
}

bool ad_accept_next(const char **list, struct ad_accepted *accepted)
{
    struct cursor cursor = {*list ? *list : ""};
    bool found = false;
    while (!found && *cursor.at) {
        found = take_one(&cursor, accepted);
    }
    *list = cursor.at;
    return found;
}
