/* sandbox_places.h - the folders and files that a sandbox leaves within reach. */
#ifndef AD_BASE_SANDBOX_PLACES_H
#define AD_BASE_SANDBOX_PLACES_H

#include <stdbool.h>
#include <stddef.h>

enum ad_sandbox_use {
    AD_SANDBOX_READ,   /* list and read */
    AD_SANDBOX_APPEND, /* write to files, and make new ones */
    AD_SANDBOX_SHARE,  /* read and write files that are there */
    AD_SANDBOX_SOCKET  /* make and remove sockets */
};

struct ad_sandbox_place {
    enum ad_sandbox_use use;
    char *path; /* owned */
};

/* Owner: the caller; {0} is an empty one. */
struct ad_sandbox_places {
    struct ad_sandbox_place *items;
    size_t n;
};

/* A folder with all below it, or one file; it may be missing. False, here and below: out of memory. */
bool ad_sandbox_places_add(struct ad_sandbox_places *places, enum ad_sandbox_use use,
                           const char *path);

/* A file that may be replaced: its folder; where links lead to it, also the folder of what each leads
 * to, since such a link is changed to lead elsewhere in there. To read, never the whole of /: of that,
 * the file alone. */
bool ad_sandbox_places_add_file(struct ad_sandbox_places *places, enum ad_sandbox_use use,
                                const char *path);

/* A folder to read, the folders that links on the way to it lead into, and those that links inside of
 * it do, down to n_levels below it. */
bool ad_sandbox_places_add_tree(struct ad_sandbox_places *places, const char *path,
                                unsigned n_levels);

void ad_sandbox_places_reset(
    struct ad_sandbox_places *places); /* frees; empty afterwards */

#endif
