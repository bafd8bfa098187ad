/* load_request.c - makes requests: HTTP, the protocol's JSON, tensors. One thread.
 *
 * Numbers come from a generator with a fixed seed: every run sends the same, so replies can be
 * compared. */
#include "bench/load_request.h"
#include "bench/cases.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* So many digits, so that one number takes another's place. */
#define ID_BASE UINT64_C(1000000000000000000)
#define ID_DIGITS 19

/* A text that grows. */
struct text {
    FILE *file;
    char *bytes;
    size_t n;
};

static void open_text(struct text *text)
{
    text->file = open_memstream(&text->bytes, &text->n);
    if (!text->file) {
        die("out of memory");
    }
}

static void close_text(struct text *text)
{
    if (fclose(text->file) != 0 || !text->bytes) {
        die("out of memory");
    }
}

enum load_place load_place_of(size_t step, size_t n_steps)
{
    if (n_steps <= 1) {
        return PLACE_ONLY;
    }
    return step == 0 ? PLACE_START : step + 1 == n_steps ? PLACE_END : PLACE_MIDDLE;
}

static bool is_start(enum load_place place)
{
    return place == PLACE_START || place == PLACE_ONLY;
}

/* ---- numbers --------------------------------------------------------------------------- */

/* Uniform from -1 to below 1, in steps of 2^-23. */
static float draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (float)((double)(*state >> 40) * 0x1p-23 - 1);
}

static void put_bytes(FILE *file, const void *bytes, size_t n)
{
    if (n > 0 && fwrite(bytes, 1, n, file) != n) {
        die("out of memory");
    }
}

/* Little-endian, whatever the machine is. */
static void put_float(FILE *file, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const unsigned char bytes[4] = {(unsigned char)bits, (unsigned char)(bits >> 8),
                                    (unsigned char)(bits >> 16),
                                    (unsigned char)(bits >> 24)};
    put_bytes(file, bytes, sizeof bytes);
}

/* With as many digits as it takes to read the same float again: what clients send. */
static void put_decimal(FILE *file, float value)
{
    char digits[32];
    for (int n = 6; n <= 9; n++) {
        snprintf(digits, sizeof digits, "%.*g", n, (double)value);
        if (strtof(digits, NULL) == value) {
            break;
        }
    }
    fputs(digits, file);
}

static size_t element_bytes(const struct load_input *input)
{
    return strcmp(input->datatype, "FP32") == 0   ? 4
           : strcmp(input->datatype, "BOOL") == 0 ? 1
                                                  : 8;
}

/* Floats are drawn; of a mask every other element is true; indices are 0. */
static void put_tensor(FILE *file, const struct load_input *input, bool json,
                       uint64_t seed)
{
    static const char zeros[8];
    size_t size = element_bytes(input);
    for (size_t i = 0; i < input->n_elements; i++) {
        if (json && i > 0) {
            fputc(',', file);
        }
        if (size == 4) {
            json ? put_decimal(file, draw(&seed)) : put_float(file, draw(&seed));
        } else if (size == 1) {
            json ? fputs(i % 2 ? "true" : "false", file) : fputc((int)(i % 2), file);
        } else {
            json ? (void)fputc('0', file) : put_bytes(file, zeros, size);
        }
    }
}

/* ---- the protocol ---------------------------------------------------------------------- */

/* Returns where the sequence's number stands, 0 when there is none. */
static size_t put_parameters(FILE *file, const struct load_kind *kind,
                             enum load_place place)
{
    size_t id_offset = 0;
    fprintf(file, "{\"parameters\":{\"binary_data_output\":%s",
            kind->json ? "false" : "true");
    if (kind->n_steps > 0) {
        fputs(",\"sequence_id\":", file);
        id_offset = (size_t)ftell(file);
        fprintf(file, "%" PRIu64 ",\"sequence_start\":%s,\"sequence_end\":%s", ID_BASE,
                is_start(place) ? "true" : "false",
                place == PLACE_END || place == PLACE_ONLY ? "true" : "false");
    }
    for (size_t i = 0; i < kind->n_parameters; i++) {
        const char *value = strchr(kind->parameters[i], '=');
        fprintf(file, ",\"%.*s\":%s", (int)(value - kind->parameters[i]),
                kind->parameters[i], value + 1);
    }
    fputs("},\"inputs\":[", file);
    return id_offset;
}

static void put_input(FILE *file, const struct load_input *input, bool json,
                      uint64_t seed)
{
    fprintf(file, "{\"name\":\"%.*s\",\"datatype\":\"%s\",\"shape\":[", input->n_name,
            input->name, input->datatype);
    for (size_t i = 0; i < input->n_axes; i++) {
        fprintf(file, i > 0 ? ",%zu" : "%zu", input->axes[i]);
    }
    if (!json) {
        fprintf(file, "],\"parameters\":{\"binary_data_size\":%zu}}",
                input->n_elements * element_bytes(input));
        return;
    }
    fputs("],\"data\":[", file);
    put_tensor(file, input, true, seed);
    fputs("]}", file);
}

/* The JSON and then the tensors that are not in it. *n_json: the bytes of the JSON. */
static struct text make_body(const struct load_kind *kind, enum load_place place,
                             size_t *id_offset, size_t *n_json)
{
    struct text body;
    open_text(&body);
    *id_offset = put_parameters(body.file, kind, place);
    size_t n_put = 0;
    for (size_t i = 0; i < kind->n_inputs; i++) {
        if (!kind->inputs[i].at_start || is_start(place)) {
            fputs(n_put++ > 0 ? "," : "", body.file);
            put_input(body.file, &kind->inputs[i], kind->json, i + 1);
        }
    }
    fputs("]}", body.file);
    *n_json = (size_t)ftell(body.file);
    for (size_t i = 0; i < kind->n_inputs && !kind->json; i++) {
        if (!kind->inputs[i].at_start || is_start(place)) {
            put_tensor(body.file, &kind->inputs[i], false, i + 1);
        }
    }
    close_text(&body);
    return body;
}

static struct text no_body(void)
{
    struct text body;
    open_text(&body);
    close_text(&body);
    return body;
}

static struct text read_body(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        die("cannot read '%s'", path);
    }
    struct text body;
    open_text(&body);
    char bytes[1 << 16];
    size_t n;
    while ((n = fread(bytes, 1, sizeof bytes, file)) > 0) {
        put_bytes(body.file, bytes, n);
        if (ftell(body.file) > (long)MOST_BYTES) {
            die("'%s' has more than %zu bytes", path, MOST_BYTES);
        }
    }
    if (ferror(file)) {
        die("cannot read '%s'", path);
    }
    fclose(file);
    close_text(&body);
    return body;
}

static void put_head(FILE *file, const struct load_kind *kind, const char *host,
                     size_t n_body, size_t n_json)
{
    const char *verb = kind->get ? "GET" : "POST";
    if (kind->path) {
        fprintf(file, "%s %s HTTP/1.1\r\n", verb, kind->path);
    } else {
        fprintf(file, "%s /v2/models/%s/infer HTTP/1.1\r\n", verb, kind->model);
    }
    fprintf(file, "Host: %s\r\n", host);
    if (!kind->get) {
        fprintf(file, "Content-Length: %zu\r\n", n_body);
    }
    if (!kind->body_file && !kind->get) {
        fprintf(file, "Content-Type: %s\r\n",
                kind->json ? "application/json" : "application/octet-stream");
    }
    if (n_json < n_body) {
        fprintf(file, "Inference-Header-Content-Length: %zu\r\n", n_json);
    }
    for (size_t i = 0; i < kind->n_headers; i++) {
        fprintf(file, "%s\r\n", kind->headers[i]);
    }
    fputs("\r\n", file);
}

struct load_message load_message_create(const struct load_kind *kind,
                                        enum load_place place, const char *host)
{
    size_t id_offset = 0, n_json = MOST_BYTES;
    struct text body = kind->get         ? no_body()
                       : kind->body_file ? read_body(kind->body_file)
                                         : make_body(kind, place, &id_offset, &n_json);
    struct text whole;
    open_text(&whole);
    put_head(whole.file, kind, host, body.n, n_json);
    if (id_offset > 0) {
        id_offset += (size_t)ftell(whole.file);
    }
    put_bytes(whole.file, body.bytes, body.n);
    free(body.bytes);
    close_text(&whole);
    return (struct load_message){whole.bytes, whole.n, id_offset};
}

struct load_message load_message_copy(const struct load_message *message)
{
    struct load_message copy = *message;
    copy.bytes = malloc(message->n);
    if (!copy.bytes) {
        die("out of memory");
    }
    memcpy(copy.bytes, message->bytes, message->n);
    return copy;
}

void load_message_number(struct load_message *message, uint64_t sequence)
{
    char digits[ID_DIGITS + 2];
    snprintf(digits, sizeof digits, "%" PRIu64, ID_BASE + sequence % ID_BASE);
    memcpy(message->bytes + message->id_offset, digits, ID_DIGITS);
}
