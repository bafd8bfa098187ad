/* options_table.h - the rows that all sources of options, --help and their checks share. */
#ifndef AD_BASE_OPTIONS_TABLE_H
#define AD_BASE_OPTIONS_TABLE_H

#include "base/options.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ad_option_type {
    AD_OPTION_ACTION, /* something else to do than to serve */
    AD_OPTION_BOOL,
    AD_OPTION_NUMBER, /* a plain decimal integer */
    AD_OPTION_TEXT,   /* not empty */
    AD_OPTION_WORD    /* one of a few */
};

/* Where a value came from; a later one wins. */
enum ad_option_source {
    AD_FROM_DEFAULT,
    AD_FROM_FILE,
    AD_FROM_ENVIRONMENT,
    AD_FROM_ARGUMENT
};

struct ad_option {
    const char *name; /* without dashes in front */
    enum ad_option_type type;
    enum ad_option_source lowest; /* may be given here and by every later source */
    size_t offset;                /* in struct ad_options */
    uint64_t number;              /* default of a number or boolean; an action's value */
    uint64_t min, max;            /* of a number */
    const char *text;             /* default of a text or word; NULL: none */
    const char *const *words;     /* NULL-terminated */
    const char *value_name; /* what --help calls the value; NULL: it may be left out */
    const char *unit;       /* of a number; NULL: it just counts */
    const char *help;
};

enum { AD_OPTION_COUNT = 52 };
extern const struct ad_option ad_option_table[AD_OPTION_COUNT];

/* How the daemon confines itself. */
enum ad_sandbox_mode { AD_SANDBOX_AUTO, AD_SANDBOX_OFF, AD_SANDBOX_REQUIRE };

/* In the order of enum ad_control_mode, ad_log_level, ad_log_format and ad_sandbox_mode;
 * NULL-terminated. */
extern const char *const ad_control_mode_words[];
extern const char *const ad_log_level_words[];
extern const char *const ad_log_format_words[];
extern const char *const ad_sandbox_words[];

#define AD_ENVIRONMENT_PREFIX "ATTENTIOND_"
#define AD_OPTION_TEXT_SIZE 128

/* The row of that name (n bytes), as the source spells it but for its dashes or prefix; or NULL. */
const struct ad_option *ad_option_find(const char *name, size_t n,
                                       enum ad_option_source source);

/* The option of that source that was perhaps meant; NULL when none is close. */
const struct ad_option *ad_option_nearest(const char *name, size_t n,
                                          enum ad_option_source source);

/* The name as that source spells it: --http-port, ATTENTIOND_HTTP_PORT or http-port. */
void ad_option_spell(const struct ad_option *option, enum ad_option_source source,
                     char text[AD_OPTION_TEXT_SIZE]);

/* What a value has to be: "an integer 0..65535", "error, warning, info or debug". */
void ad_option_expected(const struct ad_option *option, char text[AD_OPTION_TEXT_SIZE]);

/* The words of an option as a sentence has them: "error, warning, info or debug". */
void ad_option_list_words(const char *const *words, char text[AD_OPTION_TEXT_SIZE]);

/* The index of text in a NULL-terminated list; -1 when it is not there. */
int ad_option_word_index(const char *const *words, const char *text);

#endif
