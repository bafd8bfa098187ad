/* spec.c - what follows from a spec; pure functions, any thread. */
#include "spec.h"

#include "status.h"
#include "tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- parameters --------------------------------------------------------------------------- */

struct list {
    struct attni_parameter *items;
    size_t n;
};

static struct attni_parameter *add(struct list *list, enum attni_parameter_kind kind,
                                   size_t owner, const char *name, size_t rows,
                                   size_t columns)
{
    struct attni_parameter *item = &list->items[list->n++];
    *item = (struct attni_parameter){.kind = kind,
                                     .owner = owner,
                                     .rank = kind == ATTNI_BIAS ? 1 : 2,
                                     .shape = {rows, columns}};
    snprintf(item->name, sizeof item->name, "%s", name);
    return item;
}

static void add_linear(struct list *list, const struct attn_linear_spec *linear,
                       enum attni_linear_owner owner)
{
    if (!linear->weight[0]) {
        return;
    }
    add(list, ATTNI_WEIGHT, owner, linear->weight,
        linear->in_out ? linear->n_in : linear->n_out,
        linear->in_out ? linear->n_out : linear->n_in)
        ->linear = linear;
    if (linear->bias[0]) {
        add(list, ATTNI_BIAS, owner, linear->bias, linear->n_out, 0)->optional =
            linear->bias_optional;
    }
}

static void add_post(struct list *list, const struct attn_spec *spec,
                     const struct attn_post_spec *post, enum attni_post_owner owner)
{
    static const struct {
        const char *suffix;
        enum attni_parameter_kind kind;
    } parts[] = {{"gamma", ATTNI_GAMMA},
                 {"beta", ATTNI_BETA},
                 {"running_mean", ATTNI_RUNNING_MEAN},
                 {"running_var", ATTNI_RUNNING_VARIANCE}};
    size_t n = post->kind == ATTN_POST_BATCH_NORM   ? 4
               : post->kind == ATTN_POST_GROUP_NORM ? 2
                                                    : 0;
    for (size_t i = 0; i < n; i++) {
        char name[ATTN_NAME_SIZE];
        snprintf(name, sizeof name, "%s.%s", post->prefix, parts[i].suffix);
        add(list, parts[i].kind, owner, name, spec->length, attni_spec_output_width(spec))
            ->optional = true;
    }
}

size_t attni_spec_parameters(const struct attn_spec *spec,
                             struct attni_parameter parameters[ATTNI_MAX_PARAMETERS])
{
    struct list list = {parameters, 0};
    add_linear(&list, &spec->fused, ATTNI_FUSED);
    add_linear(&list, &spec->query_projection, ATTNI_OF_QUERY);
    add_linear(&list, &spec->key_projection, ATTNI_OF_KEY);
    add_linear(&list, &spec->value_projection, ATTNI_OF_VALUE);
    add_linear(&list, &spec->output_projection, ATTNI_OF_OUTPUT);
    const struct attn_edge_spec *edge = &spec->edge;
    if (edge->edges[0]) {
        size_t width = edge->scalar ? spec->n_heads : spec->n_heads * spec->head_width;
        /* with no types there is nothing to store */
        add(&list, ATTNI_EDGE_BIAS, 0, edge->bias, edge->n_types, width)->optional =
            edge->n_types == 0;
        if (edge->value_bias[0]) {
            add(&list, ATTNI_EDGE_VALUE_BIAS, 0, edge->value_bias, edge->n_types,
                spec->n_heads * spec->value_head_width)
                ->optional = edge->n_types == 0;
        }
    }
    add_post(&list, spec, &spec->normalisation, ATTNI_NORMALISATION);
    add_post(&list, spec, &spec->activation, ATTNI_ACTIVATION);
    return list.n;
}

size_t attni_spec_output_width(const struct attn_spec *spec)
{
    return spec->output_projection.weight[0] ? spec->output_projection.n_out
                                             : spec->n_heads * spec->value_head_width;
}

bool attni_spec_per_position(const struct attn_spec *spec)
{
    const struct attn_post_spec *posts[] = {&spec->normalisation, &spec->activation};
    for (size_t i = 0; i < 2; i++) {
        if (posts[i]->kind == ATTN_POST_GROUP_NORM ||
            posts[i]->kind == ATTN_POST_BATCH_NORM) {
            return true;
        }
    }
    return false;
}

/* ---- inputs ------------------------------------------------------------------------------- */

struct ports {
    struct attn_port *ports;
    enum attni_role *roles;
    size_t n;
};

static struct attn_port *add_port(struct ports *list, enum attni_role role,
                                  const char *name, enum attn_dtype dtype, size_t rank)
{
    struct attn_port *port = &list->ports[list->n];
    list->roles[list->n++] = role;
    *port = (struct attn_port){.name = name, .dtype = dtype, .rank = rank};
    for (size_t i = 0; i < rank; i++) {
        port->shape[i] = -1;
    }
    return port;
}

/* Queries, keys or values: [batch, length, width] or [batch, length, heads, head width]. */
static struct attn_port *add_rows(struct ports *list, const struct attn_spec *spec,
                                  enum attni_role role, const char *name,
                                  const struct attn_linear_spec *projection,
                                  size_t head_width)
{
    bool by_head = spec->layout == ATTN_LAYOUT_HEADS;
    struct attn_port *port = add_port(list, role, name, ATTN_F32, by_head ? 4 : 3);
    if (by_head) {
        port->shape[2] = (int64_t)spec->n_heads;
        port->shape[3] = head_width ? (int64_t)head_width : -1;
    } else if (projection->weight[0]) {
        port->shape[2] = (int64_t)projection->n_in;
    } else if (head_width) {
        port->shape[2] = (int64_t)(spec->n_heads * head_width);
    }
    if (spec->length && attni_spec_per_position(spec)) {
        port->shape[1] = (int64_t)spec->length;
    }
    return port;
}

/* The rank whose form a client most likely wants to see: one with a batch axis. */
static size_t usual_mask_rank(const struct attn_mask_spec *mask)
{
    size_t usual = 0;
    for (size_t rank = 0; rank < 5; rank++) {
        if (rank <= 3 && strcmp(mask->axes[rank], "-") != 0) {
            usual = rank;
        }
    }
    return usual;
}

static void add_relations(struct ports *list, const struct attn_spec *spec)
{
    if (spec->edge.edges[0]) {
        struct attn_port *edges =
            add_port(list, ATTNI_EDGES, spec->edge.edges, ATTN_I64, 2);
        edges->shape[1] = 3;
        edges->optional = true;
        add_port(list, ATTNI_EDGE_TYPES, spec->edge.types, ATTN_I64, 1)->optional = true;
    }
    if (spec->dense_kq[0]) {
        struct attn_port *kq =
            add_port(list, ATTNI_DENSE_KQ, spec->dense_kq, ATTN_F32, 4);
        kq->shape[3] = (int64_t)spec->n_heads;
        kq->optional = true;
    }
    if (spec->dense_kv[0]) {
        struct attn_port *kv =
            add_port(list, ATTNI_DENSE_KV, spec->dense_kv, ATTN_F32, 5);
        kv->shape[3] = (int64_t)spec->n_heads;
        kv->shape[4] = (int64_t)spec->value_head_width;
        kv->optional = true;
    }
}

size_t attni_spec_inputs(const struct attn_spec *spec,
                         struct attn_port ports[ATTN_MAX_PORTS],
                         enum attni_role roles[ATTN_MAX_PORTS])
{
    struct ports list = {ports, roles, 0};
    const struct attn_linear_spec *fused = spec->fused.weight[0] ? &spec->fused : NULL;
    add_rows(&list, spec, ATTNI_QUERY, spec->query,
             fused ? fused : &spec->query_projection, spec->head_width);
    if (strcmp(spec->key, spec->query) != 0) {
        add_rows(&list, spec, ATTNI_KEY, spec->key, &spec->key_projection,
                 spec->head_width)
            ->optional = spec->key_optional;
    }
    if (!spec->scores_only && strcmp(spec->value, spec->key) != 0) {
        add_rows(&list, spec, ATTNI_VALUE, spec->value, &spec->value_projection,
                 spec->value_head_width);
    }
    if (spec->mask.name[0]) {
        add_port(&list, ATTNI_MASK, spec->mask.name, ATTN_BOOL,
                 usual_mask_rank(&spec->mask))
            ->optional = true;
    }
    add_relations(&list, spec);
    return list.n;
}

size_t attni_spec_outputs(const struct attn_spec *spec,
                          struct attn_port ports[ATTN_MAX_PORTS])
{
    enum attni_role unused[ATTN_MAX_PORTS];
    struct ports list = {ports, unused, 0};
    size_t rank = spec->squeeze_output ? 2 : 3;
    struct attn_port *output =
        add_port(&list, ATTNI_N_ROLES, spec->output, ATTN_F32, rank);
    if (rank == 3 && !spec->scores_only) {
        output->shape[2] = (int64_t)attni_spec_output_width(spec);
    }
    if (spec->length && attni_spec_per_position(spec)) {
        output->shape[1] = (int64_t)spec->length;
    }
    if (spec->attention[0]) {
        struct attn_port *attention =
            add_port(&list, ATTNI_N_ROLES, spec->attention, ATTN_F32, 4);
        attention->shape[1] = (int64_t)spec->n_heads;
        attention->optional = true;
    }
    return list.n;
}

/* ---- sense -------------------------------------------------------------------------------- */

struct check {
    const struct attn_spec *spec;
    struct attn_error *error;
    enum attn_status status;
};

static void need(struct check *check, bool condition, const char *field, const char *what)
{
    if (!condition && !check->status) {
        check->status = attni_fail(check->error, ATTN_INVALID, field,
                                   "spec member '%s': %s", field, what);
    }
}

static bool size_fits(size_t n)
{
    return n >= 1 && n <= ATTNI_MAX_DIMENSION;
}

static void check_linear(struct check *check, const struct attn_linear_spec *linear,
                         const char *field, size_t n_out)
{
    if (!linear->weight[0]) {
        return;
    }
    need(check, size_fits(linear->n_in) && size_fits(linear->n_out), field,
         "expected sizes from 1 to 2^24");
    need(check, linear->n_out == n_out, field, "does not give the width of all heads");
}

static void check_projections(struct check *check)
{
    const struct attn_spec *s = check->spec;
    size_t query_width = s->n_heads * s->head_width;
    size_t value_width = s->n_heads * s->value_head_width;
    check_linear(check, &s->fused, "fused", 2 * query_width + value_width);
    check_linear(check, &s->query_projection, "query_projection", query_width);
    check_linear(check, &s->key_projection, "key_projection", query_width);
    check_linear(check, &s->value_projection, "value_projection", value_width);
    check_linear(check, &s->output_projection, "output_projection",
                 s->output_projection.n_out);
    bool own = s->query_projection.weight[0] || s->key_projection.weight[0] ||
               s->value_projection.weight[0];
    need(check, !s->fused.weight[0] || !own, "fused", "excludes single projections");
    need(check,
         !s->fused.weight[0] ||
             (strcmp(s->key, s->query) == 0 && strcmp(s->value, s->query) == 0),
         "fused", "needs one input for queries, keys and values");
    need(check, !own || s->head_width, "head_width", "a projection needs it");
    need(check, s->layout == ATTN_LAYOUT_ROWS || (!own && !s->fused.weight[0]), "layout",
         "projections need rows");
    need(check,
         !s->output_projection.weight[0] || s->output_projection.n_in == value_width,
         "output_projection", "does not take the width of all value heads");
}

static void check_post(struct check *check, const struct attn_post_spec *post,
                       const char *field)
{
    const struct attn_spec *s = check->spec;
    if (post->kind == ATTN_POST_GROUP_NORM) {
        need(check, post->n_groups >= 1 && s->length && s->length % post->n_groups == 0,
             field, "the length must be a multiple of the groups");
    }
    if (post->kind == ATTN_POST_DROPOUT) {
        need(check, post->probability >= 0 && post->probability <= 1, field,
             "the probability must be 0 to 1");
    }
    if (post->kind == ATTN_POST_BATCH_NORM) {
        need(check, s->length >= 1, field, "statistics by position need a length");
    }
    if (post->kind == ATTN_POST_SOFTMAX) {
        need(check, post->axis >= 0 && post->axis <= 2, field,
             "the axis must be 0, 1 or 2");
    }
    need(check, post->kind == ATTN_POST_NONE || s->layout == ATTN_LAYOUT_ROWS, field,
         "needs rows");
}

static void need_end(struct check *check, const char *name, size_t size)
{
    need(check, memchr(name, '\0', size) != NULL, "names",
         "a name has no end or is too long");
}

static void check_names(struct check *check)
{
    const struct attn_spec *s = check->spec;
    const char *names[] = {s->query,     s->key,        s->value,
                           s->mask.name, s->edge.edges, s->edge.types,
                           s->dense_kq,  s->dense_kv,   s->output,
                           s->attention, s->edge.bias,  s->edge.value_bias};
    const struct attn_linear_spec *linears[] = {&s->fused, &s->query_projection,
                                                &s->key_projection, &s->value_projection,
                                                &s->output_projection};
    need_end(check, s->kind, sizeof s->kind);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        need_end(check, names[i], ATTNI_PLAIN_NAME_SIZE);
    }
    for (size_t i = 0; i < sizeof linears / sizeof *linears; i++) {
        need_end(check, linears[i]->weight, ATTNI_PLAIN_NAME_SIZE);
        need_end(check, linears[i]->bias, ATTNI_PLAIN_NAME_SIZE);
    }
    for (size_t rank = 0; rank < 5; rank++) {
        need_end(check, s->mask.axes[rank], sizeof s->mask.axes[rank]);
    }
    need_end(check, s->normalisation.prefix, sizeof s->normalisation.prefix);
    need_end(check, s->activation.prefix, sizeof s->activation.prefix);
    need(check, !check->status && s->query[0] && s->key[0] && s->output[0], "query",
         "query, key and output need names");
    need(check, s->scores_only || s->value[0], "value", "needs a name");
}

enum attn_status attni_spec_check(const struct attn_spec *spec, struct attn_error *error)
{
    if (spec->size != sizeof *spec) {
        return attni_fail(error, ATTN_INVALID, "size",
                          "spec member 'size': expected %zu, got %zu", sizeof *spec,
                          spec->size);
    }
    struct check check = {spec, error, ATTN_OK};
    check_names(&check);
    need(&check, size_fits(spec->n_heads), "n_heads", "expected 1 to 2^24");
    need(&check,
         spec->head_width <=
             ATTNI_MAX_DIMENSION / (size_fits(spec->n_heads) ? spec->n_heads : 1),
         "head_width", "all heads together are wider than 2^24");
    need(&check,
         spec->scores_only ||
             (spec->value_head_width >= 1 &&
              spec->value_head_width <=
                  ATTNI_MAX_DIMENSION / (size_fits(spec->n_heads) ? spec->n_heads : 1)),
         "value_head_width", "expected at least 1, and at most 2^24 for all heads");
    need(&check, spec->length <= ATTNI_MAX_DIMENSION, "length", "expected at most 2^24");
    need(&check, spec->scores_only == (spec->layout == ATTN_LAYOUT_FREE), "layout",
         "the free layout is for scores alone, and scores have no other");
    need(&check, !spec->clip || isfinite(spec->clip_value), "clip_value",
         "expected a finite number");
    need(&check, spec->dropout >= 0 && spec->dropout <= 1, "dropout", "expected 0 to 1");
    need(&check,
         !spec->edge.edges[0] || (spec->head_width && spec->layout != ATTN_LAYOUT_FREE),
         "edge", "needs a head width");
    need(&check, !spec->edge.edges[0] || (spec->edge.types[0] && spec->edge.bias[0]),
         "edge", "needs types and a bias");
    need(&check, spec->edge.n_types <= ATTNI_MAX_DIMENSION, "edge",
         "more than 2^24 types");
    need(&check,
         !spec->scores_only ||
             !(spec->causal || spec->edge.edges[0] || spec->dense_kq[0] ||
               spec->dense_kv[0] || spec->attention[0]),
         "scores_only", "scores have a clip and a mask alone");
    need(&check, !spec->squeeze_output || attni_spec_output_width(spec) == 1,
         "squeeze_output", "needs an output of width 1");
    if (!check.status) {
        check_projections(&check);
        check_post(&check, &spec->normalisation, "normalisation");
        check_post(&check, &spec->activation, "activation");
    }
    return check.status;
}
