/* confine.h - how far the daemon confines itself, and what it needs for what its options ask. */
#ifndef AD_CONFINE_H
#define AD_CONFINE_H

#include "base/error.h"

#define AD_CONFINE_TEXT 1024

struct daemon;

/* What came of it, for the log. Owner: main. */
struct ad_confinement {
    char files[AD_CONFINE_TEXT];
    char reads
        [AD_CONFINE_TEXT]; /* places, parted by commas; "" where all are within reach */
    char writes[AD_CONFINE_TEXT];
};

/* Files: before any thread is started, and once the repository's place and who started the daemon are
 * known. AD_UNSUPPORTED: it cannot be, and the options require it. */
enum ad_status ad_confine_files(struct daemon *daemon,
                                struct ad_error *error) AD_MUST_CHECK;

/* System calls: once it serves. Says in the log what is in force. */
enum ad_status ad_confine_calls(struct daemon *daemon,
                                struct ad_error *error) AD_MUST_CHECK;

#endif
