/* json_load.c - JSON text to jansson's tree, also where memory runs out.
 *
 * jansson does not look whether a character was saved in the token that it reads. So memory for the
 * largest token is put aside before it begins; the first allocation that fails gets it, further ones
 * get nothing, and no further character is let in: a token never lacks one, and the tree is never
 * built to its end. */
#include "base/json_load.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What jansson's token has at first and more: it doubles when it is full. */
#define TOKEN_SPARE ((size_t)64)

struct reading {
    const char *at, *end;
    void *aside; /* NULL once it is used */
    size_t n_aside;
    bool failed;
};

/* jansson's allocator has no context of its own. NULL: this thread reads no text. */
static _Thread_local struct reading *current;

static void *allocate(size_t n_bytes)
{
    struct reading *reading = current;
    void *memory = reading && reading->failed ? NULL : malloc(n_bytes);
    if (memory || !reading) {
        return memory;
    }
    reading->failed = true;
    if (n_bytes <= reading->n_aside) {
        memory = reading->aside;
        reading->aside = NULL;
        reading->n_aside = 0;
    }
    return memory;
}

/* Frees stay as they are: what is put aside comes from malloc too. */
static void take_over(void)
{
    json_free_t release = NULL;
    json_get_alloc_funcs(NULL, &release);
    json_set_alloc_funcs(allocate, release);
}

/* One character at a time, so that jansson holds none back. */
static size_t feed(void *to, size_t n_room, void *context)
{
    struct reading *reading = context;
    if (n_room == 0 || reading->failed || reading->at == reading->end) {
        return 0;
    }
    *(char *)to = *reading->at++;
    return 1;
}

static void set_no_memory(json_error_t *fault)
{
    memset(fault, 0, sizeof *fault);
    fault->line = fault->column = -1;
    fault->text[sizeof fault->text - 1] = json_error_out_of_memory;
}

json_t *ad_json_load(const char *text, size_t n, size_t flags, json_error_t *fault)
{
    static pthread_once_t taken_over = PTHREAD_ONCE_INIT;
    (void)pthread_once(&taken_over, take_over);
    struct reading reading = {.at = text, .end = n > 0 ? text + n : text};
    if (!__builtin_mul_overflow(n, 2, &reading.n_aside) &&
        !__builtin_add_overflow(reading.n_aside, TOKEN_SPARE, &reading.n_aside)) {
        reading.aside = malloc(reading.n_aside);
    }
    if (!reading.aside) {
        set_no_memory(fault);
        return NULL;
    }
    current = &reading;
    json_t *root = json_load_callback(feed, &reading, flags, fault);
    current = NULL;
    free(reading.aside);
    if (reading.failed) {
        json_decref(root);
        set_no_memory(fault);
        return NULL;
    }
    return root;
}

bool ad_json_no_memory(const json_error_t *fault)
{
    return json_error_code(fault) == json_error_out_of_memory;
}
