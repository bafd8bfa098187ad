/* load_reply.h - a reply as it comes in, piece by piece. */
#ifndef TESTS_BENCH_LOAD_REPLY_H
#define TESTS_BENCH_LOAD_REPLY_H

#include <stdbool.h>
#include <stddef.h>

/* All zeros is one of which nothing has come. */
struct load_reply {
    char *bytes;
    size_t capacity, n; /* n: received so far */
    size_t
        n_head; /* status line and headers; 0: they are not all there. So for the rest: */
    size_t n_body;
    size_t
        n_json; /* leading bytes of the body that are JSON before binary tensors; else 0 */
    unsigned status;
    bool close; /* the server ends the connection */
};

enum load_progress {
    REPLY_MORE, /* is to come */
    REPLY_DONE,
    REPLY_BROKEN /* not HTTP, too large, or without a Content-Length */
};

/* Where to put what comes next: *room bytes, at least 1. Ends the program when out of memory. */
char *load_reply_room(struct load_reply *reply, size_t *room);

/* n more bytes were put there. */
enum load_progress load_reply_advance(struct load_reply *reply, size_t n);

/* For the next one on the same connection; the memory stays. */
void load_reply_clear(struct load_reply *reply);

#endif
