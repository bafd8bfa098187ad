/* statistics.c - one version of a model as the statistics extension shows it. Pure; any thread. */
#include "http/statistics.h"

static void write_integer(struct ad_json *json, const char *name, uint64_t number)
{
    ad_json_key(json, name);
    ad_json_integer(json, number > INT64_MAX ? INT64_MAX : (int64_t)number);
}

static void write_duration(struct ad_json *json, const char *name,
                           struct ad_duration_count duration)
{
    ad_json_key(json, name);
    ad_json_open(json, '{');
    write_integer(json, "count", duration.count);
    write_integer(json, "ns", duration.ns);
    ad_json_close(json, '}');
}

static void write_inference(struct ad_json *json, const struct ad_stats_view *stats)
{
    static const struct ad_duration_count
        none; /* nothing is ever answered from a cache */
    ad_json_key(json, "inference_stats");
    ad_json_open(json, '{');
    write_duration(json, "success", stats->success);
    write_duration(json, "fail", stats->fail);
    write_duration(json, "queue", stats->queue);
    write_duration(json, "compute_input", stats->compute_input);
    write_duration(json, "compute_infer", stats->compute_infer);
    write_duration(json, "compute_output", stats->compute_output);
    write_duration(json, "cache_hit", none);
    write_duration(json, "cache_miss", none);
    ad_json_close(json, '}');
}

static void write_batches(struct ad_json *json, const struct ad_stats_view *stats)
{
    ad_json_key(json, "batch_stats");
    ad_json_open(json, '[');
    for (size_t i = 0; i < AD_STATS_BATCH_SIZES; i++) {
        const struct ad_batch_stat *batch = &stats->batches[i];
        if (batch->batch_size > 0) {
            ad_json_open(json, '{');
            write_integer(json, "batch_size", batch->batch_size);
            write_duration(json, "compute_input", batch->compute_input);
            write_duration(json, "compute_infer", batch->compute_infer);
            write_duration(json, "compute_output", batch->compute_output);
            ad_json_close(json, '}');
        }
    }
    ad_json_close(json, ']');
}

static void write_memory(struct ad_json *json, uint64_t n_bytes)
{
    ad_json_key(json, "memory_usage");
    ad_json_open(json, '[');
    ad_json_open(json, '{');
    ad_json_string_member(json, "type", "CPU");
    write_integer(json, "id", 0);
    write_integer(json, "byte_size", n_bytes);
    ad_json_close(json, '}');
    ad_json_close(json, ']');
}

void ad_statistics_write(struct ad_json *json, const char *model, const char *version,
                         uint64_t n_bytes, const struct ad_stats_view *stats)
{
    ad_json_open(json, '{');
    ad_json_string_member(json, "name", model);
    ad_json_string_member(json, "version", version);
    ad_json_key(json, "last_inference");
    ad_json_integer(json, stats->last_inference_ms);
    write_integer(json, "inference_count", stats->n_items);
    write_integer(json, "execution_count", stats->n_passes);
    write_inference(json, stats);
    ad_json_key(json, "response_stats");
    ad_json_open(json, '{');
    ad_json_close(json, '}');
    write_batches(json, stats);
    write_memory(json, n_bytes);
    ad_json_close(json, '}');
}
