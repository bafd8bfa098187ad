/* options_help.c - the text of --help, out of the table. Pure; any thread. */
#include "base/buffer.h"
#include "base/options.h"
#include "base/options_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WIDTH ((size_t)88)
#define HELP_COLUMN ((size_t)32)
#define NOTE_SIZE 256

/* What is written wraps at WIDTH; the next line begins at indent. */
struct page {
    struct ad_buffer text;
    size_t column;
    size_t indent;
    bool failed;
};

static void put(struct page *page, const char *bytes, size_t n)
{
    page->failed = page->failed || !ad_buffer_append(&page->text, bytes, n);
    page->column += n;
}

static void pad_to(struct page *page, size_t column)
{
    while (!page->failed && page->column < column) {
        put(page, " ", 1);
    }
}

static void end_line(struct page *page)
{
    put(page, "\n", 1);
    page->column = 0;
}

/* Words are parted by single spaces. */
static void put_words(struct page *page, const char *words)
{
    while (*words) {
        size_t n = strcspn(words, " ");
        if (page->column > page->indent && page->column + 1 + n > WIDTH) {
            end_line(page);
        }
        if (page->column > page->indent) {
            put(page, " ", 1);
        }
        pad_to(page, page->indent);
        put(page, words, n);
        words += n + (words[n] == ' ');
    }
}

/* The range and the default of an option, in brackets. */
static void describe(const struct ad_option *option, char note[NOTE_SIZE])
{
    char words[AD_OPTION_TEXT_SIZE];
    note[0] = '\0';
    switch (option->type) {
    case AD_OPTION_ACTION:
        return;
    case AD_OPTION_BOOL:
        snprintf(note, NOTE_SIZE, "[default: %s]", option->number ? "true" : "false");
        return;
    case AD_OPTION_NUMBER:
        snprintf(note, NOTE_SIZE, "[%" PRIu64 "..%" PRIu64 "%s%s, default: %" PRIu64 "]",
                 option->min, option->max, option->unit ? " " : "",
                 option->unit ? option->unit : "", option->number);
        return;
    case AD_OPTION_TEXT:
        if (option->text) {
            snprintf(note, NOTE_SIZE, "[default: %s]", option->text);
        }
        return;
    case AD_OPTION_WORD:
        ad_option_list_words(option->words, words);
        snprintf(note, NOTE_SIZE, "[%s, default: %s]", words, option->text);
        return;
    }
}

static void put_option(struct page *page, const struct ad_option *option)
{
    char name[AD_OPTION_TEXT_SIZE], note[NOTE_SIZE];
    ad_option_spell(option, AD_FROM_ARGUMENT, name);
    describe(option, note);
    page->indent = 2;
    put_words(page, name);
    if (option->value_name) {
        put_words(page, option->value_name);
    }
    if (page->column >= HELP_COLUMN) {
        end_line(page); /* a long name has a line of its own */
    }
    page->indent = HELP_COLUMN;
    put_words(page, option->help);
    if (page->column + 1 + strlen(note) > WIDTH) {
        end_line(page); /* rather a short line than a note on two */
    }
    put_words(page, note);
    end_line(page);
}

static void put_paragraph(struct page *page, size_t indent, const char *words)
{
    page->indent = indent;
    put_words(page, words);
    end_line(page);
}

static void put_sources(struct page *page)
{
    char variable[AD_OPTION_TEXT_SIZE], sentence[2 * NOTE_SIZE];
    const struct ad_option *example = ad_option_find("http-port", 9, AD_FROM_ARGUMENT);
    ad_option_spell(example, AD_FROM_ENVIRONMENT, variable);
    snprintf(
        sentence, sizeof sentence,
        "Options with a value or a default may also come from the environment (%s for "
        "--%s) or from the file. The command line wins over the environment, the "
        "environment over the file, the file over the default.",
        variable, example->name);
    put_paragraph(page, 0, sentence);
}

char *ad_options_help(void)
{
    struct page page = {.failed = false};
    ad_buffer_init(&page.text);
    put_paragraph(&page, 0, "Usage: attentiond [OPTION]...");
    put_paragraph(
        &page, 0,
        "Serve trained attention layers over HTTP (Open Inference Protocol v2).");
    end_line(&page);
    put_paragraph(&page, 0,
                  "Example: attentiond --model-repository=/srv/models --http-port=8000");
    end_line(&page);
    put_paragraph(&page, 0, "Options:");
    for (size_t i = 0; i < AD_OPTION_COUNT; i++) {
        put_option(&page, &ad_option_table[i]);
    }
    end_line(&page);
    put_sources(&page);
    if (page.failed) {
        ad_buffer_reset(&page.text);
    }
    return page.text.data;
}
