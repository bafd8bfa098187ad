/* load_options.h - the command line of the load generator. */
#ifndef TESTS_BENCH_LOAD_OPTIONS_H
#define TESTS_BENCH_LOAD_OPTIONS_H

#include "bench/load_request.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#define MOST_KINDS 4
#define MOST_CONNECTIONS 4096
#define MOST_SECONDS 86400
#define MOST_STEPS ((size_t)1 << 20)

struct load_options {
    struct load_kind kinds[MOST_KINDS];
    size_t n_kinds;
    double seconds, warm_seconds;
    size_t n_parts; /* the measured seconds are cut into */
    bool json_lines;
    const char *address; /* as it was given: for the Host header */
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } socket;
    socklen_t n_socket;
};

/* Ends the program when the command line makes no sense, or with --help. Texts are borrowed from
 * argv. */
void load_options_read(struct load_options *options, int argc, char **argv);

#endif
