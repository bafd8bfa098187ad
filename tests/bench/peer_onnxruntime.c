/* peer_onnxruntime.c - times ONNX Runtime on one model, for comparison.
 *
 *     peer_onnxruntime LIBRARY FOLDER THREADS SECONDS
 *
 * FOLDER is one that peer_onnx_models.py wrote. Writes the timing and the error against the expected
 * result as the inside of a JSON object. The runtime is loaded while this runs, and of its table of
 * functions, whose order is its binary interface, only the few that are needed are described. */
#include "bench/cases.h"
#include "bench/problem.h"
#include "bench/timing.h"

#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API_VERSION 16
#define MOST 8

/* Handles of the runtime are never looked into. */
struct runtime_api {
    void *unused_0[2];
    const char *(*get_error_message)(const void *status);
    void *(*create_env)(int log_level, const char *name, void **env);
    void *unused_4[3];
    void *(*create_session)(void *env, const char *path, void *options, void **session);
    void *unused_8;
    void *(*run)(void *session, void *options, const char *const *input_names,
                 void *const *inputs, size_t n_inputs, const char *const *output_names,
                 size_t n_outputs, void **outputs);
    void *(*create_session_options)(void **options);
    void *unused_11[12];
    void *(*set_optimization_level)(void *options, int level);
    void *(*set_intra_op_threads)(void *options, int n_threads);
    void *unused_25[24];
    void *(*create_tensor)(void *memory_info, void *data, size_t n_bytes,
                           const int64_t *shape, size_t rank, int type, void **tensor);
    void *unused_50[19];
    void *(*create_cpu_memory_info)(int allocator, int memory, void **memory_info);
};

struct runtime_base {
    const struct runtime_api *(*get_api)(uint32_t version);
    const char *(*get_version)(void);
};

struct model {
    const struct runtime_api *api;
    void *session, *memory_info;
    size_t n_inputs;
    char names[MOST][32];
    const char *input_names[MOST];
    void *inputs[MOST];
    void *output;
    float *result, *expected;
    size_t n_results;
};

static void need(const struct runtime_api *api, void *status)
{
    if (status) {
        die("onnxruntime: %s", api->get_error_message(status));
    }
}

static void *file_bytes(const char *folder, const char *name, size_t n_bytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.raw", folder, name);
    FILE *file = fopen(path, "rb");
    void *bytes = bench_memory(n_bytes);
    if (!file || fread(bytes, 1, n_bytes, file) != n_bytes) {
        die("cannot read '%s'", path);
    }
    fclose(file);
    return bytes;
}

/* One line of the manifest: a tensor that goes in, or the result. */
static void add_tensor(struct model *model, const char *folder, char *line)
{
    char direction[8], name[32];
    int type, at;
    size_t n_bytes, rank;
    int64_t shape[MOST];
    if (sscanf(line, "%7s %31s %d %zu %zu%n", direction, name, &type, &n_bytes, &rank,
               &at) != 5 ||
        rank > MOST || model->n_inputs == MOST) {
        die("cannot read the manifest of '%s'", folder);
    }
    char *rest = line + at;
    for (size_t i = 0; i < rank; i++) {
        shape[i] = strtoll(rest, &rest, 10);
    }
    bool goes_in = strcmp(direction, "in") == 0;
    void *data = file_bytes(folder, name, n_bytes), **tensor = &model->output;
    if (goes_in) {
        strcpy(model->names[model->n_inputs], name);
        model->input_names[model->n_inputs] = model->names[model->n_inputs];
        tensor = &model->inputs[model->n_inputs++];
    } else {
        model->expected = data;
        model->n_results = n_bytes / sizeof(float);
        data = model->result = bench_memory(n_bytes);
    }
    need(model->api, model->api->create_tensor(model->memory_info, data, n_bytes, shape,
                                               rank, type, tensor));
}

static void open_model(struct model *model, const char *folder, int n_threads)
{
    const struct runtime_api *api = model->api;
    void *env, *options;
    char path[4096], line[512];
    need(api, api->create_env(3, "bench", &env)); /* log errors alone */
    need(api, api->create_session_options(&options));
    need(api, api->set_intra_op_threads(options, n_threads));
    need(api, api->set_optimization_level(options, 99)); /* everything it can do */
    need(api, api->create_cpu_memory_info(0, 0, &model->memory_info));
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    need(api, api->create_session(env, path, options, &model->session));
    snprintf(path, sizeof path, "%s/manifest.txt", folder);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        add_tensor(model, folder, line);
    }
    if (!file || !model->output) {
        die("cannot read '%s'", path);
    }
    fclose(file);
}

static void run(void *argument)
{
    static const char *const output_names[] = {"y"};
    struct model *model = argument;
    need(model->api,
         model->api->run(model->session, NULL, model->input_names, model->inputs,
                         model->n_inputs, output_names, 1, &model->output));
}

static double difference(const struct model *model)
{
    double worst = 0, largest = 0;
    for (size_t i = 0; i < model->n_results; i++) {
        double d = fabs((double)model->result[i] - (double)model->expected[i]);
        worst = d <= worst ? worst : d;
        largest = fmax(largest, fabs((double)model->expected[i]));
    }
    return worst / largest;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        die("usage: peer_onnxruntime LIBRARY FOLDER THREADS SECONDS");
    }
    void *library = dlopen(argv[1], RTLD_NOW);
    const struct runtime_base *(*get_base)(void) = NULL;
    if (library) {
        *(void **)&get_base = dlsym(library, "OrtGetApiBase");
    }
    if (!get_base) {
        die("cannot load '%s': %s", argv[1], dlerror());
    }
    const struct runtime_base *base = get_base();
    struct model model = {.api = base->get_api(API_VERSION)};
    open_model(&model, argv[2], (int)strtol(argv[3], NULL, 10));
    run(&model);
    double error = difference(&model);
    struct timing timing = time_it(strtod(argv[4], NULL), run, &model);
    printf("\"version\": \"%s\", \"n\": %zu, \"min_us\": %.3f, \"median_us\": %.3f, "
           "\"error\": %.3g\n",
           base->get_version(), timing.n, timing.min_us, timing.median_us, error);
    fflush(stdout);
    _Exit(0); /* the runtime's threads need no farewell */
}
