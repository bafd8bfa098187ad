/* attention.h - libattention: trained attention layers as data, computed in float32.
 *
 * The life of a layer:
 *
 *     attn_weights_read      a safetensors file -> named, checked tensors
 *     attn_spec_preset       options of a known layer -> a spec (plain data)
 *     attn_layer_create      spec + weights -> an immutable layer
 *     attn_plan_create       layer + inputs -> checked shapes, output shapes, scratch size
 *     attn_forward           plan + memory -> the outputs
 *     attn_backward          the same for a plan of gradients
 *     attn_forward_many      many plans of one layer in one pass over its weights
 *     attn_cache_create      a sequence whose keys and values are kept from call to call
 *                            (attention_cache.h, which this header includes)
 *
 * Rules that hold for every function, unless its comment says otherwise:
 *  - All arguments are borrowed; nothing is kept after the call returns. Tensors are row-major and
 *    contiguous, little-endian, with no alignment beyond that of their element.
 *  - `error` may be NULL. On failure it receives the status, the name of what was wrong and a
 *    message that says what was expected and what came. It is untouched on success, and the first
 *    failure written to it stays until attn_error_clear.
 *  - Functions may be called from any number of threads at once as long as they do not share a
 *    non-const object. A layer is immutable: share it freely.
 *  - The library never prints, never exits, starts no threads and reads no environment but
 *    ATTN_ISA (which kernels to use; see attn_kernels_name).
 */
#ifndef ATTENTION_H
#define ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ATTN_MUST_CHECK __attribute__((warn_unused_result))
#else
#define ATTN_MUST_CHECK
#endif

/* "0.1.0": the version of the library that is running. Static. */
const char *attn_version(void);

/* The kernels chosen for this processor ("ref" is the plain C that defines the right answer).
 * Chosen once, at the first call; the environment variable ATTN_ISA=<name> forces one. Static. */
const char *attn_kernels_name(void);

/* The matrix library behind the projections, as it describes itself, for a log line. Static. It is loaded
 * on processors for which there are no kernels only. */
const char *attn_blas_name(void);

/* ---- errors ---------------------------------------------------------------------------- */

#define ATTN_STATUS_LIST(X)                                                           \
    X(ATTN_OK, "ok")                                                                  \
    X(ATTN_INVALID, "invalid value")    /* an argument or option is not allowed */    \
    X(ATTN_SHAPE, "shape mismatch")     /* a shape fits neither layer nor inputs */   \
    X(ATTN_DTYPE, "wrong data type")    /* the element type cannot serve here */      \
    X(ATTN_MISSING, "missing")          /* an input, option or parameter is absent */ \
    X(ATTN_UNKNOWN, "unknown name")     /* a name that the layer does not have */     \
    X(ATTN_RANGE, "index out of range") /* an edge points outside */                  \
    X(ATTN_FORMAT, "malformed file")    /* bytes that are not valid safetensors */    \
    X(ATTN_TOO_LARGE, "too large")      /* a size that does not fit the machine */    \
    X(ATTN_NO_MEMORY, "out of memory")                                                \
    X(ATTN_IO, "input/output error") /* a file could not be read */

enum attn_status {
#define ATTN_STATUS_ENUM(name, text) name,
    ATTN_STATUS_LIST(ATTN_STATUS_ENUM)
#undef ATTN_STATUS_ENUM
};

/* The text of a status, static; "unknown status" for a value that is none. */
const char *attn_status_text(enum attn_status status);

struct attn_error {
    enum attn_status status; /* ATTN_OK while nothing has failed */
    char field[128];   /* what was wrong: an input, option or tensor name; may be "" */
    char message[512]; /* one line, complete on its own */
};

void attn_error_clear(struct attn_error *error);

/* ---- tensors --------------------------------------------------------------------------- */

#define ATTN_MAX_RANK 8
/* Longest name of an input, output or parameter, with its NUL. */
#define ATTN_NAME_SIZE 128

/* name in safetensors, bytes an element */
#define ATTN_DTYPE_LIST(X)                         \
    X(ATTN_F32, "F32", 4)                          \
    X(ATTN_F64, "F64", 8)                          \
    X(ATTN_F16, "F16", 2)                          \
    X(ATTN_BF16, "BF16", 2)                        \
    X(ATTN_BOOL, "BOOL", 1) /* one byte, 0 or 1 */ \
    X(ATTN_I8, "I8", 1)                            \
    X(ATTN_I16, "I16", 2)                          \
    X(ATTN_I32, "I32", 4)                          \
    X(ATTN_I64, "I64", 8)                          \
    X(ATTN_U8, "U8", 1)                            \
    X(ATTN_U16, "U16", 2)                          \
    X(ATTN_U32, "U32", 4)                          \
    X(ATTN_U64, "U64", 8)                          \
    X(ATTN_F8_E4M3, "F8_E4M3", 1)                  \
    X(ATTN_F8_E5M2, "F8_E5M2", 1)

enum attn_dtype {
#define ATTN_DTYPE_ENUM(name, text, bytes) name,
    ATTN_DTYPE_LIST(ATTN_DTYPE_ENUM)
#undef ATTN_DTYPE_ENUM
};

const char *attn_dtype_name(enum attn_dtype dtype); /* "F32"; static */
size_t attn_dtype_size(enum attn_dtype dtype);      /* bytes an element */

/* A view of elements that somebody else owns. */
struct attn_tensor {
    enum attn_dtype dtype;
    size_t rank; /* 0 (one element) to ATTN_MAX_RANK */
    size_t shape[ATTN_MAX_RANK];
    const void *data; /* row-major; may be NULL where there are no elements */
};

struct attn_named_tensor {
    const char *name;
    struct attn_tensor tensor;
};

/* Elements, and bytes, of a tensor of this shape; ATTN_TOO_LARGE when that overflows size_t.
 * A shape with a 0 in it has 0 elements however large its other axes. */
enum attn_status attn_tensor_count(const struct attn_tensor *tensor,
                                   size_t *n) ATTN_MUST_CHECK;
enum attn_status attn_tensor_bytes(const struct attn_tensor *tensor,
                                   size_t *n) ATTN_MUST_CHECK;

/* out[i] = (float)in[i] for i < n, rounded to nearest; in: n elements of F32, F64, F16 or BF16 at
 * any alignment; out: n floats. NaN stays NaN, infinities stay infinite.
 * ATTN_DTYPE: another type. ATTN_RANGE: a finite F64 is beyond float's range; *bad is its index
 * (bad may be NULL) and out[0..*bad) is written. */
enum attn_status attn_convert_to_f32(enum attn_dtype dtype, const void *in, size_t n,
                                     float *out, size_t *bad) ATTN_MUST_CHECK;

/* ---- weights --------------------------------------------------------------------------- */

/* The tensors of one safetensors file, and which of them a layer means by its parameter names. */
typedef struct attn_weights attn_weights;

/* Check bytes as hostile input and index its tensors. The bytes are borrowed until
 * attn_weights_free. ATTN_FORMAT with the tensor's name and what is wrong with it. */
enum attn_status attn_weights_parse(const void *bytes, size_t n_bytes,
                                    attn_weights **weights,
                                    struct attn_error *error) ATTN_MUST_CHECK;

/* The same for a file, which is read whole into memory that the result owns (it is not mapped:
 * replacing or truncating the file later cannot hurt). ATTN_IO names the path and the reason. */
enum attn_status attn_weights_read(const char *path, attn_weights **weights,
                                   struct attn_error *error) ATTN_MUST_CHECK;

void attn_weights_free(attn_weights *weights); /* NULL is fine */

/* Tensors in the file's own order of data, under the file's own names. The results live as long
 * as weights. attn_weights_at needs index < attn_weights_count. */
size_t attn_weights_count(const attn_weights *weights);
const struct attn_named_tensor *attn_weights_at(const attn_weights *weights,
                                                size_t index);

/* What the file says about itself under that key ("__metadata__"), or NULL; the first, where it says so
 * twice. A text with a NUL in it is passed over. Lives as long as weights. */
const char *attn_weights_metadata(const attn_weights *weights, const char *key);

/* Pick one layer out of a larger file. A layer's parameter P is looked up as the name given for it
 * by attn_weights_rename, in full, else as prefix followed by P. Both copy their strings.
 * ATTN_INVALID: a string of ATTN_NAME_SIZE bytes or more.
 * attn_weights_rename: ATTN_MISSING when the file has no tensor of that name, ATTN_INVALID when
 * the parameter was renamed already. */
enum attn_status attn_weights_set_prefix(attn_weights *weights, const char *prefix,
                                         struct attn_error *error) ATTN_MUST_CHECK;
enum attn_status attn_weights_rename(attn_weights *weights, const char *parameter,
                                     const char *file_name,
                                     struct attn_error *error) ATTN_MUST_CHECK;

/* The renamed parameters, in order of renaming: attn_layer_create refuses those that it does not
 * have. attn_weights_renamed needs index < attn_weights_n_renamed. */
size_t attn_weights_n_renamed(const attn_weights *weights);
const char *attn_weights_renamed(const attn_weights *weights, size_t index);

/* The tensor that a parameter means, or NULL. file_name (may be NULL) receives the name that was
 * looked up, for messages. */
const struct attn_tensor *attn_weights_find(const attn_weights *weights,
                                            const char *parameter,
                                            char file_name[2 * ATTN_NAME_SIZE]);

/* ---- specs ----------------------------------------------------------------------------- */

/* A learned linear map y = x W^T + b, or none. */
struct attn_linear_spec {
    char weight[ATTN_NAME_SIZE]; /* parameter [n_out, n_in]; "": no projection */
    char bias[ATTN_NAME_SIZE];   /* parameter [n_out]; "": no bias */
    size_t n_in, n_out;
    bool in_out;        /* the weight is stored [n_in, n_out] */
    bool bias_optional; /* an absent bias is zero */
    bool bias_frozen;   /* training leaves it alone: see ATTN_REDUCTION_MEAN */
};

enum attn_layout {
    ATTN_LAYOUT_ROWS, /* [batch, length, width]; heads are contiguous blocks of the width */
    ATTN_LAYOUT_HEADS, /* [batch, length, heads, width of a head] */
    ATTN_LAYOUT_FREE   /* scores only: [..., length, width], leading axes broadcast */
};

enum attn_scale {
    ATTN_SCALE_ONE,  /* scores are plain products */
    ATTN_SCALE_HEAD, /* divided by sqrt(width of a query head) */
    ATTN_SCALE_MODEL /* divided by sqrt(n_heads * width of a query head) */
};

/* How the weights of projections are kept in memory, whatever the file's type. */
enum attn_store {
    ATTN_STORE_F32,
    ATTN_STORE_BF16 /* half the memory; activations are rounded to bf16 at the multiply, sums are
                       float32: relative error of a product about 2^-8 */
};

enum attn_empty_rows {
    ATTN_EMPTY_ZERO, /* a query with every key blocked: probabilities 0 */
    ATTN_EMPTY_NAN   /* ... NaN, as softmax of -inf gives */
};

/* A boolean mask. axes[r] spells what a mask of rank r means, one letter an axis, each axis being
 * that size or 1: B batch, H heads, Q queries, K keys. "-": no mask of that rank. */
struct attn_mask_spec {
    char name[ATTN_NAME_SIZE]; /* input; "": the layer takes no mask */
    bool true_keeps;           /* true: keep the key; else true blocks it */
    char axes[5][5];
};

/* Sparse relations: `edges` [n,3] = (sample, query, key), `edge_types` [n]. Each adds
 * bias[type,h] . key (or bias[type,h] * sum of key) to its score; duplicates add up. */
struct attn_edge_spec {
    char edges[ATTN_NAME_SIZE]; /* input; "": none */
    char types[ATTN_NAME_SIZE]; /* input */
    size_t n_types;
    bool scalar; /* bias is [n_types, heads], else [n_types, heads * width] */
    char bias[ATTN_NAME_SIZE]; /* parameter */
    char value_bias
        [ATTN_NAME_SIZE]; /* parameter [n_types, heads * value width]; "": none */
};

enum attn_post_kind {
    ATTN_POST_NONE,
    ATTN_POST_DROPOUT, /* identity at inference */
    ATTN_POST_GROUP_NORM,
    ATTN_POST_BATCH_NORM,
    ATTN_POST_RELU,
    ATTN_POST_SIGMOID,
    ATTN_POST_TANH,
    ATTN_POST_SOFTMAX
};

/* What follows the joined heads. Statistics of a GroupNorm run over the positions of a group,
 * apart for each feature; gamma, beta and the running statistics are [length, width]. */
struct attn_post_spec {
    enum attn_post_kind kind;
    char prefix
        [32]; /* parameters are <prefix>.gamma, .beta, .running_mean, .running_var; all
                          may be absent: 1, 0, 0, 1 */
    size_t n_groups;    /* GROUP_NORM: positions are cut into so many groups */
    double probability; /* DROPOUT */
    double patience;    /* BATCH_NORM */
    int axis;           /* SOFTMAX: 0 samples, 1 positions, 2 features */
};

/* What a layer is, as plain data. Fill one with attn_spec_preset. */
struct attn_spec {
    size_t size;      /* sizeof(struct attn_spec) of the caller */
    char kind[32];    /* for messages and metadata */
    bool scores_only; /* output is the masked scores; no values, no softmax */

    enum attn_layout layout;
    char query[ATTN_NAME_SIZE];
    char key[ATTN_NAME_SIZE];   /* may equal query: self attention */
    char value[ATTN_NAME_SIZE]; /* may equal key: the same memory gives keys and values */
    bool key_optional;          /* an absent key input is the query input */
    bool single_row;            /* a rank-2 input [batch, width] has length 1 */
    bool batch_broadcast;       /* a batch of 1 serves any batch */

    size_t n_heads;
    size_t head_width; /* of queries and keys; 0: the inputs tell, divided by n_heads */
    size_t value_head_width; /* of values */
    size_t length; /* longest input and size of per-position parameters; 0: any */

    struct attn_linear_spec
        fused; /* one map for all three; columns are queries, keys, values */
    struct attn_linear_spec query_projection, key_projection, value_projection;

    enum attn_scale scale;
    bool clip;         /* s = clip_value * tanh(s), before anything is added */
    double clip_value; /* any finite number */
    bool causal;       /* query i sees keys 0..i */
    struct attn_mask_spec mask;
    struct attn_edge_spec edge;
    char dense_kq
        [ATTN_NAME_SIZE]; /* input [batch, queries, keys, heads], added to scores */
    char dense_kv
        [ATTN_NAME_SIZE];   /* input [..., value width], added to values, pair by pair */
    double dropout;         /* of probabilities, in training: 0 to 1 */
    bool attention_dropped; /* the attention output is taken after dropout, else before */
    bool gradient_mean; /* gradients of parameters are ATTN_REDUCTION_MEAN by default */
    enum attn_empty_rows empty_rows;
    enum attn_store weights_dtype;

    struct attn_linear_spec output_projection;
    struct attn_post_spec normalisation; /* first */
    struct attn_post_spec activation;    /* second; may be a normalisation too */
    bool squeeze_output; /* [batch, length, 1] is returned as [batch, length] */

    char output[ATTN_NAME_SIZE];
    char attention[ATTN_NAME_SIZE]; /* [batch, heads, queries, keys]; "": not offered */
};

enum attn_option_type {
    ATTN_OPTION_NULL, /* as if left out, where the layer allows that */
    ATTN_OPTION_BOOL,
    ATTN_OPTION_INT,
    ATTN_OPTION_REAL,
    ATTN_OPTION_INTS,  /* a shape */
    ATTN_OPTION_MODULE /* a module with options of its own: {"type": "GroupNorm", ...} */
};

/* One option of a preset, by the name that the original gives it. */
struct attn_option {
    const char *name;
    enum attn_option_type type;
    bool boolean;
    int64_t integer;
    double real;
    size_t n_integers; /* at most ATTN_MAX_RANK */
    int64_t integers[ATTN_MAX_RANK];
    const char *module;
    const struct attn_option *options; /* of the module */
    size_t n_options;
};

static inline struct attn_option attn_bool(const char *name, bool value)
{
    struct attn_option option = {0};
    option.name = name;
    option.type = ATTN_OPTION_BOOL;
    option.boolean = value;
    return option;
}

static inline struct attn_option attn_int(const char *name, int64_t value)
{
    struct attn_option option = {0};
    option.name = name;
    option.type = ATTN_OPTION_INT;
    option.integer = value;
    return option;
}

static inline struct attn_option attn_real(const char *name, double value)
{
    struct attn_option option = {0};
    option.name = name;
    option.type = ATTN_OPTION_REAL;
    option.real = value;
    return option;
}

/* The presets, "routing_score" and so on; NULL past the last. Static. */
const char *attn_preset_name(size_t index);

/* Fill *spec (spec->size must be set) with the layer `kind` under the given options; an option left
 * out has the original's default. ATTN_UNKNOWN: no such kind or option. ATTN_MISSING: an option
 * that has no default. ATTN_INVALID: a value that the layer cannot have. */
enum attn_status attn_spec_preset(struct attn_spec *spec, const char *kind,
                                  const struct attn_option *options, size_t n_options,
                                  struct attn_error *error) ATTN_MUST_CHECK;

/* ---- layers ---------------------------------------------------------------------------- */

typedef struct attn_layer attn_layer;

/* Check the spec, look its parameters up in weights (NULL: a file without tensors), check their
 * shapes, convert and copy them. Weights may be freed afterwards. */
enum attn_status attn_layer_create(const struct attn_spec *spec,
                                   const attn_weights *weights, attn_layer **layer,
                                   struct attn_error *error) ATTN_MUST_CHECK;

void attn_layer_free(attn_layer *layer); /* NULL is fine; no plan of it may be left */

const struct attn_spec *
attn_layer_spec(const attn_layer *layer);         /* lives as long as layer */
size_t attn_layer_bytes(const attn_layer *layer); /* memory held by parameters */

/* 32 hexadecimal digits that two layers have in common if they compute the same: made of the spec, and of
 * name, shape, type and bytes of every parameter as it was read. They depend on nothing of the machine.
 * Not a defence against somebody who looks for two layers with the same digits. Lives as long as layer. */
const char *attn_layer_fingerprint(const attn_layer *layer);

/* An input or output as a client sees it. */
struct attn_port {
    const char *name;
    enum attn_dtype dtype; /* F32, BOOL or I64 (I32 is taken too) */
    size_t rank;           /* of the usual form; masks and scores take others too */
    int64_t shape[ATTN_MAX_RANK]; /* -1: any size */
    bool optional; /* input: may be left out; output: computed only when asked for */
};

/* How the gradient of a parameter gathers the samples of a batch. */
enum attn_reduction {
    ATTN_REDUCTION_DEFAULT, /* as the spec says (gradient_mean) */
    ATTN_REDUCTION_SUM,     /* their sum: the plain derivative */
    ATTN_REDUCTION_MEAN     /* their mean; that of a frozen bias is 0 */
};

/* The most draws of one call. */
#define ATTN_MAX_DRAWS 1024

/* What a call does beyond inference; all zeros but `size`: inference.
 *
 * In training, dropout drops and BatchNorm takes the statistics of the batch. Each draw is given as
 * an input or made from the seed: element (sample, head, query, key) of the probabilities, or
 * (sample, position, feature) of what a Dropout module takes, has a draw of its own, which depends on
 * the seed and on these numbers alone. What is drawn is kept with the probability 1 - p and then
 * divided by 1 - p.
 *
 * With n_draws the forward runs so many times, draw d with the seed `seed + d`, and every output
 * has a leading axis of draws; OUTPUT.mean and OUTPUT.variance (population) are what they come to.
 *
 * With `gradient` the plan is for attn_backward, which does the forward itself. For
 * L = sum(grad_output * main output) + sum(grad_attention * attention), either being 0 where it is
 * not given, grad_INPUT is dL/dINPUT for each float input (one that broadcasts has the sum) and
 * grad.PARAMETER dL/dPARAMETER, gathered as `reduction` says. */
struct attn_mode {
    size_t size; /* sizeof(struct attn_mode) of the caller */
    bool training;
    uint64_t seed;
    size_t
        n_draws; /* 0: one, without an axis of its own. Needs training; not with gradient */
    bool gradient;
    enum attn_reduction reduction;
};

/* The ports of a layer in a mode (NULL: inference), whose names live as long as the layer. Beside
 * those of inference:
 *   training  inputs   dropout_uniform [batch, heads, queries, keys], and normalisation_uniform and
 *                      activation_uniform [batch, length, width] where that is a Dropout: draws in
 *                      [0, 1), which replace those of the seed; not with n_draws
 *             outputs  state.P: the moved statistics P of a BatchNorm; not with n_draws
 *   n_draws   outputs  X.mean, X.variance of each output X
 *   gradient  inputs   grad_output, grad_attention: at least one of them
 *             outputs  grad_X, grad.P; those of inference become optional
 * ATTN_MAX_PORTS is the most that any layer has of either. */
#define ATTN_MAX_PORTS 32
size_t attn_layer_inputs(const attn_layer *layer, const struct attn_mode *mode,
                         struct attn_port ports[ATTN_MAX_PORTS]);
size_t attn_layer_outputs(const attn_layer *layer, const struct attn_mode *mode,
                          struct attn_port ports[ATTN_MAX_PORTS]);

/* ---- forward --------------------------------------------------------------------------- */

/* One task of a forward: runs on worker < n_workers, never two at once on the same worker. */
typedef void attn_task(void *argument, size_t task, size_t worker);

/* How a caller spreads tasks over threads. run must return after every task in [0, n_tasks) has
 * run once; they are independent, in any order. */
struct attn_parallel {
    size_t n_workers; /* at least 1 */
    void (*run)(void *context, size_t n_tasks, attn_task *task, void *argument);
    void *context;
};

/* The shapes of one call, checked. Immutable; refers to the layer and to the inputs' data. */
typedef struct attn_plan attn_plan;

/* Check inputs (shapes, types, names; data is not read) and lay out a call that computes the outputs
 * named. n_outputs = 0: all that are not optional, but for gradients of inputs that are not given.
 * mode NULL: inference. Layer, input data and nothing else must outlive the plan.
 * ATTN_UNKNOWN, ATTN_MISSING, ATTN_DTYPE, ATTN_SHAPE: error->field names the input or output;
 * ATTN_INVALID: one was given twice, or a mode that contradicts itself (error->field names its
 * member); ATTN_TOO_LARGE: an output of more than size_t. */
enum attn_status attn_plan_create(const attn_layer *layer, const struct attn_mode *mode,
                                  const struct attn_named_tensor *inputs, size_t n_inputs,
                                  const char *const *outputs, size_t n_outputs,
                                  attn_plan **plan,
                                  struct attn_error *error) ATTN_MUST_CHECK;

void attn_plan_free(attn_plan *plan); /* NULL is fine */

/* What will be computed, in the order asked for; data is NULL. Lives as long as plan. */
size_t attn_plan_n_outputs(const attn_plan *plan);
const struct attn_named_tensor *attn_plan_output(const attn_plan *plan, size_t index);

/* Roughly the multiply-adds of the call: for a caller that has to decide whether it is worth spreading,
 * or whom it may keep waiting. A call of n_draws counts each of them, one of gradients counts its
 * forward too. */
double attn_plan_cost(const attn_plan *plan);

/* Rows that pass through the projections: batch * queries, and batch * keys too where keys are projected
 * from an input of their own; at most SIZE_MAX. For a caller that bounds how much it joins. */
size_t attn_plan_rows(const attn_plan *plan);

/* Bytes of scratch that the call needs for so many workers (1 when it runs inline).
 * ATTN_INVALID: no worker. ATTN_TOO_LARGE: more than size_t. */
enum attn_status attn_plan_scratch(const attn_plan *plan, size_t n_workers,
                                   size_t *n_bytes) ATTN_MUST_CHECK;

/* Memory for scratch, inputs or outputs: aligned to 64 bytes, its contents undefined and, from 2 MB
 * on, of large pages where the system has them: with the usual ones a tenth of the time of a large
 * forward goes into finding pages. NULL: out of memory. Release with attn_free; NULL is fine. */
void *attn_alloc(size_t n_bytes) ATTN_MUST_CHECK;
void attn_free(void *memory);

/* Compute. outputs[i]: float memory for attn_plan_output(plan, i); scratch: attn_plan_scratch
 * bytes, aligned as malloc does; parallel: NULL runs inline. Allocates nothing. One plan may run on
 * several threads at once, each with outputs and scratch of its own.
 * ATTN_RANGE: an edge or type points outside, or a draw is outside [0, 1) (its row or place is
 * named); outputs are then unspecified. ATTN_INVALID: the plan is one of gradients. */
enum attn_status attn_forward(const attn_plan *plan, float *const *outputs, void *scratch,
                              const struct attn_parallel *parallel,
                              struct attn_error *error) ATTN_MUST_CHECK;

/* The same for a plan of gradients. The forward is done again tile by tile, so memory does not grow
 * with queries times keys. A row of queries with every key blocked passes no gradient on under
 * ATTN_EMPTY_ZERO, and NaN under ATTN_EMPTY_NAN, as automatic differentiation does. */
enum attn_status attn_backward(const attn_plan *plan, float *const *outputs,
                               void *scratch, const struct attn_parallel *parallel,
                               struct attn_error *error) ATTN_MUST_CHECK;

/* ---- many calls in one pass ------------------------------------------------------------ */

/* Whether a plan may be one of many: a forward without n_draws of a layer that is more than scores. The
 * others are run alone. */
bool attn_plan_joins(const attn_plan *plan);

/* Scratch for attn_forward_many, in bytes; as attn_plan_scratch. */
enum attn_status attn_many_scratch(const attn_plan *const *plans, size_t n_plans,
                                   size_t n_workers, size_t *n_bytes) ATTN_MUST_CHECK;

/* Forward n_plans plans of the same layer, in one pass: the rows of all of them, of whatever lengths,
 * meet each weight together, and attention is one list of tasks over all. Nothing is padded, and
 * nothing of a call reaches another: every output has the very bits that attn_forward gives it.
 *
 * outputs[p][i]: as outputs[i] of attn_forward for plan p; errors[p], cleared by the caller, never NULL:
 * what is wrong with plan p, which harms no other. scratch: attn_many_scratch bytes; parallel as in
 * attn_forward. Allocates nothing. Every plan must be one that joins, of the same layer, and no two of
 * the same cache. */
void attn_forward_many(const attn_plan *const *plans, size_t n_plans,
                       float *const *const *outputs, void *scratch,
                       const struct attn_parallel *parallel, struct attn_error *errors);

#ifdef __cplusplus
}
#endif

/* Kept keys and values: attn_cache_create and what belongs to it. */
#include "attention_cache.h"

#endif
