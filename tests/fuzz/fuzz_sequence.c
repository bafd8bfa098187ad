/* fuzz_sequence.c - files of sequences against small layers, of each kind that keeps something: what is taken is
 * what would be written again, and can go on. The first byte chooses the layer. */
#include "codec/sequence_file.h"
#include "unit/lib/weights_file.h"

#define N_LAYERS 4

static attn_layer *create_layer(size_t which)
{
    static const struct {
        const char *kind;
        struct attn_option options[2];
        size_t n_options;
        const char *names[4];
        size_t shapes[4][2];
    } kinds[N_LAYERS] = {
        {"causal_mha",
         {{.name = "output_shape",
           .type = ATTN_OPTION_INTS,
           .n_integers = 2,
           .integers = {200, 4}},
          {.name = "n_heads", .type = ATTN_OPTION_INT, .integer = 2}},
         2,
         {"input_linear.weights"},
         {{4, 12}}},
        {"routing_mha_proj",
         {{.name = "embedding_dim", .type = ATTN_OPTION_INT, .integer = 4},
          {.name = "n_heads", .type = ATTN_OPTION_INT, .integer = 2}},
         2,
         {"queryEncoder.weight", "keyEncoder.weight", "valueEncoder.weight",
          "MHA.project_out.weight"},
         {{4, 4}, {4, 4}, {4, 4}, {4, 4}}},
        {"routing_mha",
         {{.name = "embedding_dim", .type = ATTN_OPTION_INT, .integer = 4},
          {.name = "n_heads", .type = ATTN_OPTION_INT, .integer = 2}},
         2,
         {"project_out.weight"},
         {{4, 4}}},
        {.kind = "routing_score"}};
    static const float numbers[48] = {1, 0.5f, -1};
    struct attn_named_tensor tensors[4];
    size_t n = 0, n_bytes;
    for (; n < 4 && kinds[which].names[n]; n++) {
        const size_t *shape = kinds[which].shapes[n];
        tensors[n] = (struct attn_named_tensor){
            kinds[which].names[n], {ATTN_F32, 2, {shape[0], shape[1]}, numbers}};
    }
    struct attn_spec spec = {.size = sizeof spec};
    attn_weights *weights = NULL;
    attn_layer *layer = NULL;
    unsigned char *file = weights_file(tensors, n, &n_bytes);
    if (attn_spec_preset(&spec, kinds[which].kind, kinds[which].options,
                         kinds[which].n_options, NULL) ||
        attn_weights_parse(file, n_bytes, &weights, NULL) ||
        attn_layer_create(&spec, weights, &layer, NULL)) {
        abort();
    }
    attn_weights_free(weights);
    free(file);
    return layer;
}

/* One more call, with queries of zeros, where what is kept fits them. */
static void go_on(const attn_layer *layer, attn_cache *cache,
                  const struct attn_cache_state *state)
{
    const struct attn_spec *spec = attn_layer_spec(layer);
    size_t width = strcmp(spec->kind, "routing_mha") == 0 ? 2 * state->key.shape[3]
                   : spec->scores_only ? state->key.shape[state->key.rank - 1]
                                       : 4;
    size_t batch = attn_cache_grows(cache) ? state->key.shape[0] : 1, scratch_bytes, n;
    if (width > 1000 || batch > 1000 || attn_cache_length(cache) > 1000) {
        return;
    }
    float *zeros = need_memory(batch * width * sizeof *zeros);
    const struct attn_named_tensor query = {spec->query,
                                            {ATTN_F32, 3, {batch, 1, width}, zeros}};
    attn_plan *plan = NULL;
    if (attn_cache_plan(cache, &query, 1, NULL, 0, &plan, NULL) == ATTN_OK &&
        attn_plan_scratch(plan, 1, &scratch_bytes) == ATTN_OK &&
        attn_tensor_count(&attn_plan_output(plan, 0)->tensor, &n) == ATTN_OK &&
        n <= 1000000 && scratch_bytes <= 100000000) {
        float *output = need_memory(n * sizeof *output);
        void *scratch = need_memory(scratch_bytes);
        if (attn_forward(plan, &output, scratch, NULL, NULL)) {
            abort();
        }
        free(scratch);
        free(output);
    }
    attn_plan_free(plan);
    free(zeros);
}

/* What was taken is written as a file that is taken again, and written the same. */
static void write_again(const struct ad_version *version, const attn_cache *cache)
{
    struct ad_buffer files[2];
    attn_cache *again = NULL;
    ad_buffer_init(&files[0]);
    ad_buffer_init(&files[1]);
    if (ad_sequence_file_write(version, cache, SIZE_MAX, &files[0], NULL) ||
        ad_sequence_file_read(version, files[0].data, files[0].size, &again, NULL) ||
        ad_sequence_file_write(version, again, SIZE_MAX, &files[1], NULL) ||
        files[0].size != files[1].size ||
        memcmp(files[0].data, files[1].data, files[0].size) != 0) {
        abort();
    }
    attn_cache_free(again);
    ad_buffer_reset(&files[0]);
    ad_buffer_reset(&files[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static attn_layer *layers[N_LAYERS];
    static char model[] = "m";
    struct ad_error error = {.status = AD_OK};
    attn_cache *cache = NULL;
    if (size == 0) {
        return 0;
    }
    size_t which = data[0] % N_LAYERS;
    if (!layers[which]) {
        layers[which] = create_layer(which);
    }
    const struct ad_version version = {
        .model = model, .text = "1", .layer = layers[which]};
    enum ad_status status =
        ad_sequence_file_read(&version, data + 1, size - 1, &cache, &error);
    if (status != error.status || (status == AD_OK) != (cache != NULL)) {
        abort();
    }
    if (cache) {
        struct attn_cache_state state = {.size = sizeof state};
        if (attn_cache_describe(cache, &state, NULL)) {
            abort();
        }
        write_again(&version, cache);
        go_on(layers[which], cache, &state);
    }
    attn_cache_free(cache);
    return 0;
}
