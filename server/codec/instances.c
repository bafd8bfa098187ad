/* instances.c - the instances of a predict request -> the tensors that they make up.
 *
 * The first instance is looked at before it is read: it says which inputs come, in what shape, and so,
 * with the commas of the text, how much memory the samples of all of them take at most. Then every
 * number goes straight to its place. Runs on the worker that decodes the request; keeps no state. */
#include "codec/instances.h"
#include "base/json_load.h"
#include "codec/mode.h"
#include "codec/text.h"

#include <jansson.h>
#include <stdint.h>
#include <string.h>

/* An input that the first instance has. */
struct input {
    const struct attn_port *port;
    bool
        stacked; /* along the batch, a sample an instance; else the first has it for all */
    struct ad_nested_value
        value;       /* what is read, or was; its shape is that of a sample */
    size_t n;        /* elements of that */
    size_t n_leaves; /* of the first instance's text: no fewer */
    char *elements;
    size_t n_given; /* 1 + the instance that gave it last */
};

struct instances {
    struct ad_request *request;
    struct ad_cursor *cursor;
    locale_t c_locale;
    bool named; /* they are objects */
    struct input inputs[ATTN_MAX_PORTS];
    size_t n_inputs;
    struct ad_error *error;
};

/* ---- names ------------------------------------------------------------------------------------- */

/* With the quotes around it, a member's name as JSON means it; NULL: it is no string, or no memory. */
static json_t *load_name(const struct ad_member *member, json_error_t *fault)
{
    return ad_json_load(member->text - 1, member->n + 2, JSON_DECODE_ANY, fault);
}

/* Are these ASCII characters that mean themselves? */
static bool is_plain(const struct ad_member *member)
{
    for (size_t i = 0; i < member->n; i++) {
        if (member->text[i] < 0x20 || member->text[i] > 0x7e || member->text[i] == '\\') {
            return false;
        }
    }
    return true;
}

/* Whether jansson takes the name, which the cursor is at. */
static enum ad_status check_name(const struct ad_cursor *at,
                                 const struct ad_member *member, struct ad_error *error)
{
    json_error_t fault;
    if (is_plain(member)) {
        return AD_OK;
    }
    json_t *loaded = load_name(member, &fault);
    if (!loaded) {
        return ad_json_no_memory(&fault)
                   ? ad_fail(error, AD_INTERNAL, "out of memory")
                   : ad_cursor_fail(at, "a valid member's name", error);
    }
    json_decref(loaded);
    return AD_OK;
}

enum ad_status ad_member_take(struct ad_cursor *cursor, struct ad_member *member,
                              struct ad_error *error)
{
    struct ad_cursor name = *cursor;
    if (!ad_cursor_is(cursor, '"') || !ad_cursor_skip_value(cursor)) {
        return ad_cursor_fail(cursor, "a member's name in double quotes", error);
    }
    *member = (struct ad_member){name.at + 1, (size_t)(cursor->at - name.at) - 2};
    enum ad_status status = check_name(&name, member, error);
    if (!status && !ad_cursor_take(cursor, ':')) {
        status = ad_cursor_fail(cursor, "':'", error);
    }
    return status;
}

bool ad_member_is(const struct ad_member *member, const char *name)
{
    if (!memchr(member->text, '\\', member->n)) {
        return strlen(name) == member->n && memcmp(member->text, name, member->n) == 0;
    }
    json_error_t fault;
    json_t *loaded = load_name(member, &fault);
    const char *text = json_string_value(loaded);
    bool is = text && strcmp(text, name) == 0;
    json_decref(loaded);
    return is;
}

/* ---- the first instance ------------------------------------------------------------------------ */

static bool has_batch_axis(const struct attn_port *port)
{
    return port->dtype != ATTN_I64 && port->rank > 0;
}

/* "[3,-1]", the last rank axes of the port */
static void add_port_shape(const struct attn_port *port, size_t rank,
                           struct ad_text *text)
{
    for (size_t i = port->rank - rank; i < port->rank; i++) {
        ad_text_add(text, "%s%lld", i > port->rank - rank ? "," : "[",
                    (long long)port->shape[i]);
    }
    ad_text_add(text, "%s", rank > 0 ? "]" : "[]");
}

static enum ad_status fail_rank(const struct input *input, const struct ad_cursor *at,
                                size_t got, struct ad_error *error)
{
    struct ad_text place = {0}, shape = {0};
    size_t wanted = input->port->rank - input->stacked;
    ad_nested_add_place(&input->value, NULL, 0, &place);
    add_port_shape(input->port, wanted, &shape);
    if (got == 0) {
        return ad_fail(error, AD_INVALID,
                       "%s must be a list, nested %zu deep (shape %s of one sample), got "
                       "%s",
                       place.bytes, wanted, shape.bytes, ad_cursor_kind(at));
    }
    return ad_fail(error, AD_INVALID,
                   "%s must be nested %zu deep (shape %s of one sample), got %zu%s",
                   place.bytes, wanted, shape.bytes, got,
                   got == ATTN_MAX_RANK ? " or more" : "");
}

/* Look at the value of an input at the cursor, and go behind it. */
static enum ad_status measure(struct instances *all, const struct attn_port *port,
                              const char *name)
{
    struct input *input = &all->inputs[all->n_inputs++];
    struct ad_cursor begin = *all->cursor;
    struct ad_nested nested;
    ad_nested_measure(all->cursor, &nested);
    *input = (struct input){
        .port = port,
        .stacked = has_batch_axis(port),
        .value = {.name = name, .dtype = port->dtype, .c_locale = all->c_locale},
        .n_leaves = nested.n_leaves};
    size_t rank = port->rank - input->stacked;
    bool is_empty = nested.rank > 0 && nested.shape[nested.rank - 1] == 0;
    if (nested.rank != rank && !(is_empty && nested.rank < rank)) {
        return fail_rank(input, &begin, nested.rank, all->error);
    }
    /* behind an empty list nothing says how large it would be */
    for (size_t i = nested.rank; i < rank; i++) {
        int64_t size = port->shape[i + input->stacked];
        nested.shape[i] = size < 0 ? 0 : (size_t)size;
    }
    input->value.rank = rank;
    memcpy(input->value.shape, nested.shape, sizeof nested.shape);
    return AD_OK;
}

static const struct attn_port *find_port(const struct instances *all,
                                         const struct ad_member *member)
{
    const struct ad_request *request = all->request;
    for (size_t i = 0; i < request->n_input_ports; i++) {
        if (ad_member_is(member, request->input_ports[i].name)) {
            return &request->input_ports[i];
        }
    }
    return NULL;
}

static enum ad_status fail_unknown(const struct instances *all, size_t instance,
                                   const struct ad_member *member)
{
    const struct ad_request *request = all->request;
    struct ad_text known = {0};
    ad_text_add_ports(&known, request->input_ports, request->n_input_ports);
    return ad_fail(all->error, AD_INVALID,
                   "instances[%zu]: unknown input '%.*s'; model '%.128s' takes %s",
                   instance, (int)(member->n < 128 ? member->n : 128), member->text,
                   request->version->model, known.bytes);
}

static struct input *find_input(struct instances *all, const struct attn_port *port)
{
    for (size_t i = 0; i < all->n_inputs; i++) {
        if (all->inputs[i].port == port) {
            return &all->inputs[i];
        }
    }
    return NULL;
}

static enum ad_status fail_twice(const struct instances *all, size_t instance,
                                 const char *name)
{
    return ad_fail(all->error, AD_INVALID, "instances[%zu]: input '%s' is given twice",
                   instance, name);
}

/* The members of the first instance, behind its brace. Where the text is malformed this just ends: the
 * reader comes upon it too, and has the better words. */
static enum ad_status measure_members(struct instances *all)
{
    struct ad_error ignored = {.status = AD_OK};
    bool more = !ad_cursor_is(all->cursor, '}');
    while (more) {
        struct ad_member member;
        if (ad_member_take(all->cursor, &member, &ignored) != AD_OK) {
            return ignored.status == AD_INTERNAL
                       ? ad_fail(all->error, AD_INTERNAL, "%s", ignored.message)
                       : AD_OK;
        }
        const struct attn_port *port = find_port(all, &member);
        if (!port) {
            return fail_unknown(all, 0, &member);
        }
        if (find_input(all, port)) {
            return fail_twice(all, 0, port->name);
        }
        enum ad_status status = measure(all, port, port->name);
        if (status) {
            return status;
        }
        more = ad_cursor_take(all->cursor, ',');
    }
    return AD_OK;
}

/* An instance that is no object is the only input that is required. */
static enum ad_status measure_list(struct instances *all)
{
    struct ad_text names = {0};
    const struct attn_port *port = ad_mode_required(all->request, &names);
    if (port) {
        return measure(all, port, NULL);
    }
    return ad_fail(all->error, AD_INVALID,
                   "instances[0] must be an object with the inputs of model '%.128s' by "
                   "name (it requires %s), got %s",
                   all->request->version->model, names.bytes,
                   ad_cursor_kind(all->cursor));
}

/* ---- memory ------------------------------------------------------------------------------------ */

static size_t count_commas(const struct ad_cursor *cursor)
{
    size_t n = 0;
    for (const char *at = cursor->at; at < cursor->end; at++) {
        n += *at == ',';
    }
    return n;
}

/* No more instances can be read than the commas from the first on leave room for: each of them has as
 * many elements and empty lists as the first, or is refused, and all but the last of those in a text have
 * a comma behind them. */
static size_t most_instances(const struct instances *all)
{
    size_t n_leaves = 0;
    for (size_t i = 0; i < all->n_inputs; i++) {
        n_leaves += all->inputs[i].stacked ? all->inputs[i].n_leaves : 0;
    }
    return count_commas(all->cursor) / (n_leaves > 0 ? n_leaves : 1) + 1;
}

/* Memory for the elements of so many instances. A first one whose lists differ in length has fewer elements
 * than its shape says; that is found as it is read, and needs no memory for those that are not there. */
static enum ad_status allocate(struct instances *all, struct input *input, size_t n_most)
{
    struct attn_tensor tensor = {.dtype = input->value.dtype, .rank = input->value.rank};
    memcpy(tensor.shape, input->value.shape, sizeof tensor.shape);
    size_t n = input->n_leaves;
    if (attn_tensor_count(&tensor, &input->n) == ATTN_OK && input->n <= n) {
        n = input->n;
        if (__builtin_mul_overflow(n, input->stacked ? n_most : 1, &n)) {
            return ad_fail(all->error, AD_INTERNAL, "out of memory");
        }
    }
    input->elements =
        ad_arena_array(&all->request->arena, n, attn_dtype_size(tensor.dtype));
    return input->elements ? AD_OK : ad_fail(all->error, AD_INTERNAL, "out of memory");
}

/* At the first instance: what it has, and memory for it and those that follow. */
static enum ad_status prepare(struct instances *all)
{
    struct ad_cursor begin = *all->cursor;
    all->named = ad_cursor_take(all->cursor, '{');
    enum ad_status status = all->named ? measure_members(all) : measure_list(all);
    *all->cursor = begin;
    size_t n_most = most_instances(all);
    for (size_t i = 0; !status && i < all->n_inputs; i++) {
        status = allocate(all, &all->inputs[i], n_most);
    }
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------- */

static enum ad_status read_input(struct instances *all, struct input *input,
                                 size_t instance)
{
    size_t first = input->stacked ? instance * input->n : 0;
    input->value.instance = instance;
    input->n_given = instance + 1;
    return ad_nested_read(all->cursor, &input->value,
                          input->elements + first * attn_dtype_size(input->value.dtype),
                          all->error);
}

/* An input that this instance has and that the first one has not, or has for all. */
static enum ad_status fail_surplus(const struct instances *all,
                                   const struct attn_port *port, size_t instance)
{
    return ad_fail(all->error, AD_INVALID,
                   has_batch_axis(port)
                       ? "instances[%zu].%s: instances[0] has no such input"
                       : "instances[%zu].%s: an input without a batch axis is for all "
                         "instances together and goes into instances[0]",
                   instance, port->name);
}

static enum ad_status read_member(struct instances *all, size_t instance)
{
    struct ad_member member;
    enum ad_status status = ad_member_take(all->cursor, &member, all->error);
    if (status) {
        return status;
    }
    const struct attn_port *port = find_port(all, &member);
    if (!port) {
        return fail_unknown(all, instance, &member);
    }
    struct input *input = find_input(all, port);
    if (!input || (!input->stacked && instance > 0)) {
        return fail_surplus(all, port, instance);
    }
    return input->n_given == instance + 1 ? fail_twice(all, instance, port->name)
                                          : read_input(all, input, instance);
}

static enum ad_status check_members(const struct instances *all, size_t instance)
{
    for (size_t i = 0; i < all->n_inputs; i++) {
        const struct input *input = &all->inputs[i];
        if (input->stacked && input->n_given != instance + 1) {
            return ad_fail(all->error, AD_INVALID,
                           "instances[%zu] has no input '%s', which instances[0] has",
                           instance, input->port->name);
        }
    }
    return AD_OK;
}

static enum ad_status read_members(struct instances *all, size_t instance)
{
    if (!ad_cursor_take(all->cursor, '{')) {
        return ad_fail(all->error, AD_INVALID,
                       "instances[%zu] must be an object, as instances[0] is, got %s",
                       instance, ad_cursor_kind(all->cursor));
    }
    enum ad_status status = AD_OK;
    bool more = !ad_cursor_is(all->cursor, '}');
    while (!status && more) {
        status = read_member(all, instance);
        more = !status && ad_cursor_take(all->cursor, ',');
    }
    if (!status && !ad_cursor_take(all->cursor, '}')) {
        return ad_cursor_fail(all->cursor, "',' or '}'", all->error);
    }
    return status ? status : check_members(all, instance);
}

/* An instance that is the only input. */
static enum ad_status read_list(struct instances *all, size_t instance)
{
    struct input *input = &all->inputs[0];
    return input->stacked || instance == 0 ? read_input(all, input, instance)
                                           : fail_surplus(all, input->port, instance);
}

/* Give the request its tensors. */
static enum ad_status finish(const struct instances *all, size_t n_instances)
{
    struct ad_request *request = all->request;
    request->inputs =
        ad_arena_array(&request->arena, all->n_inputs, sizeof *request->inputs);
    if (!request->inputs) {
        return ad_fail(all->error, AD_INTERNAL, "out of memory");
    }
    for (size_t i = 0; i < all->n_inputs; i++) {
        const struct input *input = &all->inputs[i];
        struct attn_tensor tensor = {.dtype = input->value.dtype,
                                     .rank = input->port->rank,
                                     .data = input->elements};
        tensor.shape[0] = n_instances;
        memcpy(tensor.shape + input->stacked, input->value.shape,
               input->value.rank * sizeof *tensor.shape);
        request->inputs[i] = (struct attn_named_tensor){input->port->name, tensor};
    }
    request->n_inputs = all->n_inputs;
    return AD_OK;
}

/* At the first of them; ends behind the list. */
static enum ad_status read_all(struct instances *all)
{
    enum ad_status status = prepare(all);
    size_t n = 0;
    for (bool more = true; !status && more; n++) {
        status = all->named ? read_members(all, n) : read_list(all, n);
        more = !status && ad_cursor_take(all->cursor, ',');
    }
    if (!status && !ad_cursor_take(all->cursor, ']')) {
        return ad_cursor_fail(all->cursor, "',' or ']'", all->error);
    }
    return status ? status : finish(all, n);
}

enum ad_status ad_instances_read(struct ad_request *request, struct ad_cursor *cursor,
                                 locale_t c_locale, struct ad_error *error)
{
    struct instances all = {
        .request = request, .cursor = cursor, .c_locale = c_locale, .error = error};
    if (!ad_cursor_take(cursor, '[')) {
        return ad_fail(error, AD_INVALID, "instances must be a list, got %s",
                       ad_cursor_kind(cursor));
    }
    if (ad_cursor_is(cursor, ']')) {
        return ad_fail(error, AD_INVALID, "instances must have at least one entry");
    }
    return read_all(&all);
}
