/* load_options.c - reads the load generator's command line. One thread. */
#include "bench/load_options.h"
#include "bench/cases.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: load [OPTIONS] ADDRESS:PORT\n"
    "\n"
    "Sends inference requests over connections that stay open, and reports how many were "
    "answered\n"
    "and how long that took. ADDRESS is a literal; this machine's own only, unless "
    "--anywhere.\n"
    "\n"
    "what is sent\n"
    "  --model=NAME            to /v2/models/NAME/infer\n"
    "  --input=NAME:TYPE:AxBxC an input of FP32, BOOL or INT64; may be repeated\n"
    "  --start-input=...       an input that only the first step of a sequence has\n"
    "  --json                  tensors as JSON, both ways; else as bytes\n"
    "  --parameter=NAME=VALUE  a request parameter, in JSON: timeout=50000; may be "
    "repeated\n"
    "  --path=PATH --body=FILE instead: this body to this path\n"
    "  --path=PATH --get       instead: GET of this path\n"
    "  --header='NAME: VALUE'  one more header; may be repeated\n"
    "  --label=TEXT            what the report calls it\n"
    "how\n"
    "  --connections=N         so many at once (1); each sends its next request after "
    "the reply\n"
    "  --rate=N                or so many requests a second, whatever comes back; times "
    "then run\n"
    "                          from when a request was due\n"
    "  --steps=N               each connection runs sequences of so many requests\n"
    "  --check=N               compare the bytes of one reply in N with the first (64; "
    "0: of none)\n"
    "  --varied                replies need not be of one length, nor the same\n"
    "  --and                   what follows is a second kind of request, on connections "
    "of its own\n"
    "for how long\n"
    "  --warm=SECONDS          before anything is counted (1)\n"
    "  --seconds=SECONDS       that count (3)\n"
    "  --parts=N               report so many parts of them, each on its own (1)\n"
    "  --json-lines            report as JSON, a line for each part and kind\n"
    "  --anywhere              other machines too\n";

enum {
    MODEL = 256,
    INPUT,
    START_INPUT,
    JSON,
    PARAMETER,
    PATH,
    BODY,
    GET,
    HEADER,
    LABEL,
    CONNECTIONS,
    RATE,
    STEPS,
    CHECK,
    VARIED,
    AND,
    WARM,
    SECONDS,
    PARTS,
    JSON_LINES,
    ANYWHERE,
    HELP
};

static const struct option known[] = {
    {"model", required_argument, NULL, MODEL},
    {"input", required_argument, NULL, INPUT},
    {"start-input", required_argument, NULL, START_INPUT},
    {"json", no_argument, NULL, JSON},
    {"parameter", required_argument, NULL, PARAMETER},
    {"path", required_argument, NULL, PATH},
    {"body", required_argument, NULL, BODY},
    {"get", no_argument, NULL, GET},
    {"header", required_argument, NULL, HEADER},
    {"label", required_argument, NULL, LABEL},
    {"connections", required_argument, NULL, CONNECTIONS},
    {"rate", required_argument, NULL, RATE},
    {"steps", required_argument, NULL, STEPS},
    {"check", required_argument, NULL, CHECK},
    {"varied", no_argument, NULL, VARIED},
    {"and", no_argument, NULL, AND},
    {"warm", required_argument, NULL, WARM},
    {"seconds", required_argument, NULL, SECONDS},
    {"parts", required_argument, NULL, PARTS},
    {"json-lines", no_argument, NULL, JSON_LINES},
    {"anywhere", no_argument, NULL, ANYWHERE},
    {"help", no_argument, NULL, HELP},
    {NULL, 0, NULL, 0},
};

static double read_number(const char *name, const char *text, double low, double high)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= low && value <= high)) {
        die("--%s: expected a number from %g to %g, got '%s'", name, low, high, text);
    }
    return value;
}

static size_t read_count(const char *name, const char *text, size_t low, size_t high)
{
    double value = read_number(name, text, (double)low, (double)high);
    if (value != (double)(size_t)value) {
        die("--%s: expected a whole number, got '%s'", name, text);
    }
    return (size_t)value;
}

/* ---- inputs ---------------------------------------------------------------------------- */

static void read_shape(struct load_input *input, const char *text, const char *whole)
{
    const char *at = text;
    input->n_elements = 1;
    do {
        char *end;
        unsigned long long size = strtoull(at, &end, 10);
        if (end == at || *at == '-' || input->n_axes == MOST_AXES || size > MOST_BYTES ||
            input->n_elements * size > MOST_BYTES / 8) {
            die("--input: expected a shape like 1x16x128 of moderate size, got '%s'",
                whole);
        }
        input->axes[input->n_axes++] = (size_t)size;
        input->n_elements *= (size_t)size;
        at = end + (*end == 'x');
        if (*end != '\0' && *end != 'x') {
            die("--input: expected a shape like 1x16x128, got '%s'", whole);
        }
    } while (*at != '\0');
}

static void add_input(struct load_kind *kind, const char *text, bool at_start)
{
    static const char *const types[] = {"FP32", "BOOL", "INT64", NULL};
    const char *type = strchr(text, ':');
    const char *shape = type ? strchr(type + 1, ':') : NULL;
    if (!shape || kind->n_inputs == MOST_INPUTS) {
        die("--input: expected up to %d of NAME:TYPE:SHAPE, got '%s'", MOST_INPUTS, text);
    }
    struct load_input *input = &kind->inputs[kind->n_inputs++];
    input->name = text;
    input->n_name = (int)(type - text);
    input->at_start = at_start;
    for (size_t i = 0; types[i]; i++) {
        if (strlen(types[i]) == (size_t)(shape - type - 1) &&
            strncmp(types[i], type + 1, strlen(types[i])) == 0) {
            memcpy(input->datatype, types[i], strlen(types[i]) + 1);
        }
    }
    if (input->datatype[0] == '\0') {
        die("--input: expected FP32, BOOL or INT64, got '%s'", text);
    }
    read_shape(input, shape + 1, text);
}

static void add_text(const char *name, const char **list, size_t *n, const char *text,
                     char separator)
{
    if (*n == MOST_EXTRAS || !strchr(text, separator) || strpbrk(text, "\r\n")) {
        die("--%s: expected up to %d with a '%c', got '%s'", name, MOST_EXTRAS, separator,
            text);
    }
    list[(*n)++] = text;
}

/* ---- where to -------------------------------------------------------------------------- */

static void read_address(struct load_options *options, const char *text, bool anywhere)
{
    char host[64];
    const char *colon = strrchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : 0;
    bool bracketed = n > 2 && text[0] == '[' && text[n - 1] == ']';
    if (!colon || n >= sizeof host) {
        die("expected ADDRESS:PORT, got '%s'", text);
    }
    snprintf(host, sizeof host, "%.*s", (int)(bracketed ? n - 2 : n),
             bracketed ? text + 1 : text);
    uint16_t port = htons((uint16_t)read_count("PORT", colon + 1, 1, 65535));
    bool own;
    options->address = text;
    if (inet_pton(AF_INET, host, &options->socket.v4.sin_addr) == 1) {
        options->socket.v4.sin_family = AF_INET;
        options->socket.v4.sin_port = port;
        options->n_socket = sizeof options->socket.v4;
        own = ntohl(options->socket.v4.sin_addr.s_addr) >> 24 == 127;
    } else if (inet_pton(AF_INET6, host, &options->socket.v6.sin6_addr) == 1) {
        options->socket.v6.sin6_family = AF_INET6;
        options->socket.v6.sin6_port = port;
        options->n_socket = sizeof options->socket.v6;
        own = IN6_IS_ADDR_LOOPBACK(&options->socket.v6.sin6_addr);
    } else {
        die("expected an IPv4 or IPv6 literal, got '%s'", host);
    }
    if (!own && !anywhere) {
        die("'%s' is not this machine; --anywhere allows it", host);
    }
}

/* ---- all of it ------------------------------------------------------------------------- */

static void start_kind(struct load_options *options)
{
    if (options->n_kinds == MOST_KINDS) {
        die("--and: at most %d kinds of request", MOST_KINDS);
    }
    struct load_kind *kind = &options->kinds[options->n_kinds++];
    *kind = (struct load_kind){.n_connections = 1, .check_every = 64};
}

static void check_kind(struct load_kind *kind)
{
    bool given = kind->body_file || kind->get;
    if (given ? !kind->path || kind->n_steps > 0 || kind->n_inputs > 0
              : !kind->model && !kind->path) {
        die("expected --model and --input, or --path with --body or --get alone");
    }
    if (!kind->label) {
        kind->label = kind->path ? kind->path : kind->model;
    }
}

static bool read_kind_option(struct load_kind *kind, int code, const char *text)
{
    switch (code) {
    case MODEL:
        kind->model = text;
        return true;
    case INPUT:
    case START_INPUT:
        add_input(kind, text, code == START_INPUT);
        return true;
    case JSON:
        kind->json = true;
        return true;
    case PARAMETER:
        add_text("parameter", kind->parameters, &kind->n_parameters, text, '=');
        return true;
    case PATH:
        kind->path = text;
        return true;
    case BODY:
        kind->body_file = text;
        return true;
    case GET:
        kind->get = true;
        return true;
    case HEADER:
        add_text("header", kind->headers, &kind->n_headers, text, ':');
        return true;
    case LABEL:
        kind->label = text;
        return true;
    case CONNECTIONS:
        kind->n_connections = read_count("connections", text, 1, MOST_CONNECTIONS);
        return true;
    case RATE:
        kind->rate = read_number("rate", text, 1e-3, 1e7);
        return true;
    case STEPS:
        kind->n_steps = read_count("steps", text, 1, MOST_STEPS);
        return true;
    case CHECK:
        kind->check_every = read_count("check", text, 0, MOST_BYTES);
        return true;
    case VARIED:
        kind->varied = true;
        return true;
    default:
        return false;
    }
}

static void read_run_option(struct load_options *options, int code, const char *text)
{
    switch (code) {
    case AND:
        start_kind(options);
        break;
    case WARM:
        options->warm_seconds = read_number("warm", text, 0, MOST_SECONDS);
        break;
    case SECONDS:
        options->seconds = read_number("seconds", text, 1e-3, MOST_SECONDS);
        break;
    case PARTS:
        options->n_parts = read_count("parts", text, 1, 10000);
        break;
    case JSON_LINES:
        options->json_lines = true;
        break;
    case HELP:
        fputs(help, stdout);
        exit(0);
    default:
        exit(1); /* getopt has said why */
    }
}

void load_options_read(struct load_options *options, int argc, char **argv)
{
    bool anywhere = false;
    int code;
    memset(options, 0, sizeof *options);
    options->seconds = 3;
    options->warm_seconds = 1;
    options->n_parts = 1;
    start_kind(options);
    while ((code = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (code == ANYWHERE) {
            anywhere = true;
        } else if (!read_kind_option(&options->kinds[options->n_kinds - 1], code,
                                     optarg)) {
            read_run_option(options, code, optarg);
        }
    }
    if (optind + 1 != argc) {
        die("expected ADDRESS:PORT; see --help");
    }
    read_address(options, argv[optind], anywhere);
    for (size_t i = 0; i < options->n_kinds; i++) {
        check_kind(&options->kinds[i]);
    }
}
