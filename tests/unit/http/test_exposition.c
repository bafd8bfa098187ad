/* Are metrics written as Prometheus reads them, in the format that the client wants? */
#include "http/exposition.h"

#include "unit/base/fail_allocation.h"
#include "unit/http/exposition_check.h"
#include "unit/support.h"

#include <string.h>

#define PROMETHEUS_2                                     \
    "application/openmetrics-text;version=1.0.0,"        \
    "application/openmetrics-text;version=0.0.1;q=0.75," \
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
#define PROMETHEUS_3                                                                \
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"        \
    "application/openmetrics-text;version=0.0.1;q=0.5,"                             \
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;" \
    "q=0.3,*/*;q=0.2"

static const struct {
    const char *accept;
    enum ad_exposition_format format;
} negotiations[] = {
    {NULL, AD_PROMETHEUS_0_0_4},
    {"", AD_PROMETHEUS_0_0_4},
    {"*/*", AD_PROMETHEUS_0_0_4},
    {"text/plain", AD_PROMETHEUS_0_0_4},
    {"text/html,application/xhtml+xml,*/*;q=0.8", AD_PROMETHEUS_0_0_4},
    {"application/json", AD_PROMETHEUS_0_0_4},
    {PROMETHEUS_2, AD_OPENMETRICS_1_0},
    {PROMETHEUS_3, AD_OPENMETRICS_1_0},
    {"application/openmetrics-text", AD_OPENMETRICS_1_0},
    {"Application/OpenMetrics-Text; Version=\"1.0.0\"", AD_OPENMETRICS_1_0},
    {"application/openmetrics-text; version=1.0.0; charset=utf-8", AD_OPENMETRICS_1_0},
    {"application/openmetrics-text;version=0.0.1", AD_PROMETHEUS_0_0_4},
    {"application/openmetrics-text;version=2.0.0,text/plain;q=0.1", AD_PROMETHEUS_0_0_4},
    {"application/openmetrics-text;q=0.5,text/plain;q=0.6", AD_PROMETHEUS_0_0_4},
    {"application/openmetrics-text;q=0.5,text/plain;q=0.4", AD_OPENMETRICS_1_0},
    {"text/plain;q=0.4 , application/openmetrics-text ; q=0.5", AD_OPENMETRICS_1_0},
    {"application/openmetrics-text;q=0,*/*", AD_PROMETHEUS_0_0_4},
    {"application/openmetrics-text;q=0.000", AD_PROMETHEUS_0_0_4},
    {"application/openmetrics-text,*/*", AD_OPENMETRICS_1_0},
    {"text/plain,application/openmetrics-text", AD_PROMETHEUS_0_0_4},
    {"application/*;q=0.9,text/*;q=0.8", AD_OPENMETRICS_1_0},
    {"text/*;q=0.9,application/*;q=0.8", AD_PROMETHEUS_0_0_4},
    {"application/openmetrics-text;q=1.001", AD_PROMETHEUS_0_0_4},
    {"application/openmetrics-text;q=2", AD_PROMETHEUS_0_0_4},
    {"application/openmetrics-text;q=", AD_PROMETHEUS_0_0_4},
    {"application/openmetrics-text;q=0.5x", AD_PROMETHEUS_0_0_4},
    {"application/openmetrics-text;q=0.0001", AD_PROMETHEUS_0_0_4},
    {"application/openmetrics-text;q=0.001", AD_OPENMETRICS_1_0},
    {"application/openmetrics-text;a=\"x,y\\\";\";q=0.5", AD_OPENMETRICS_1_0},
    {"application/openmetrics-text;a=\"x", AD_OPENMETRICS_1_0},
    {"application/openmetrics-text;a=\"x\\", AD_OPENMETRICS_1_0},
    {"application/openmetrics-text junk", AD_PROMETHEUS_0_0_4},
    {",,;=;,application/openmetrics-text", AD_OPENMETRICS_1_0},
    {";;;===\"\"\"", AD_PROMETHEUS_0_0_4},
};

START_TEST(negotiation)
{
    ck_assert_msg(ad_exposition_negotiate(negotiations[_i].accept) ==
                      negotiations[_i].format,
                  "%s", negotiations[_i].accept);
}
END_TEST

START_TEST(content_types)
{
    ck_assert_str_eq(ad_exposition_content_type(AD_PROMETHEUS_0_0_4),
                     "text/plain; version=0.0.4; charset=utf-8");
    ck_assert_str_eq(ad_exposition_content_type(AD_OPENMETRICS_1_0),
                     "application/openmetrics-text; version=1.0.0; charset=utf-8");
}
END_TEST

/* One family of each type; the last has no sample. */
static bool write_some(struct ad_buffer *out, enum ad_exposition_format format)
{
    const struct ad_label labels[] = {{"a", "q\"b\\n\nu\xc3\xa9"}, {"b", "x\xffy"}};
    struct ad_exposition page = ad_exposition_to(out, format);
    ad_exposition_family(&page, AD_METRIC_COUNTER, "x_cpu_seconds", "Say \"a\\b\"\nnow.");
    ad_exposition_seconds(&page, labels, 2, 1500000000);
    ad_exposition_seconds(&page, labels, 1, UINT64_MAX);
    ad_exposition_family(&page, AD_METRIC_GAUGE, "x_bytes", "Bytes.");
    ad_exposition_integer(&page, NULL, 0, UINT64_MAX);
    ad_exposition_family(&page, AD_METRIC_INFO, "x_build", "Build.");
    ad_exposition_integer(&page, labels + 1, 1, 1);
    ad_exposition_family(&page, AD_METRIC_BARE_COUNTER, "nv_x_us", "Foreign.");
    ad_exposition_integer(&page, NULL, 0, 0);
    ad_exposition_family(&page, AD_METRIC_GAUGE, "x_nothing", "Not there.");
    return ad_exposition_end(&page);
}

static const char *const some[] = {
    [AD_PROMETHEUS_0_0_4] =
        "# HELP x_cpu_seconds_total Say \"a\\\\b\"\\nnow.\n"
        "# TYPE x_cpu_seconds_total counter\n"
        "x_cpu_seconds_total{a=\"q\\\"b\\\\n\\nu\xc3\xa9\",b=\"x\xef\xbf\xbdy\"} 1.5\n"
        "x_cpu_seconds_total{a=\"q\\\"b\\\\n\\nu\xc3\xa9\"} 18446744073.709551615\n"
        "# HELP x_bytes Bytes.\n"
        "# TYPE x_bytes gauge\n"
        "x_bytes 18446744073709551615\n"
        "# HELP x_build_info Build.\n"
        "# TYPE x_build_info gauge\n"
        "x_build_info{b=\"x\xef\xbf\xbdy\"} 1\n"
        "# HELP nv_x_us Foreign.\n"
        "# TYPE nv_x_us counter\n"
        "nv_x_us 0\n",
    [AD_OPENMETRICS_1_0] =
        "# HELP x_cpu_seconds Say \\\"a\\\\b\\\"\\nnow.\n"
        "# TYPE x_cpu_seconds counter\n"
        "# UNIT x_cpu_seconds seconds\n"
        "x_cpu_seconds_total{a=\"q\\\"b\\\\n\\nu\xc3\xa9\",b=\"x\xef\xbf\xbdy\"} 1.5\n"
        "x_cpu_seconds_total{a=\"q\\\"b\\\\n\\nu\xc3\xa9\"} 18446744073.709551615\n"
        "# HELP x_bytes Bytes.\n"
        "# TYPE x_bytes gauge\n"
        "# UNIT x_bytes bytes\n"
        "x_bytes 18446744073709551615\n"
        "# HELP x_build Build.\n"
        "# TYPE x_build info\n"
        "x_build_info{b=\"x\xef\xbf\xbdy\"} 1\n"
        "# HELP nv_x_us Foreign.\n"
        "# TYPE nv_x_us unknown\n"
        "nv_x_us 0\n"
        "# EOF\n"};

START_TEST(families)
{
    struct ad_buffer out;
    ad_buffer_init(&out);
    ck_assert(write_some(&out, (enum ad_exposition_format)_i));
    ck_assert_str_eq(out.data, some[_i]);
    check_page(out.data, _i == AD_OPENMETRICS_1_0);
    ad_buffer_reset(&out);
}
END_TEST

START_TEST(histograms)
{
    const struct ad_label labels[] = {{"m", "x"}};
    struct ad_histogram histogram = {.sum = 25000};
    histogram.counts[1] = 1;
    histogram.counts[AD_HISTOGRAM_BUCKETS] = 2;
    struct ad_buffer out;
    ad_buffer_init(&out);
    struct ad_exposition page = ad_exposition_to(&out, (enum ad_exposition_format)_i);
    ad_exposition_family(&page, AD_METRIC_HISTOGRAM, "x_seconds", "Time.");
    ad_exposition_histogram(&page, labels, 1, &histogram, true);
    ad_exposition_histogram(&page, NULL, 0, &histogram, true);
    ad_exposition_family(&page, AD_METRIC_HISTOGRAM, "x_size", "Size.");
    ad_exposition_histogram(&page, labels, 1, &histogram, false);
    ck_assert(ad_exposition_end(&page));
    check_page(out.data, _i == AD_OPENMETRICS_1_0);
    static const char *const lines[] = {"x_seconds_bucket{m=\"x\",le=\"1e-05\"} 0\n",
                                        "x_seconds_bucket{m=\"x\",le=\"2.5e-05\"} 1\n",
                                        "x_seconds_bucket{m=\"x\",le=\"7.5e-05\"} 1\n",
                                        "x_seconds_bucket{m=\"x\",le=\"0.0001\"} 1\n",
                                        "x_seconds_bucket{m=\"x\",le=\"0.00015\"} 1\n",
                                        "x_seconds_bucket{m=\"x\",le=\"0.001\"} 1\n",
                                        "x_seconds_bucket{m=\"x\",le=\"2.5\"} 1\n",
                                        "x_seconds_bucket{m=\"x\",le=\"60.0\"} 1\n",
                                        "x_seconds_bucket{m=\"x\",le=\"+Inf\"} 3\n",
                                        "x_seconds_count{m=\"x\"} 3\n",
                                        "x_seconds_sum{m=\"x\"} 0.000025\n",
                                        "x_seconds_bucket{le=\"1.0\"} 1\n",
                                        "x_seconds_sum 0.000025\n",
                                        "x_size_bucket{m=\"x\",le=\"1.0\"} 0\n",
                                        "x_size_bucket{m=\"x\",le=\"256.0\"} 1\n",
                                        "x_size_sum{m=\"x\"} 25000\n"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        ck_assert_msg(strstr(out.data, lines[i]), "%s", lines[i]);
    }
    ad_buffer_reset(&out);
}
END_TEST

START_TEST(out_of_memory)
{
    for (long n = 1;; n++) {
        struct ad_buffer out;
        ad_buffer_init(&out);
        fail_allocation(n);
        bool ok = write_some(&out, AD_OPENMETRICS_1_0);
        bool failed = allocation_failed();
        /* a buffer that cannot grow by half may still grow by what is needed */
        ck_assert(ok || failed);
        if (ok) {
            ck_assert_str_eq(out.data, some[AD_OPENMETRICS_1_0]);
        }
        ad_buffer_reset(&out);
        if (!failed) {
            break;
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("exposition");
    TCase *tcase = tcase_create("exposition");
    tcase_add_loop_test(tcase, negotiation, 0,
                        sizeof negotiations / sizeof negotiations[0]);
    tcase_add_test(tcase, content_types);
    tcase_add_loop_test(tcase, families, 0, 2);
    tcase_add_loop_test(tcase, histograms, 0, 2);
    tcase_add_test(tcase, out_of_memory);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
