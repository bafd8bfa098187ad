/* words.h - a list in one text: names parted by commas. */
#ifndef AD_BASE_WORDS_H
#define AD_BASE_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* Owned by the caller; free it with ad_words_reset. */
struct ad_words {
    const char **items;
    size_t n;
};

/* The words of text between commas, without the spaces around them; empty ones are left out. text
 * NULL: none. False: out of memory, nothing to reset. */
bool ad_words_split(const char *text, struct ad_words *words);

void ad_words_reset(struct ad_words *words); /* frees; empty afterwards */

#endif
