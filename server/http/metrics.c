/* metrics.c - everything that GET /metrics says. Pure; any thread.
 *
 * Native names hold to the conventions of Prometheus (base units, _total). Triton's do not, so
 * OpenMetrics cannot call its counters counters; there they are of unknown type, which changes
 * nothing for a query. */
#include "http/metrics.h"

#include <stdio.h>

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_US 1000

#define LABELS(array) (array), sizeof(array) / sizeof((array)[0])

static const char *const outcome_words[AD_N_OUTCOMES] = {
    [AD_OUTCOME_SUCCESS] = "success",
    [AD_OUTCOME_REJECTED] = "rejected",
    [AD_OUTCOME_CANCELED] = "canceled",
    [AD_OUTCOME_BACKEND] = "backend",
    [AD_OUTCOME_OTHER] = "other"};

/* As Triton spells them. */
static const char *const failure_words[AD_N_OUTCOMES] = {
    [AD_OUTCOME_REJECTED] = "REJECTED",
    [AD_OUTCOME_CANCELED] = "CANCELED",
    [AD_OUTCOME_BACKEND] = "BACKEND",
    [AD_OUTCOME_OTHER] = "OTHER"};

static uint64_t not_negative(int64_t number)
{
    return number > 0 ? (uint64_t)number : 0;
}

/* ---- the server ---------------------------------------------------------------- */

static void write_build(struct ad_exposition *page, const char *build)
{
    const struct ad_label labels[] = {{"version", build}};
    ad_exposition_family(page, AD_METRIC_INFO, "attentiond_build",
                         "What this server is built from.");
    ad_exposition_integer(page, LABELS(labels), 1);
}

static void write_gauge(struct ad_exposition *page, const char *name, const char *help,
                        uint64_t value)
{
    ad_exposition_family(page, AD_METRIC_GAUGE, name, help);
    ad_exposition_integer(page, NULL, 0, value);
}

static void write_process(struct ad_exposition *page, const struct ad_process *process)
{
    ad_exposition_family(page, AD_METRIC_COUNTER, "process_cpu_seconds",
                         "User and system time of all threads.");
    ad_exposition_seconds(page, NULL, 0, process->cpu_ns);
    write_gauge(page, "process_resident_memory_bytes", "Memory that is resident.",
                process->resident_bytes);
    write_gauge(page, "process_virtual_memory_bytes", "Address space in use.",
                process->virtual_bytes);
    write_gauge(page, "process_open_fds", "File descriptors that are open.",
                process->n_fds);
    write_gauge(page, "process_max_fds", "File descriptors that may be open.",
                process->max_fds);
    ad_exposition_family(page, AD_METRIC_GAUGE, "process_start_time_seconds",
                         "When the process started, since 1970.");
    ad_exposition_seconds(page, NULL, 0, process->start_ms * NS_PER_MS);
}

static void write_gauges(struct ad_exposition *page, const struct ad_gauges *gauges)
{
    write_gauge(page, "attentiond_connections_open", "Connections that are open.",
                gauges->n_connections);
    write_gauge(page, "attentiond_requests_in_flight",
                "Inference requests taken and not yet answered.", gauges->n_in_flight);
    write_gauge(page, "attentiond_queue_length", "Inference requests that wait.",
                gauges->queue_length);
    write_gauge(page, "attentiond_queue_capacity",
                "Inference requests that may wait; one more is refused.",
                gauges->queue_capacity);
    write_gauge(page, "attentiond_queue_bytes", "Bodies of the requests that wait.",
                gauges->queue_bytes);
    write_gauge(page, "attentiond_sequences_active",
                "Sequences with kept keys and values.", gauges->n_sequences);
    write_gauge(page, "attentiond_kv_cache_bytes", "Kept keys and values.",
                gauges->sequence_bytes);
    write_gauge(page, "attentiond_draining",
                "Is the server about to stop, and sends clients elsewhere?",
                gauges->draining);
}

static void write_counts(struct ad_exposition *page, const struct ad_counts *counts)
{
    struct ad_count count;
    size_t position = 0;
    ad_exposition_family(page, AD_METRIC_COUNTER, "attentiond_http_requests",
                         "Requests answered, by the route's pattern.");
    while (ad_counts_next(counts, &position, &count)) {
        char route[128] = "";
        if (count.pattern[0]) {
            snprintf(route, sizeof route, "/%s", count.pattern);
        }
        const struct ad_label labels[] = {
            {"route", route}, {"method", count.verb}, {"code", count.code}};
        ad_exposition_integer(page, LABELS(labels), count.n);
    }
    ad_exposition_family(page, AD_METRIC_COUNTER, "attentiond_requests_rejected",
                         "Requests not taken, or given up before computing.");
    for (enum ad_rejection reason = 0; reason < AD_N_REJECTIONS; reason++) {
        const struct ad_label labels[] = {{"reason", ad_rejection_text(reason)}};
        ad_exposition_integer(page, LABELS(labels), ad_counts_rejected(counts, reason));
    }
}

static void write_connections(struct ad_exposition *page, const struct ad_counts *counts)
{
    ad_exposition_family(page, AD_METRIC_COUNTER, "attentiond_connections_refused",
                         "Connections not taken, by the limit that they were over.");
    for (enum ad_turned_away reason = 0; reason < AD_N_TURNED_AWAY; reason++) {
        const struct ad_label labels[] = {{"reason", ad_turned_away_text(reason)}};
        ad_exposition_integer(
            page, LABELS(labels),
            atomic_load_explicit(&counts->turned_away[reason], memory_order_relaxed));
    }
    ad_exposition_family(page, AD_METRIC_COUNTER, "attentiond_connections_cut",
                         "Connections closed on clients that were too slow.");
    for (enum ad_cut cut = 0; cut < AD_N_CUTS; cut++) {
        const struct ad_label labels[] = {{"waiting_for", ad_cut_text(cut)}};
        ad_exposition_integer(
            page, LABELS(labels),
            atomic_load_explicit(&counts->cuts[cut], memory_order_relaxed));
    }
}

/* ---- versions of models -------------------------------------------------------- */

/* A family of which each version has one sample. */
struct column {
    enum ad_metric_type type;
    const char *name, *help;
    uint64_t (*value)(const struct ad_metrics_version *version);
    bool seconds; /* the value is nanoseconds */
};

static uint64_t loaded_of(const struct ad_metrics_version *version)
{
    return version->loaded;
}

static uint64_t bytes_of(const struct ad_metrics_version *version)
{
    return version->n_bytes;
}

static uint64_t load_of(const struct ad_metrics_version *version)
{
    return not_negative(version->load_ns);
}

static uint64_t samples_of(const struct ad_metrics_version *version)
{
    return version->stats.n_items;
}

static uint64_t passes_of(const struct ad_metrics_version *version)
{
    return version->stats.n_passes;
}

static uint64_t waiting_of(const struct ad_metrics_version *version)
{
    return not_negative(version->stats.n_waiting);
}

static uint64_t running_of(const struct ad_metrics_version *version)
{
    return not_negative(version->stats.n_running);
}

static uint64_t successes_of(const struct ad_metrics_version *version)
{
    return version->stats.success.count;
}

static uint64_t request_us_of(const struct ad_metrics_version *version)
{
    return version->stats.success.ns / NS_PER_US;
}

static uint64_t queue_us_of(const struct ad_metrics_version *version)
{
    return version->stats.queue.ns / NS_PER_US;
}

static uint64_t input_us_of(const struct ad_metrics_version *version)
{
    return version->stats.compute_input.ns / NS_PER_US;
}

static uint64_t infer_us_of(const struct ad_metrics_version *version)
{
    return version->stats.compute_infer.ns / NS_PER_US;
}

static uint64_t output_us_of(const struct ad_metrics_version *version)
{
    return version->stats.compute_output.ns / NS_PER_US;
}

static const struct column native[] = {
    {AD_METRIC_GAUGE, "attentiond_model_bytes", "Parameters of the model in memory.",
     bytes_of, false},
    {AD_METRIC_GAUGE, "attentiond_model_load_duration_seconds",
     "How long loading the model took.", load_of, true},
    {AD_METRIC_GAUGE, "attentiond_requests_waiting", "Requests to the model that wait.",
     waiting_of, false},
    {AD_METRIC_GAUGE, "attentiond_requests_running",
     "Requests to the model that a worker has taken.", running_of, false},
    {AD_METRIC_COUNTER, "attentiond_samples", "Samples of batches inferred.", samples_of,
     false},
    {AD_METRIC_COUNTER, "attentiond_passes", "Passes over the weights.", passes_of,
     false}};

static const struct column triton[] = {
    {AD_METRIC_BARE_COUNTER, "nv_inference_request_success",
     "Number of successful inference requests.", successes_of, false},
    {AD_METRIC_BARE_COUNTER, "nv_inference_count", "Number of samples inferred.",
     samples_of, false},
    {AD_METRIC_BARE_COUNTER, "nv_inference_exec_count", "Number of batches executed.",
     passes_of, false},
    {AD_METRIC_BARE_COUNTER, "nv_inference_request_duration_us",
     "Time of successful requests from first to last, in microseconds.", request_us_of,
     false},
    {AD_METRIC_BARE_COUNTER, "nv_inference_queue_duration_us",
     "Time of successful requests in queues, in microseconds.", queue_us_of, false},
    {AD_METRIC_BARE_COUNTER, "nv_inference_compute_input_duration_us",
     "Time of reading inputs, in microseconds.", input_us_of, false},
    {AD_METRIC_BARE_COUNTER, "nv_inference_compute_infer_duration_us",
     "Time of computing, in microseconds.", infer_us_of, false},
    {AD_METRIC_BARE_COUNTER, "nv_inference_compute_output_duration_us",
     "Time of writing outputs, in microseconds.", output_us_of, false},
    {AD_METRIC_GAUGE, "nv_inference_pending_request_count",
     "Requests to the model that wait.", waiting_of, false},
    {AD_METRIC_GAUGE, "nv_model_load_duration_secs", "How long loading the model took.",
     load_of, true}};

/* absent_too: also of versions that are not loaded. */
static void write_column(struct ad_exposition *page, const struct ad_metrics *metrics,
                         const struct column *column, bool absent_too)
{
    ad_exposition_family(page, column->type, column->name, column->help);
    for (size_t i = 0; i < metrics->n_versions; i++) {
        const struct ad_metrics_version *version = &metrics->versions[i];
        const struct ad_label labels[] = {{"model", version->model},
                                          {"version", version->version}};
        if (!version->loaded && !absent_too) {
            continue;
        }
        if (column->seconds) {
            ad_exposition_seconds(page, LABELS(labels), column->value(version));
        } else {
            ad_exposition_integer(page, LABELS(labels), column->value(version));
        }
    }
}

/* One sample for each outcome that has a word. */
static void write_outcomes(struct ad_exposition *page, const struct ad_metrics *metrics,
                           const char *label, const char *const words[AD_N_OUTCOMES])
{
    for (size_t i = 0; i < metrics->n_versions; i++) {
        const struct ad_metrics_version *version = &metrics->versions[i];
        for (size_t j = 0; version->loaded && j < AD_N_OUTCOMES; j++) {
            const struct ad_label labels[] = {{"model", version->model},
                                              {"version", version->version},
                                              {label, words[j]}};
            if (words[j]) {
                ad_exposition_integer(page, LABELS(labels), version->stats.n_requests[j]);
            }
        }
    }
}

static void write_histograms(struct ad_exposition *page, const struct ad_metrics *metrics)
{
    static const struct {
        const char *name, *help;
        size_t offset; /* in struct ad_stats_view */
        bool durations;
    } histograms[] = {
        {"attentiond_request_duration_seconds",
         "Time of successful requests from headers to reply.",
         offsetof(struct ad_stats_view, request_duration), true},
        {"attentiond_queue_duration_seconds",
         "Time that successful requests waited, for a worker and in a batch.",
         offsetof(struct ad_stats_view, queue_duration), true},
        {"attentiond_compute_duration_seconds",
         "Time that successful requests were computed, with those they were joined to.",
         offsetof(struct ad_stats_view, compute_duration), true},
        {"attentiond_batch_size", "Requests joined in one pass over the weights.",
         offsetof(struct ad_stats_view, batch_size), false}};
    for (size_t i = 0; i < sizeof histograms / sizeof histograms[0]; i++) {
        ad_exposition_family(page, AD_METRIC_HISTOGRAM, histograms[i].name,
                             histograms[i].help);
        for (size_t j = 0; j < metrics->n_versions; j++) {
            const struct ad_metrics_version *version = &metrics->versions[j];
            const struct ad_label labels[] = {{"model", version->model},
                                              {"version", version->version}};
            const void *histogram = (const char *)&version->stats + histograms[i].offset;
            if (version->loaded) {
                ad_exposition_histogram(page, LABELS(labels), histogram,
                                        histograms[i].durations);
            }
        }
    }
}

static void write_versions(struct ad_exposition *page, const struct ad_metrics *metrics)
{
    static const struct column loaded = {AD_METRIC_GAUGE, "attentiond_model_loaded",
                                         "1 while the model serves, 0 when it cannot.",
                                         loaded_of, false};
    write_column(page, metrics, &loaded, true);
    for (size_t i = 0; i < sizeof native / sizeof native[0]; i++) {
        write_column(page, metrics, &native[i], false);
    }
    ad_exposition_family(page, AD_METRIC_COUNTER, "attentiond_requests",
                         "Inference requests answered, by what became of them.");
    write_outcomes(page, metrics, "outcome", outcome_words);
    write_histograms(page, metrics);
}

static void write_triton(struct ad_exposition *page, const struct ad_metrics *metrics)
{
    for (size_t i = 0; i < sizeof triton / sizeof triton[0]; i++) {
        write_column(page, metrics, &triton[i], false);
    }
    ad_exposition_family(page, AD_METRIC_BARE_COUNTER, "nv_inference_request_failure",
                         "Number of failed inference requests.");
    write_outcomes(page, metrics, "reason", failure_words);
}

bool ad_metrics_write(struct ad_buffer *out, enum ad_exposition_format format,
                      const struct ad_metrics *metrics)
{
    struct ad_exposition page = ad_exposition_to(out, format);
    write_build(&page, metrics->build);
    write_process(&page, metrics->process);
    write_gauges(&page, metrics->gauges);
    write_counts(&page, metrics->counts);
    write_connections(&page, metrics->counts);
    write_versions(&page, metrics);
    if (metrics->triton) {
        write_triton(&page, metrics);
    }
    return ad_exposition_end(&page);
}
