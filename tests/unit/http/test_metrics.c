/* Is the page of GET /metrics well formed in both formats, and does it say what was counted? Besides
 * our own strict reader, promtool and Python's parsers look at it where they are installed. */
#include "http/metrics.h"

#include "unit/base/fail_allocation.h"
#include "unit/http/exposition_check.h"
#include "unit/support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODEL_LABELS "{model=\"speech\",version=\"2\"}"

/* Two versions of one model that have served, one that cannot be loaded. */
struct scene {
    struct ad_process process;
    struct ad_gauges gauges;
    struct ad_counts counts;
    struct ad_metrics_version versions[3];
    struct ad_metrics metrics;
};

static void fill_stats(struct ad_stats_view *view)
{
    static const struct ad_times times = {.begun_ns = 1000000,
                                          .queued_ns = 1100000,
                                          .decoding_ns = 1300000,
                                          .decoded_ns = 1600000,
                                          .computing_ns = 2000000,
                                          .computed_ns = 2500000,
                                          .encoded_ns = 3100000,
                                          .replied_ns = 3800000};
    struct ad_stats *stats = ad_stats_create();
    for (int i = 0; i < 4; i++) {
        ad_stats_add_request(stats, AD_OUTCOME_SUCCESS, 3, &times);
    }
    ad_stats_add_request(stats, AD_OUTCOME_REJECTED, 1, &times);
    ad_stats_add_request(stats, AD_OUTCOME_OTHER, 1, &times);
    ad_stats_add_pass(stats, 4, 12, 5, 6, 7);
    ad_stats_move(stats, 2, 1);
    ad_stats_read(stats, view);
    ad_stats_release(stats);
}

static void set_up(struct scene *scene)
{
    static const char infer[] = "v2/models/{model}/infer";
    memset(scene, 0, sizeof *scene);
    scene->process = (struct ad_process){.cpu_ns = 1230000000,
                                         .resident_bytes = 4096,
                                         .virtual_bytes = 8192,
                                         .n_fds = 7,
                                         .max_fds = 1024,
                                         .start_ms = 1796025600123};
    scene->gauges = (struct ad_gauges){9, 1, 2, 3, 4, 5, 6, true};
    ad_counts_add(&scene->counts, infer, "POST", 200);
    ad_counts_add(&scene->counts, infer, "POST", 200);
    ad_counts_add(&scene->counts, NULL, "BREW", 404);
    ad_counts_reject(&scene->counts, AD_REJECTED_TIMEOUT);
    ad_counts_cut(&scene->counts, AD_CUT_BODY);
    ad_counts_cut(&scene->counts, AD_CUT_BODY);
    ad_counts_turn_away(&scene->counts, AD_TURNED_AWAY_ADDRESS);
    for (size_t i = 0; i < 3; i++) {
        static const char *const numbers[] = {"1", "2", "7"};
        scene->versions[i] = (struct ad_metrics_version){.model = "speech",
                                                         .version = numbers[i],
                                                         .loaded = i < 2,
                                                         .n_bytes = 1000,
                                                         .load_ns = 25000000};
        fill_stats(&scene->versions[i].stats);
    }
    scene->metrics = (struct ad_metrics){.build = "0.1.0",
                                         .process = &scene->process,
                                         .gauges = &scene->gauges,
                                         .counts = &scene->counts,
                                         .versions = scene->versions,
                                         .n_versions = 3,
                                         .triton = true};
}

static void assert_line(const char *page, const char *line)
{
    const char *found = strstr(page, line);
    ck_assert_msg(found && (found == page || found[-1] == '\n') &&
                      found[strlen(line)] == '\n',
                  "not there: %s", line);
}

static const char *const lines[] = {
    "attentiond_build_info{version=\"0.1.0\"} 1",
    "process_cpu_seconds_total 1.23",
    "process_resident_memory_bytes 4096",
    "process_virtual_memory_bytes 8192",
    "process_open_fds 7",
    "process_max_fds 1024",
    "process_start_time_seconds 1796025600.123",
    "attentiond_connections_open 9",
    "attentiond_connections_cut_total{waiting_for=\"headers\"} 0",
    "attentiond_connections_cut_total{waiting_for=\"body\"} 2",
    "attentiond_connections_cut_total{waiting_for=\"reply\"} 0",
    "attentiond_connections_cut_total{waiting_for=\"idle\"} 0",
    "attentiond_connections_refused_total{reason=\"limit\"} 0",
    "attentiond_connections_refused_total{reason=\"address\"} 1",
    "attentiond_requests_in_flight 1",
    "attentiond_queue_length 2",
    "attentiond_queue_capacity 3",
    "attentiond_queue_bytes 4",
    "attentiond_sequences_active 5",
    "attentiond_kv_cache_bytes 6",
    "attentiond_draining 1",
    "attentiond_http_requests_total{route=\"/v2/models/{model}/"
    "infer\",method=\"POST\",code=\"200\"} 2",
    "attentiond_http_requests_total{route=\"\",method=\"other\",code=\"404\"} 1",
    "attentiond_requests_rejected_total{reason=\"timeout\"} 1",
    "attentiond_requests_rejected_total{reason=\"queue_full\"} 0",
    "attentiond_model_loaded" MODEL_LABELS " 1",
    "attentiond_model_loaded{model=\"speech\",version=\"7\"} 0",
    "attentiond_model_bytes" MODEL_LABELS " 1000",
    "attentiond_model_load_duration_seconds" MODEL_LABELS " 0.025",
    "attentiond_requests_waiting" MODEL_LABELS " 2",
    "attentiond_requests_running" MODEL_LABELS " 1",
    "attentiond_samples_total" MODEL_LABELS " 12",
    "attentiond_passes_total" MODEL_LABELS " 1",
    "attentiond_requests_total{model=\"speech\",version=\"2\",outcome=\"success\"} 4",
    "attentiond_requests_total{model=\"speech\",version=\"2\",outcome=\"rejected\"} 1",
    "attentiond_requests_total{model=\"speech\",version=\"2\",outcome=\"canceled\"} 0",
    "attentiond_requests_total{model=\"speech\",version=\"2\",outcome=\"other\"} 1",
    "attentiond_request_duration_seconds_count" MODEL_LABELS " 4",
    "attentiond_request_duration_seconds_sum" MODEL_LABELS " 0.0112",
    "attentiond_queue_duration_seconds_sum" MODEL_LABELS " 0.0024",
    "attentiond_compute_duration_seconds_sum" MODEL_LABELS " 0.002",
    "attentiond_batch_size_sum" MODEL_LABELS " 4",
};

static const char *const triton_lines[] = {
    "nv_inference_request_success" MODEL_LABELS " 4",
    "nv_inference_request_failure{model=\"speech\",version=\"2\",reason=\"REJECTED\"} 1",
    "nv_inference_request_failure{model=\"speech\",version=\"2\",reason=\"BACKEND\"} 0",
    "nv_inference_count" MODEL_LABELS " 12",
    "nv_inference_exec_count" MODEL_LABELS " 1",
    "nv_inference_request_duration_us" MODEL_LABELS " 11200",
    "nv_inference_queue_duration_us" MODEL_LABELS " 2400",
    "nv_inference_compute_input_duration_us" MODEL_LABELS " 1200",
    "nv_inference_compute_infer_duration_us" MODEL_LABELS " 2000",
    "nv_inference_compute_output_duration_us" MODEL_LABELS " 2400",
    "nv_inference_pending_request_count" MODEL_LABELS " 2",
    "nv_model_load_duration_secs" MODEL_LABELS " 0.025",
};

START_TEST(page)
{
    enum ad_exposition_format format = (enum ad_exposition_format)(_i / 2);
    struct scene scene;
    struct ad_buffer out;
    set_up(&scene);
    scene.metrics.triton = _i % 2;
    ad_buffer_init(&out);
    ck_assert(ad_metrics_write(&out, format, &scene.metrics));
    check_page(out.data, format == AD_OPENMETRICS_1_0);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_line(out.data, lines[i]);
    }
    for (size_t i = 0; i < sizeof triton_lines / sizeof triton_lines[0]; i++) {
        if (scene.metrics.triton) {
            assert_line(out.data, triton_lines[i]);
        }
    }
    ck_assert((strstr(out.data, "nv_") != NULL) == scene.metrics.triton);
    /* of what is not loaded, only that is said */
    const char *absent = strstr(out.data, "version=\"7\"");
    ck_assert_ptr_null(strstr(absent + 1, "version=\"7\""));
    ad_buffer_reset(&out);
}
END_TEST

/* A server without models. */
START_TEST(empty_page)
{
    struct scene scene;
    struct ad_buffer out;
    set_up(&scene);
    memset(&scene.counts, 0, sizeof scene.counts);
    scene.metrics.n_versions = 0;
    ad_buffer_init(&out);
    ck_assert(ad_metrics_write(&out, (enum ad_exposition_format)_i, &scene.metrics));
    check_page(out.data, _i == AD_OPENMETRICS_1_0);
    ck_assert_ptr_null(strstr(out.data, "model"));
    ad_buffer_reset(&out);
}
END_TEST

START_TEST(out_of_memory)
{
    struct scene scene;
    set_up(&scene);
    for (long n = 1;; n++) {
        struct ad_buffer out;
        ad_buffer_init(&out);
        fail_allocation(n);
        bool ok = ad_metrics_write(&out, AD_OPENMETRICS_1_0, &scene.metrics);
        bool failed = allocation_failed();
        ad_buffer_reset(&out);
        ck_assert(ok || failed);
        if (!failed) {
            break;
        }
    }
}
END_TEST

/* Give the page to a command, which must succeed. */
static void judge(const char *command, bool triton, enum ad_exposition_format format)
{
    struct scene scene;
    struct ad_buffer out;
    set_up(&scene);
    scene.metrics.triton = triton;
    ad_buffer_init(&out);
    ck_assert(ad_metrics_write(&out, format, &scene.metrics));
    FILE *pipe = popen(command, "w");
    ck_assert_ptr_nonnull(pipe);
    ck_assert_uint_eq(fwrite(out.data, 1, out.size, pipe), out.size);
    ck_assert_int_eq(pclose(pipe), 0);
    ad_buffer_reset(&out);
}

static bool is_there(const char *probe, const char *name)
{
    if (system(probe) == 0) {
        return true;
    }
    printf("skipped: %s is not installed\n", name);
    return false;
}

START_TEST(promtool)
{
    if (is_there("command -v promtool >/dev/null", "promtool")) {
        judge("promtool check metrics", false, AD_PROMETHEUS_0_0_4);
        /* 3: the names that are Triton's are not good style; all else is */
        judge("promtool check metrics 2>&1 | grep -v '^nv_' && exit 1 || exit 0", true,
              AD_PROMETHEUS_0_0_4);
    }
}
END_TEST

#define PARSE(module, function)                                    \
    "/usr/bin/python3 -c 'import sys\n"                            \
    "from prometheus_client." module " import " function " as f\n" \
    "assert len(list(f(sys.stdin.read()))) > 20'"

START_TEST(python_parsers)
{
    if (is_there("/usr/bin/python3 -c 'import prometheus_client' 2>/dev/null",
                 "python3-prometheus-client")) {
        for (int triton = 0; triton < 2; triton++) {
            judge(PARSE("parser", "text_string_to_metric_families"), triton,
                  AD_PROMETHEUS_0_0_4);
            judge(PARSE("openmetrics.parser", "text_string_to_metric_families"), triton,
                  AD_OPENMETRICS_1_0);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("metrics");
    TCase *tcase = tcase_create("metrics");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, page, 0, 4);
    tcase_add_loop_test(tcase, empty_page, 0, 2);
    tcase_add_test(tcase, out_of_memory);
    tcase_add_test(tcase, promtool);
    tcase_add_test(tcase, python_parsers);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
