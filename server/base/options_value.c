/* options_value.c - one value of one option, checked and stored. Owner: ad_options_load's caller;
 * one thread. */
#include "base/options_value.h"
#include "base/digits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SHOWN 60

void ad_options_reader_init(struct ad_options_reader *reader, struct ad_options *options,
                            struct ad_error *error)
{
    memset(options, 0, sizeof *options);
    *reader = (struct ad_options_reader){.options = options, .error = error};
}

static void *address_of(const struct ad_options_reader *reader,
                        const struct ad_option *option)
{
    return (char *)reader->options + option->offset;
}

void ad_option_show(const char *text, size_t n, char shown[AD_OPTION_TEXT_SIZE])
{
    bool cut = n > MOST_SHOWN;
    snprintf(shown, AD_OPTION_TEXT_SIZE, "'%.*s%s'", cut ? MOST_SHOWN : (int)n, text,
             cut ? "..." : "");
}

/* The beginning of a message about something in a file: its name and a colon. */
static void show_file(const struct ad_options_reader *reader,
                      enum ad_option_source source, char shown[AD_OPTION_TEXT_SIZE * 4])
{
    bool named = source == AD_FROM_FILE && reader->file;
    snprintf(shown, sizeof(char[AD_OPTION_TEXT_SIZE * 4]), "%s%s",
             named ? reader->file : "", named ? ": " : "");
}

enum ad_status ad_option_refuse(const struct ad_options_reader *reader,
                                const struct ad_option *option,
                                enum ad_option_source source, const char *got)
{
    char file[AD_OPTION_TEXT_SIZE * 4], name[AD_OPTION_TEXT_SIZE],
        expected[AD_OPTION_TEXT_SIZE];
    show_file(reader, source, file);
    ad_option_spell(option, source, name);
    ad_option_expected(option, expected);
    return ad_fail(reader->error, AD_INVALID, "%s%s: expected %s, got %s", file, name,
                   expected, got);
}

/* Text ends where n says, not at a NUL. */
static enum ad_status refuse_name(const struct ad_options_reader *reader,
                                  const char *name, size_t n,
                                  enum ad_option_source source)
{
    static const char *const nouns[] = {[AD_FROM_DEFAULT] = "option",
                                        [AD_FROM_FILE] = "key",
                                        [AD_FROM_ENVIRONMENT] = "variable",
                                        [AD_FROM_ARGUMENT] = "option"};
    static const char *const prefixes[] = {[AD_FROM_DEFAULT] = "",
                                           [AD_FROM_FILE] = "",
                                           [AD_FROM_ENVIRONMENT] = AD_ENVIRONMENT_PREFIX,
                                           [AD_FROM_ARGUMENT] = "--"};
    char file[AD_OPTION_TEXT_SIZE * 4], meant[AD_OPTION_TEXT_SIZE] = "";
    show_file(reader, source, file);
    const struct ad_option *nearest = ad_option_nearest(name, n, source);
    if (nearest) {
        ad_option_spell(nearest, source, meant);
    }
    int n_shown = n > MOST_SHOWN ? MOST_SHOWN : (int)n;
    return ad_fail(reader->error, AD_INVALID, "%s%s%.*s: unknown %s, %s%s%s", file,
                   prefixes[source], n_shown, name, nouns[source],
                   nearest ? "did you mean " : "see --help", meant, nearest ? "?" : "");
}

enum ad_status ad_option_look_up(const struct ad_options_reader *reader, const char *name,
                                 size_t n, enum ad_option_source source,
                                 const struct ad_option **option)
{
    *option = ad_option_find(name, n, source);
    if (!*option) {
        return refuse_name(reader, name, n, source);
    }
    if (source < (*option)->lowest) {
        char file[AD_OPTION_TEXT_SIZE * 4], shown[AD_OPTION_TEXT_SIZE];
        show_file(reader, source, file);
        ad_option_spell(*option, source, shown);
        return ad_fail(reader->error, AD_INVALID, "%s%s: cannot be given in %s", file,
                       shown, source == AD_FROM_FILE ? "a file" : "the environment");
    }
    return AD_OK;
}

/* May this source set the option, or has a later one done so? */
static bool claim(struct ad_options_reader *reader, const struct ad_option *option,
                  enum ad_option_source source)
{
    enum ad_option_source *current = &reader->sources[option - ad_option_table];
    if (source < *current) {
        return false;
    }
    *current = source;
    return true;
}

enum ad_status ad_option_set_number(struct ad_options_reader *reader,
                                    const struct ad_option *option,
                                    enum ad_option_source source, uint64_t number,
                                    const char *got)
{
    if (option->type == AD_OPTION_NUMBER &&
        (number < option->min || number > option->max)) {
        return ad_option_refuse(reader, option, source, got);
    }
    if (!claim(reader, option, source)) {
        return AD_OK;
    }
    switch (option->type) {
    case AD_OPTION_ACTION:
        *(enum ad_options_action *)address_of(reader, option) =
            (enum ad_options_action)number;
        break;
    case AD_OPTION_BOOL:
        *(bool *)address_of(reader, option) = number != 0;
        break;
    case AD_OPTION_NUMBER:
        *(uint64_t *)address_of(reader, option) = number;
        break;
    case AD_OPTION_TEXT:
    case AD_OPTION_WORD:
        break;
    }
    return AD_OK;
}

enum ad_status ad_option_set_text(struct ad_options_reader *reader,
                                  const struct ad_option *option,
                                  enum ad_option_source source, const char *text)
{
    if (text &&
        (option->type == AD_OPTION_WORD ? ad_option_word_index(option->words, text) < 0
                                        : text[0] == '\0')) {
        char got[AD_OPTION_TEXT_SIZE];
        ad_option_show(text, strlen(text), got);
        return ad_option_refuse(reader, option, source, got);
    }
    char *copy = text ? strdup(text) : NULL;
    if (text && !copy) {
        return ad_fail(reader->error, AD_INTERNAL, "out of memory");
    }
    if (!claim(reader, option, source)) {
        free(copy);
        return AD_OK;
    }
    char **place = address_of(reader, option);
    free(*place);
    *place = copy;
    return AD_OK;
}

enum ad_status ad_option_set(struct ad_options_reader *reader,
                             const struct ad_option *option, enum ad_option_source source,
                             const char *text)
{
    char got[AD_OPTION_TEXT_SIZE];
    ad_option_show(text, strlen(text), got);
    uint64_t number = 0;
    switch (option->type) {
    case AD_OPTION_ACTION:
        break; /* takes no value */
    case AD_OPTION_BOOL:
        number = strcmp(text, "true") == 0;
        if (number == 1 || strcmp(text, "false") == 0) {
            return ad_option_set_number(reader, option, source, number, got);
        }
        break;
    case AD_OPTION_NUMBER:
        if (ad_digits_read(text, UINT64_MAX, &number)) {
            return ad_option_set_number(reader, option, source, number, got);
        }
        break;
    case AD_OPTION_TEXT:
    case AD_OPTION_WORD:
        return ad_option_set_text(reader, option, source, text);
    }
    return ad_option_refuse(reader, option, source, got);
}

enum ad_status ad_options_set_defaults(struct ad_options_reader *reader)
{
    for (size_t i = 0; i < AD_OPTION_COUNT; i++) {
        const struct ad_option *option = &ad_option_table[i];
        enum ad_status status = AD_OK;
        if (option->type == AD_OPTION_TEXT || option->type == AD_OPTION_WORD) {
            status = ad_option_set_text(reader, option, AD_FROM_DEFAULT, option->text);
        } else if (option->type != AD_OPTION_ACTION) {
            status = ad_option_set_number(reader, option, AD_FROM_DEFAULT, option->number,
                                          "the default");
        }
        if (status != AD_OK) {
            return status;
        }
    }
    return AD_OK;
}
