/* load_request.h - what a load consists of: one kind of request, and how it is sent. */
#ifndef TESTS_BENCH_LOAD_REQUEST_H
#define TESTS_BENCH_LOAD_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOST_AXES 8
#define MOST_INPUTS 8
#define MOST_EXTRAS 16 /* parameters, and headers */
#define MOST_BYTES ((size_t)1 << 30)

struct load_input {
    const char *name; /* as long as n_name says */
    int n_name;
    char datatype[8]; /* FP32, BOOL or INT64 */
    size_t n_axes, axes[MOST_AXES], n_elements;
    bool at_start; /* of a sequence only */
};

/* As the command line says it. Texts are borrowed from there. */
struct load_kind {
    const char *label; /* NULL: the path */
    const char *model; /* its /v2/models/…/infer, if there is no path */
    const char *path;
    const char *body_file; /* NULL: the body is made of the inputs */
    bool get;              /* there is no body */
    struct load_input inputs[MOST_INPUTS];
    size_t n_inputs;
    bool json;                           /* tensors as JSON and not as bytes */
    const char *parameters[MOST_EXTRAS]; /* NAME=VALUE, the value in JSON */
    size_t n_parameters;
    const char *headers[MOST_EXTRAS]; /* NAME: VALUE */
    size_t n_headers;

    size_t n_connections;
    double
        rate; /* requests a second, whatever comes back; 0: each after the reply to the last */
    size_t
        n_steps; /* of a sequence; 0: the requests have nothing to do with each other */
    size_t check_every; /* compare the bytes of one reply in so many; 0: of none */
    bool varied;        /* not even their lengths are compared */
};

/* A request's place in its sequence decides what it says. */
enum load_place { PLACE_MIDDLE, PLACE_START, PLACE_END, PLACE_ONLY, N_PLACES };

enum load_place load_place_of(size_t step, size_t n_steps);

/* A request as it is sent. */
struct load_message {
    char *bytes;
    size_t n;
    size_t id_offset; /* where the sequence's number stands; 0: nowhere */
};

/* The request at a place. Ends the program when it cannot be made. The caller frees its bytes. */
struct load_message load_message_create(const struct load_kind *kind,
                                        enum load_place place, const char *host);

/* A copy of its own for a connection that runs sequences. */
struct load_message load_message_copy(const struct load_message *message);

/* Write the number of a sequence, below 10^18, into it. */
void load_message_number(struct load_message *message, uint64_t sequence);

#endif
