/* accept.h - what a client says that it takes: the lists of Accept and Accept-Encoding. */
#ifndef AD_HTTP_ACCEPT_H
#define AD_HTTP_ACCEPT_H

#include <stdbool.h>
#include <stddef.h>

#define AD_MAX_QUALITY 1000 /* q=1, in thousandths */

/* A piece of a header's value, which it lies in. */
struct ad_word {
    const char *text;
    size_t n;
};

bool ad_word_is(struct ad_word word, const char *text); /* in any case */

/* name;version=1;q=0.5 */
struct ad_accepted {
    struct ad_word name;
    struct ad_word version; /* n is 0: not said */
    int quality;
};

/* The next element of *list that is well-formed, and *list moves behind it; false: there is none. A list
 * of NULL is empty. */
bool ad_accept_next(const char **list, struct ad_accepted *accepted);

#endif
