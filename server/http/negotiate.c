/* negotiate.c - which text format of metrics a client prefers. Pure; any thread. */
#include "http/accept.h"
#include "http/exposition.h"

/* How well the ranges fit a format. */
struct fit {
    int precision; /* 0: no range fits; 1: any type, 2: any subtype, 3: the type itself */
    int quality;
};

static int precision_of(const struct ad_accepted *range, const char *type,
                        const char *subtypes, const char *version)
{
    if (ad_word_is(range->name, "*/*")) {
        return 1;
    }
    if (ad_word_is(range->name, subtypes)) {
        return 2;
    }
    bool same_version = range->version.n == 0 || ad_word_is(range->version, version);
    return ad_word_is(range->name, type) && same_version ? 3 : 0;
}

/* The most precise range decides; of equal ones the best. */
static void improve(struct fit *fit, const struct ad_accepted *range, int precision)
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
    struct ad_accepted range;
    while (ad_accept_next(&accept, &range)) {
        improve(&open, &range,
                precision_of(&range, "application/openmetrics-text", "application/*",
                             "1.0.0"));
        improve(&plain, &range, precision_of(&range, "text/plain", "text/*", "0.0.4"));
    }
    /* Who names neither gets what everybody can read, and so does who wants nothing of ours. */
    bool better = open.quality > plain.quality ||
                  (open.quality == plain.quality && open.precision > plain.precision);
    return open.quality > 0 && better ? AD_OPENMETRICS_1_0 : AD_PROMETHEUS_0_0_4;
}
