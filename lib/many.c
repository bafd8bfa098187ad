/* many.c - forward many plans of one layer in one pass. Belongs to the caller's thread; tasks run on any.
 *
 * Each plan keeps the tiles, the terms and the steps after the heads that it has alone. Shared are the
 * lists of tasks, one for each stage, and the products of short calls: their rows are gathered, so that
 * a weight is read once for all. Over packed weights the bits of a row do not depend on what other rows
 * there are. Where weights are not packed, and where a call has rows enough of its own, it keeps its
 * products. What takes several rounds runs by itself, before the others. */
#include "kept.h"
#include "many_lay_out.h"
#include "tensor.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

/* Multiply-adds of attention, and bytes to be copied, that are worth a hand-over to a thread. */
#define ENOUGH_WORK 2e5
#define ENOUGH_BYTES ((size_t)1 << 17)
#define ENOUGH_ROWS ((size_t)128)

struct many {
    const struct attn_parallel *parallel;
    float *const *const *outputs;
    struct attni_many_places places;
    unsigned char *scratch;
    struct attni_joined *joined; /* [n], and after them what is gathered */
    size_t n;
    bool copies
        [3]; /* queries, keys, values: are rows gathered, or those of an earlier one? */
    size_t *starts; /* [n + 1]: bundles before each */
    void (*task)(const struct many *, struct attni_joined *, size_t task,
                 unsigned char *scratch);
};

bool attn_plan_joins(const attn_plan *plan)
{
    return !plan->mode.gradient && plan->mode.n_draws == 0 &&
           !plan->layer->spec.scores_only;
}

enum attn_status attn_many_scratch(const attn_plan *const *plans, size_t n_plans,
                                   size_t n_workers, size_t *n_bytes)
{
    struct attni_many_places places = {0};
    size_t bytes, most;
    if (n_workers == 0) {
        return ATTN_INVALID;
    }
    if (n_plans > 0) {
        attni_many_lay_out(plans, n_plans, &places);
    }
    /* 64 more, so that the parts can be aligned whatever the memory's own alignment */
    if (places.overflow || !attni_multiply(n_workers, places.worker_bytes, &bytes) ||
        !attni_add(bytes, places.shared_bytes, &bytes) || !attni_add(bytes, 64, &most) ||
        most > PTRDIFF_MAX) {
        return ATTN_TOO_LARGE;
    }
    for (size_t p = 0; p < n_plans; p++) {
        if (attni_many_goes_alone(plans[p])) {
            enum attn_status status = attn_plan_scratch(plans[p], n_workers, &bytes);
            if (status) {
                return status;
            }
            most = bytes > most ? bytes : most;
        }
    }
    *n_bytes = most;
    return ATTN_OK;
}

static float *floats_at(const struct many *many, size_t at)
{
    return (float *)(void *)(many->scratch + at);
}

/* ---- stages -------------------------------------------------------------------------------- */

/* Whose bundle this is. */
static size_t owner_of(const struct many *many, size_t bundle)
{
    size_t low = 0, high = many->n + 1;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (many->starts[middle] <= bundle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static void bundle_task(void *argument, size_t bundle, size_t worker)
{
    const struct many *many = argument;
    size_t owner = owner_of(many, bundle), at = bundle - many->starts[owner];
    struct attni_joined *joined = &many->joined[owner];
    size_t end = attni_part_start(joined->n_tasks, joined->n_bundles, at + 1);
    unsigned char *scratch =
        many->scratch + many->places.shared_bytes + worker * many->places.worker_bytes;
    for (size_t task = attni_part_start(joined->n_tasks, joined->n_bundles, at);
         task < end; task++) {
        many->task(many, joined, task, scratch);
    }
}

static void set_tasks(struct attni_joined *joined, size_t n_tasks, size_t n_bundles)
{
    joined->n_tasks = n_tasks;
    joined->n_bundles = n_bundles < n_tasks ? n_bundles : n_tasks;
}

/* Run a stage, the tasks of which have been set. */
static void run_stage(struct many *many, const struct attn_parallel *parallel,
                      void (*task)(const struct many *, struct attni_joined *, size_t,
                                   unsigned char *))
{
    size_t n = 0;
    many->task = task;
    for (size_t p = 0; p <= many->n; p++) {
        many->starts[p] = n;
        n += many->joined[p].n_bundles;
    }
    attni_run_spread(parallel, n, bundle_task, many);
}

/* The same for a task for each plan that copies its rows; n_bytes: of all. */
static void run_copies(struct many *many, size_t n_bytes,
                       void (*task)(const struct many *, struct attni_joined *, size_t,
                                    unsigned char *))
{
    for (size_t p = 0; p <= many->n; p++) {
        set_tasks(&many->joined[p], many->joined[p].gathered, 1);
    }
    run_stage(many, n_bytes < ENOUGH_BYTES ? NULL : many->parallel, task);
}

/* ---- queries, keys and values -------------------------------------------------------------- */

/* The product of queries, keys or values; NULL: there is none. */
static struct attni_product *product_of(struct attni_joined *joined, size_t which)
{
    for (size_t i = 0; i < joined->products.n; i++) {
        if (joined->products.which[i] == which) {
            return &joined->products.items[i];
        }
    }
    return NULL;
}

/* Whether the same rows make both, in every plan that gathers. */
static bool are_alike(const struct many *many, size_t a, size_t b)
{
    bool alike = true;
    for (size_t p = 0; p < many->n && alike; p++) {
        const struct attni_product *one = product_of(&many->joined[p], a),
                                   *other = product_of(&many->joined[p], b);
        alike = !many->joined[p].gathered ||
                (one && other ? one->x == other->x && one->n_rows == other->n_rows
                              : one == other);
    }
    return alike;
}

/* The kind whose gathered rows make this one. */
static size_t origin_of(const struct many *many, size_t which)
{
    size_t origin = 0;
    while (origin < which && !are_alike(many, origin, which)) {
        origin++;
    }
    return origin;
}

/* Let the core read its rows where the joint product leaves them, instead of the plan's own. */
static void redirect(struct attni_joined *joined, size_t which,
                     const struct attni_product *own, const struct attni_product *joint,
                     size_t first)
{
    struct attni_rows *rows[] = {&joined->run.core.query, &joined->run.core.key,
                                 &joined->run.core.value};
    bool by_block = joined->run.plan->rounds.by_block[which];
    rows[which]->data = joint->y + (rows[which]->data - own->y) + first * own->row;
    rows[which]->head =
        by_block && rows[which]->head ? joint->block_stride : rows[which]->head;
}

/* Join the products of one kind: a place for the rows of each plan, and a product of all. */
static void join_products(struct many *many, size_t which)
{
    struct attni_joined *all = &many->joined[many->n];
    struct attni_product joint = {.n_rows = 0};
    for (size_t p = 0; p < many->n; p++) {
        const struct attni_product *own = product_of(&many->joined[p], which);
        if (many->joined[p].gathered && own) {
            size_t first = joint.n_rows;
            many->joined[p].first[which] = first;
            joint = *own;
            joint.n_rows += first;
        }
    }
    if (joint.n_rows == 0) {
        return;
    }
    size_t origin = origin_of(many, which);
    many->copies[which] = origin == which;
    joint.x = floats_at(many, many->places.rows_at[origin]);
    joint.y = floats_at(many, many->places.products_at[which]);
    joint.block_stride = joint.n_rows * joint.row;
    all->products.which[all->products.n] = which;
    all->products.items[all->products.n++] = joint;
}

/* A fused product makes all three, unless they lie head by head. */
static void redirect_rows(struct many *many, struct attni_joined *joined)
{
    for (size_t i = 0; joined->gathered && i < 3; i++) {
        bool fused = joined->run.plan->layer->fused.weight != NULL;
        size_t maker = fused && !joined->run.plan->rounds.by_block[i] ? 0 : i;
        const struct attni_product *own = product_of(joined, maker);
        const struct attni_product *joint = product_of(&many->joined[many->n], maker);
        if (own && joint) {
            redirect(joined, i, own, joint, joined->first[maker]);
        }
    }
}

static void gather_task(const struct many *many, struct attni_joined *joined, size_t task,
                        unsigned char *scratch)
{
    (void)task;
    (void)scratch;
    for (size_t i = 0; i < 3; i++) {
        const struct attni_product *own = product_of(joined, i);
        if (own && many->copies[i]) {
            size_t n_in = own->linear->n_in;
            float *rows = floats_at(many, many->places.rows_at[i]);
            memcpy(rows + joined->first[i] * n_in, own->x,
                   own->n_rows * n_in * sizeof *rows);
        }
    }
}

static size_t gathered_bytes(const struct many *many)
{
    struct attni_joined *all = &many->joined[many->n];
    size_t n = 0;
    for (size_t i = 0; i < all->products.n; i++) {
        const struct attni_product *joint = &all->products.items[i];
        n += many->copies[all->products.which[i]] ? joint->n_rows * joint->linear->n_in
                                                  : 0;
    }
    return n * sizeof(float);
}

static void product_task(const struct many *many, struct attni_joined *joined,
                         size_t task, unsigned char *scratch)
{
    (void)many;
    attni_products_task(&joined->products, task, scratch);
}

static void run_products(struct many *many)
{
    for (size_t i = 0; i < 3; i++) {
        join_products(many, i);
    }
    for (size_t p = 0; p < many->n; p++) {
        redirect_rows(many, &many->joined[p]);
    }
    run_copies(many, gathered_bytes(many), gather_task);
    for (size_t p = 0; p <= many->n; p++) {
        struct attni_joined *joined = &many->joined[p];
        size_t n_tasks = joined->gathered ? 0 : attni_products_count(&joined->products);
        set_tasks(joined, n_tasks, n_tasks);
    }
    run_stage(many, many->parallel, product_task);
}

/* ---- heads --------------------------------------------------------------------------------- */

static void store_task(const struct many *many, struct attni_joined *joined, size_t task,
                       unsigned char *scratch)
{
    (void)many;
    (void)scratch;
    attni_kept_store(joined->run.plan, &joined->run.core.key, &joined->run.core.value,
                     task);
}

/* New keys and values of sequences that grow go to their pages. */
static void store_kept(struct many *many)
{
    size_t n_rows = 0;
    set_tasks(&many->joined[many->n], 0, 0);
    for (size_t p = 0; p < many->n; p++) {
        const attn_plan *plan = many->joined[p].run.plan;
        bool grows = plan->kept.kind == ATTNI_KEPT_GROW;
        set_tasks(&many->joined[p], grows ? plan->n_batch : 0, plan->n_batch);
        n_rows += grows ? plan->n_batch * plan->n_queries : 0;
    }
    run_stage(many, n_rows < ENOUGH_ROWS ? NULL : many->parallel, store_task);
    for (size_t p = 0; p < many->n; p++) {
        if (many->joined[p].run.plan->kept.kind == ATTNI_KEPT_GROW) {
            attni_run_read_kept(&many->joined[p].run);
        }
    }
}

static void core_task(const struct many *many, struct attni_joined *joined, size_t task,
                      unsigned char *scratch)
{
    (void)many;
    attni_core_run(&joined->run.core, task, scratch);
}

static void run_heads(struct many *many)
{
    for (size_t p = 0; p < many->n; p++) {
        struct attni_joined *joined = &many->joined[p];
        size_t n_tasks = attni_core_n_tasks(&joined->run.core);
        double n_bundles = attni_plan_attention_cost(joined->run.plan) / ENOUGH_WORK;
        set_tasks(joined, n_tasks,
                  n_bundles < (double)n_tasks ? 1 + (size_t)n_bundles : n_tasks);
    }
    set_tasks(&many->joined[many->n], 0, 0);
    run_stage(many, many->parallel, core_task);
}

/* ---- outputs ------------------------------------------------------------------------------- */

/* What the heads of a plan give lies among the gathered rows, if it is to be projected. */
static void join_outputs(struct many *many)
{
    struct attni_joined *all = &many->joined[many->n];
    struct attni_product joint = {.n_rows = 0};
    float *context = floats_at(many, many->places.context_at);
    for (size_t p = 0; p < many->n; p++) {
        struct attni_joined *joined = &many->joined[p];
        joined->output.n = attni_run_output(&joined->run, &joined->output.items[0]);
        if (!joined->gathered || joined->output.n == 0) {
            continue;
        }
        const struct attni_product *own = &joined->output.items[0];
        size_t first = joint.n_rows;
        joined->first[ATTNI_OF_HEADS] = first;
        joined->run.core.context.data = context + first * own->linear->n_in;
        joint = *own;
        joint.n_rows += first;
    }
    joint.x = context;
    joint.y = floats_at(many, many->places.output_at);
    all->output.items[0] = joint;
    all->output.n = joint.n_rows > 0;
}

static void output_task(const struct many *many, struct attni_joined *joined, size_t task,
                        unsigned char *scratch)
{
    (void)many;
    attni_products_task(&joined->output, task, scratch);
}

static void scatter_task(const struct many *many, struct attni_joined *joined,
                         size_t task, unsigned char *scratch)
{
    (void)task;
    (void)scratch;
    const struct attni_product *own = &joined->output.items[0];
    if (joined->output.n > 0) {
        memcpy(own->y,
               floats_at(many, many->places.output_at) +
                   joined->first[ATTNI_OF_HEADS] * own->row,
               own->n_rows * own->row * sizeof(float));
    }
}

static void run_outputs(struct many *many)
{
    const struct attni_product *joint = &many->joined[many->n].output.items[0];
    for (size_t p = 0; p <= many->n; p++) {
        struct attni_joined *joined = &many->joined[p];
        size_t n_tasks = joined->gathered ? 0 : attni_products_count(&joined->output);
        set_tasks(joined, n_tasks, n_tasks);
    }
    run_stage(many, many->parallel, output_task);
    if (many->joined[many->n].output.n > 0) {
        run_copies(many, joint->n_rows * joint->row * sizeof(float), scatter_task);
    }
}

/* ---- the steps after the heads ------------------------------------------------------------- */

static void post_task(const struct many *many, struct attni_joined *joined, size_t task,
                      unsigned char *scratch)
{
    (void)many;
    (void)scratch;
    attni_post_run(joined->post.post, &joined->post.data, task);
}

static void run_posts(struct many *many, enum attni_post_owner owner)
{
    set_tasks(&many->joined[many->n], 0, 0);
    for (size_t p = 0; p < many->n; p++) {
        struct attni_joined *joined = &many->joined[p];
        joined->post = attni_run_post_step(joined->run.plan, owner, joined->run.out, 0,
                                           many->outputs[joined->index]);
        size_t n_tasks = joined->run.out
                             ? attni_post_n_tasks(joined->post.post, &joined->post.data)
                             : 0;
        set_tasks(joined, n_tasks, n_tasks);
    }
    run_stage(many, many->parallel, post_task);
}

/* ---- start --------------------------------------------------------------------------------- */

/* Take up a plan that has something to compute; a wrong one is left out. */
static void take_up(struct many *many, const attn_plan *plan, size_t index, size_t own_at,
                    struct attn_error *error)
{
    struct attni_joined *joined = &many->joined[many->n];
    *joined = (struct attni_joined){.index = index,
                                    .gathered = attni_many_gathers(&many->places, plan)};
    if (attni_run_start(&joined->run, plan, NULL, many->scratch + own_at, error)) {
        return;
    }
    joined->run.out = attni_run_memory(&joined->run, 0, 0, many->outputs[index]);
    joined->run.attention = attni_run_memory(&joined->run, 1, 0, many->outputs[index]);
    if (joined->run.out || joined->run.attention) {
        attni_run_prepare(&joined->run, &joined->products);
        many->n++;
    }
}

static void take_up_all(struct many *many, const attn_plan *const *plans, size_t n_plans,
                        struct attn_error *errors)
{
    size_t own_at = many->places.own_at;
    many->joined =
        (struct attni_joined *)(void *)(many->scratch + many->places.joined_at);
    many->starts = (size_t *)(void *)(many->scratch + many->places.starts_at);
    for (size_t p = 0; p < n_plans; p++) {
        if (!attni_many_goes_alone(plans[p])) {
            take_up(many, plans[p], p, own_at, &errors[p]);
            own_at += attni_many_own_bytes(&many->places, plans[p]);
        }
    }
    many->joined[many->n] = (struct attni_joined){.gathered = false};
}

static void run_joined(struct many *many)
{
    join_outputs(many);
    run_products(many);
    store_kept(many);
    run_heads(many);
    run_outputs(many);
    for (size_t i = 0; i < ATTNI_N_POSTS; i++) {
        run_posts(many, (enum attni_post_owner)i);
    }
}

void attn_forward_many(const attn_plan *const *plans, size_t n_plans,
                       float *const *const *outputs, void *scratch,
                       const struct attn_parallel *parallel, struct attn_error *errors)
{
    uintptr_t misaligned = (uintptr_t)scratch % 64;
    struct many many = {.parallel = parallel,
                        .outputs = outputs,
                        .scratch = (unsigned char *)scratch +
                                   (misaligned ? 64 - misaligned : 0)};
    for (size_t p = 0; p < n_plans; p++) {
        assert(attn_plan_joins(plans[p]) && plans[p]->layer == plans[0]->layer);
        if (attni_many_goes_alone(plans[p])) {
            enum attn_status status =
                attn_forward(plans[p], outputs[p], scratch, parallel, &errors[p]);
            assert(status == errors[p].status);
            (void)status;
        }
    }
    if (n_plans > 0) {
        attni_many_lay_out(plans, n_plans, &many.places);
        take_up_all(&many, plans, n_plans, errors);
        if (many.n > 0) {
            run_joined(&many);
        }
    }
    for (size_t p = 0; p < n_plans; p++) {
        if (errors[p].status == ATTN_OK) {
            attni_kept_commit(plans[p]);
        }
    }
}
