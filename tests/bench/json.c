/* json.c - tensors as JSON: our reader and writer beside jansson's, on one thread.
 *
 * Reading is a whole request body: finding the `data`, then its numbers into floats; for jansson the
 * tree, its numbers into floats, and the tree freed. Writing is floats into a reply; for jansson the
 * tree built, dumped and freed, and once more the dump alone. Both take turns. memcpy of the same
 * bytes and a plain strtof loop say what is between them. Usage: json [COUNT [SECONDS]] */
#include "bench/cases.h"
#include "bench/timing.h"
#include "codec/encode.h"
#include "codec/input.h"
#include "codec/scan.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How numbers are written in a body. */
enum spelling { SHORTEST, SHORT, LONG, EXPONENT, INTEGER };

struct body {
    const char *name;
    enum spelling spelling;
    size_t columns; /* 0: flat */
    const char *comma;
};

static const struct body bodies[] = {
    {"shortest", SHORTEST, 0, ","},
    {"shortest, blanks", SHORTEST, 0, ", "},
    {"shortest, rows of 64", SHORTEST, 64, ","},
    {"shortest, rows of 3", SHORTEST, 3, ","},
    {"short (0.5)", SHORT, 0, ","},
    {"doubles (17 digits)", LONG, 0, ","},
    {"exponents (1.234e-5)", EXPONENT, 0, ","},
    {"integers (0..255)", INTEGER, 0, ","},
};

/* What the runs work on. */
struct bench {
    size_t n;
    const float *values;
    float *floats; /* read */
    char *text, *copy;
    size_t size, data_at;
    struct ad_input input;
    locale_t c_locale;
    struct ad_arena arena;
    struct ad_request *request;
    struct attn_named_tensor output;
    json_t *tree;
    char *dump;
    size_t dump_room, dump_size;
};

static void *need(void *memory)
{
    if (!memory) {
        die("out of memory");
    }
    return memory;
}

static double random_normal(void)
{
    return sqrt(-2 * log(1 - drand48())) * cos(2 * acos(-1) * drand48());
}

/* ---- reading --------------------------------------------------------------------------- */

static int spell(enum spelling spelling, float value, double extra, char *text,
                 size_t room)
{
    int n = 0;
    switch (spelling) {
    case SHORTEST:
        for (int digits = 6; digits <= 9; digits++) {
            n = snprintf(text, room, "%.*g", digits, (double)value);
            if (strtof(text, NULL) == value) {
                break;
            }
        }
        break;
    case SHORT:
        n = snprintf(text, room, "%.1f", (double)value);
        break;
    case LONG:
        n = snprintf(text, room, "%.17g", (double)value + extra);
        break;
    case EXPONENT:
        n = snprintf(text, room, "%.3e", (double)value * 1e-5);
        break;
    case INTEGER:
        n = snprintf(text, room, "%d", (int)(fabs(extra) * 1e9) % 256);
        break;
    }
    return n;
}

static void write_body(struct bench *b, const struct body *body)
{
    size_t room = b->n * 32 + 4096;
    size_t columns = body->columns ? body->columns : b->n;
    char *at = b->text;
    at += snprintf(at, room,
                   "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"data\":");
    b->data_at = (size_t)(at - b->text);
    at += sprintf(at, body->columns ? "[[" : "[");
    for (size_t i = 0; i < b->n; i++) {
        if (i > 0 && i % columns == 0) {
            at += sprintf(at, "]%s[", body->comma);
        } else if (i > 0) {
            at += sprintf(at, "%s", body->comma);
        }
        at += spell(body->spelling, b->values[i], drand48() * 1e-7, at, 32);
    }
    at += sprintf(at, body->columns ? "]]}]}" : "]}]}");
    b->size = (size_t)(at - b->text);
    b->input.rank = body->columns ? 2 : 1;
    b->input.shape[0] = b->n / columns;
    b->input.shape[b->input.rank - 1] = columns;
}

static void read_ours(void *argument)
{
    struct bench *b = argument;
    struct ad_envelope envelope;
    struct ad_error error = {.status = AD_OK};
    const void *elements;
    if (ad_scan_request(b->text, b->size, b->c_locale, &b->arena, &envelope, &error) ||
        ad_input_read_json(&b->input, b->text + envelope.data[0].begin,
                           envelope.data[0].end - envelope.data[0].begin, b->c_locale,
                           &b->arena, &elements, &error)) {
        die("%s", error.message);
    }
    b->floats[0] = *(const float *)elements;
    ad_arena_reset(&b->arena);
}

static float *walk(const json_t *array, float *floats)
{
    size_t n = json_array_size(array);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(array, i);
        if (json_is_array(item)) {
            floats = walk(item, floats);
        } else {
            *floats++ = (float)json_number_value(item);
        }
    }
    return floats;
}

static void read_jansson(void *argument)
{
    struct bench *b = argument;
    json_t *root = need(json_loadb(b->text, b->size, 0, NULL));
    const json_t *input = json_array_get(json_object_get(root, "inputs"), 0);
    walk(json_object_get(input, "data"), b->floats);
    json_decref(root);
}

static void copy_text(void *argument)
{
    struct bench *b = argument;
    memcpy(b->copy, b->text, b->size);
}

static void read_strtof(void *argument)
{
    struct bench *b = argument;
    char *at = b->text + b->data_at;
    for (size_t i = 0; i < b->n; i++) {
        at += strcspn(at, "-0123456789");
        b->floats[i] = strtof_l(at, &at, b->c_locale);
    }
}

static void print_reading(struct bench *b, const struct body *body, double seconds)
{
    static void (*const both[2])(void *) = {read_ours, read_jansson};
    static void (*const yardsticks[2])(void *) = {copy_text, read_strtof};
    struct timing times[2], others[2];
    write_body(b, body);
    time_both(seconds, both, b, times);
    time_both(seconds / 4, yardsticks, b, others);
    double size = (double)b->size, n = (double)b->n;
    printf("read  %-22s %6.1f %8.0f %7.1f %8.0f %7.1f %7.1fx %9.1f %8.2f\n", body->name,
           size / n, size / times[0].min_us, 1e3 * times[0].min_us / n,
           size / times[1].min_us, 1e3 * times[1].min_us / n,
           times[1].min_us / times[0].min_us, 1e3 * others[1].min_us / n,
           1e3 * others[0].min_us / n);
    fflush(stdout);
}

/* ---- writing --------------------------------------------------------------------------- */

static void write_ours(void *argument)
{
    struct bench *b = argument;
    struct ad_error error = {.status = AD_OK};
    b->request->reply.size = 0;
    if (ad_encode_infer(b->request, &b->output, 1, &error)) {
        die("%s", error.message);
    }
}

static json_t *build_tree(const struct bench *b)
{
    json_t *array = need(json_array());
    for (size_t i = 0; i < b->n; i++) {
        if (json_array_append_new(array, json_real((double)b->values[i])) != 0) {
            die("out of memory");
        }
    }
    return array;
}

static void dump_tree(void *argument)
{
    struct bench *b = argument;
    b->dump_size =
        json_dumpb(b->tree, b->dump, b->dump_room, JSON_COMPACT | JSON_REAL_PRECISION(9));
}

static void write_jansson(void *argument)
{
    struct bench *b = argument;
    b->tree = build_tree(b);
    dump_tree(b);
    json_decref(b->tree);
    b->tree = NULL;
}

static void print_writing(struct bench *b, const char *name, double seconds)
{
    static void (*const both[2])(void *) = {write_ours, write_jansson};
    struct timing times[2], dump;
    time_both(seconds, both, b, times);
    b->tree = build_tree(b);
    dump = time_it(seconds / 2, dump_tree, b);
    json_decref(b->tree);
    b->tree = NULL;
    double size = (double)b->request->reply.size, n = (double)b->n;
    printf("write %-22s %6.1f %8.0f %7.1f %8.0f %7.1f %7.1fx %9.1f %7.1fx\n", name,
           size / n, size / times[0].min_us, 1e3 * times[0].min_us / n,
           (double)b->dump_size / times[1].min_us, 1e3 * times[1].min_us / n,
           times[1].min_us / times[0].min_us, 1e3 * dump.min_us / n,
           dump.min_us / times[0].min_us);
    fflush(stdout);
}

/* ---- the whole ------------------------------------------------------------------------- */

static void make(struct bench *b, float *values)
{
    static const struct attn_port port = {.name = "x"};
    static char model[] = "bench";
    static struct ad_version version = {.model = model, .text = "1"};
    srand48(1);
    for (size_t i = 0; i < b->n; i++) {
        values[i] = (float)random_normal();
    }
    b->values = values;
    b->input = (struct ad_input){.port = &port,
                                 .datatype = "FP32",
                                 .wire = ATTN_F32,
                                 .dtype = ATTN_F32,
                                 .n = b->n};
    b->c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    ad_arena_init(&b->arena);
    b->floats = need(calloc(b->n, sizeof *b->floats));
    b->text = need(calloc(b->n, 32 + 8));
    b->copy = need(calloc(b->n, 32 + 8));
    b->dump_room = b->n * 32;
    b->dump = need(malloc(b->dump_room));
    b->request = need(ad_request_create());
    b->request->version = &version;
    b->output = (struct attn_named_tensor){
        .name = "x", .tensor = {.data = values, .dtype = ATTN_F32, .rank = 1}};
    b->output.tensor.shape[0] = b->n;
}

int main(int argc, char **argv)
{
    struct bench b = {.n = argc > 1 ? strtoul(argv[1], NULL, 10) / 192 * 192 : 999936};
    double seconds = argc > 2 ? strtod(argv[2], NULL) : 4;
    if (b.n == 0 || b.n > 100000000) {
        die("usage: json [COUNT [SECONDS]], COUNT from 192 to 100000000");
    }
    float *values = need(malloc(b.n * sizeof *values));
    make(&b, values);
    printf("%zu numbers, fastest runs, one thread\n", b.n);
    printf("%-28s %6s %16s %16s %8s %9s %8s\n", "", "bytes/", "ours", "jansson", "",
           "strtof", "memcpy");
    printf("%-28s %6s %8s %7s %8s %7s %8s %9s %8s\n", "", "number", "MB/s", "ns", "MB/s",
           "ns", "ratio", "ns", "ns");
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        print_reading(&b, &bodies[i], seconds);
    }
    printf("%-28s %6s %16s %16s %8s %9s %8s\n", "", "", "", "", "", "dump only", "ratio");
    print_writing(&b, "normal", seconds);
    for (size_t i = 0; i < b.n; i++) {
        values[i] = (float)(i % 256) / 256.0f;
    }
    print_writing(&b, "short (i / 256)", seconds);
    for (size_t i = 0; i < b.n; i++) {
        values[i] = expf(15 * (float)random_normal());
    }
    print_writing(&b, "any size (e^15x)", seconds);
    b.request->version = NULL;
    ad_request_free(b.request);
    freelocale(b.c_locale);
    free(values);
    free(b.floats);
    free(b.text);
    free(b.copy);
    free(b.dump);
    return 0;
}
