/* coding.c - codings as HTTP names them, and which one a client would like best. Pure; any thread. */
#include "http/coding.h"
#include "http/accept.h"

#include <stddef.h>
#include <string.h>

/* From the worst to the best where a client likes them equally. */
static const struct {
    enum ad_coding coding;
    const char *name, *alias;
} codings[] = {
    {AD_CODING_IDENTITY, "identity", "identity"},
    {AD_CODING_DEFLATE, "deflate", "deflate"},
    {AD_CODING_GZIP, "gzip", "x-gzip"},
    {AD_CODING_ZSTD, "zstd", "zstd"},
};

#define N_CODINGS (sizeof codings / sizeof codings[0])

/* Index of a coding; N_CODINGS: it is none of ours. */
static size_t find(struct ad_word name)
{
    size_t i = 0;
    while (i < N_CODINGS && !ad_word_is(name, codings[i].name) &&
           !ad_word_is(name, codings[i].alias)) {
        i++;
    }
    return i;
}

const char *ad_coding_name(enum ad_coding coding)
{
    const char *name = NULL;
    for (size_t i = 0; i < N_CODINGS; i++) {
        name = codings[i].coding == coding ? codings[i].name : name;
    }
    return coding == AD_CODING_IDENTITY ? NULL : name;
}

bool ad_coding_parse(const char *content_encoding, enum ad_coding *coding)
{
    /* white space around a value is not part of it (RFC 9110, 5.5) */
    struct ad_word name = {content_encoding + strspn(content_encoding, " \t"), 0};
    name.n = strlen(name.text);
    while (name.n > 0 && strchr(" \t", name.text[name.n - 1])) {
        name.n--;
    }
    size_t i = name.n > 0 ? find(name) : 0;
    *coding = i < N_CODINGS ? codings[i].coding : AD_CODING_IDENTITY;
    return i < N_CODINGS;
}

/* What a client thinks of a coding: first by quality, then by whether it names it. */
struct wish {
    int quality; /* -1: not said */
    bool named;
};

static bool is_better(struct wish a, struct wish b)
{
    return a.quality > b.quality || (a.quality == b.quality && a.named && !b.named);
}

enum ad_coding ad_coding_negotiate(const char *accept_encoding)
{
    struct wish wishes[N_CODINGS];
    struct wish others = {-1, false};
    struct ad_accepted accepted;
    size_t best = 0;
    for (size_t i = 0; i < N_CODINGS; i++) {
        wishes[i] = others;
    }
    while (ad_accept_next(&accept_encoding, &accepted)) {
        size_t i = find(accepted.name);
        if (i < N_CODINGS && accepted.quality > wishes[i].quality) {
            wishes[i] = (struct wish){accepted.quality, true};
        } else if (ad_word_is(accepted.name, "*")) {
            others.quality = accepted.quality;
        }
    }
    /* The asterisk stands for what is not named. Identity needs no mention, but who sends a list without
     * it likes anything in the list better. */
    for (size_t i = 0; i < N_CODINGS; i++) {
        wishes[i] = wishes[i].named ? wishes[i] : others;
    }
    wishes[0].quality = wishes[0].quality < 0 ? 0 : wishes[0].quality;
    for (size_t i = 1; i < N_CODINGS; i++) {
        bool as_good =
            !is_better(wishes[best], wishes[i]) && (best > 0 || wishes[i].named);
        bool wanted =
            wishes[i].quality > 0 && (as_good || is_better(wishes[i], wishes[best]));
        best = wanted ? i : best;
    }
    return codings[best].coding;
}
