/* options_value.h - one value of one option, checked and stored. */
#ifndef AD_BASE_OPTIONS_VALUE_H
#define AD_BASE_OPTIONS_VALUE_H

#include "base/error.h"
#include "base/options_table.h"

#include <stddef.h>
#include <stdint.h>

/* Options that are being read, and where each value in them is from. */
struct ad_options_reader {
    struct ad_options *options;
    enum ad_option_source sources[AD_OPTION_COUNT];
    const char *file; /* being read, for messages; NULL: none */
    struct ad_error *error;
};

/* Nothing is set yet, not even the defaults. options is the caller's, error may be NULL. */
void ad_options_reader_init(struct ad_options_reader *reader, struct ad_options *options,
                            struct ad_error *error);

/* Store a default for all options that have none yet. */
enum ad_status ad_options_set_defaults(struct ad_options_reader *reader) AD_MUST_CHECK;

/* Check a value and store it, unless a later source has set the option. The first is for numbers,
 * booleans and actions, the second for texts and words (NULL: no text), the third reads either out
 * of a text. got is the value as a message shows it. */
enum ad_status ad_option_set_number(struct ad_options_reader *reader,
                                    const struct ad_option *option,
                                    enum ad_option_source source, uint64_t number,
                                    const char *got) AD_MUST_CHECK;
enum ad_status ad_option_set_text(struct ad_options_reader *reader,
                                  const struct ad_option *option,
                                  enum ad_option_source source,
                                  const char *text) AD_MUST_CHECK;
enum ad_status ad_option_set(struct ad_options_reader *reader,
                             const struct ad_option *option, enum ad_option_source source,
                             const char *text) AD_MUST_CHECK;

/* The value is not what the option takes. */
enum ad_status ad_option_refuse(const struct ad_options_reader *reader,
                                const struct ad_option *option,
                                enum ad_option_source source, const char *got);

/* The row that a source calls by that name (n bytes). AD_INVALID: there is none, or it may not be
 * given there. */
enum ad_status ad_option_look_up(const struct ad_options_reader *reader, const char *name,
                                 size_t n, enum ad_option_source source,
                                 const struct ad_option **option) AD_MUST_CHECK;

/* A text in quotes, cut when it is long. */
void ad_option_show(const char *text, size_t n, char shown[AD_OPTION_TEXT_SIZE]);

#endif
