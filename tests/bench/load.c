/* load.c - the load generator: so many connections, for so long; then figures. See --help.
 *
 * One thread, no libraries. It runs beside the server on the same machine, so what it takes of the
 * processors is reported too. */
#include "bench/cases.h"
#include "bench/load_options.h"
#include "bench/load_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define FINISH_SECONDS 10

static void print_json_times(const char *prefix, const struct histogram *times)
{
    printf(",\"%sp50_us\":%.1f,\"%sp90_us\":%.1f,\"%sp99_us\":%.1f,\"%sp999_us\":%.1f,"
           "\"%smax_us\":%.1f,\"%smean_us\":%.1f",
           prefix, histogram_us(times, 0.5), prefix, histogram_us(times, 0.9), prefix,
           histogram_us(times, 0.99), prefix, histogram_us(times, 0.999), prefix,
           1e-3 * (double)times->max_ns, prefix, histogram_mean_us(times));
}

static void print_statuses(const struct load_counts *counts, bool json)
{
    const char *before = "";
    for (unsigned i = 0; i < MOST_STATUSES; i++) {
        if (counts->statuses[i] > 0 && json) {
            printf("%s\"%u\":%" PRIu64, before, i, counts->statuses[i]);
            before = ",";
        } else if (counts->statuses[i] > 0) {
            printf(" %" PRIu64 " of status %u,", counts->statuses[i], i);
        }
    }
}

static uint64_t count_failed(const struct load_counts *counts)
{
    return counts->refused.n + counts->n_wrong + counts->n_broken;
}

static void print_json(const struct load_kind *kind, const struct load_counts *counts)
{
    printf("{\"label\":\"%s\",\"connections\":%zu,\"rate\":%.6g,\"seconds\":%.3f,"
           "\"cpu\":%.3f,\"rps\":%.2f,\"good\":%" PRIu64 ",\"failed\":%" PRIu64
           ",\"wrong\":%" PRIu64 ",\"broken\":%" PRIu64 ",\"behind\":%" PRIu64,
           kind->label, kind->n_connections, kind->rate, counts->seconds,
           counts->cpu_seconds / counts->seconds,
           (double)counts->good.n / counts->seconds, counts->good.n, count_failed(counts),
           counts->n_wrong, counts->n_broken, counts->n_behind);
    print_json_times("", &counts->good);
    print_json_times("refused_", &counts->refused);
    printf(",\"statuses\":{");
    print_statuses(counts, true);
    printf("}");
    if (kind->n_steps > 0) {
        printf(",\"steps_us\":[");
        for (size_t i = 0; i < STEP_PARTS; i++) {
            printf(i > 0 ? ",%.1f" : "%.1f", histogram_us(&counts->steps[i], 0.5));
        }
        printf("]");
    }
    printf("}\n");
}

static void print_text(const struct load_kind *kind, const struct load_counts *counts)
{
    printf("%s: %.1f requests/s answered well (%" PRIu64 " in %.1f s, %zu connections)\n",
           kind->label, (double)counts->good.n / counts->seconds, counts->good.n,
           counts->seconds, kind->n_connections);
    printf("  ms: p50 %.3f  p90 %.3f  p99 %.3f  p999 %.3f  max %.3f\n",
           1e-3 * histogram_us(&counts->good, 0.5),
           1e-3 * histogram_us(&counts->good, 0.9),
           1e-3 * histogram_us(&counts->good, 0.99),
           1e-3 * histogram_us(&counts->good, 0.999), 1e-6 * (double)counts->good.max_ns);
    printf("  replies:");
    print_statuses(counts, false);
    printf(" wrong %" PRIu64 ", broken %" PRIu64 ", behind %" PRIu64
           "; the generator took %.0f %% of a processor\n",
           counts->n_wrong, counts->n_broken, counts->n_behind,
           100 * counts->cpu_seconds / counts->seconds);
    for (size_t i = 0; i < STEP_PARTS && kind->n_steps > 0; i++) {
        printf("  steps up to %zu %%: p50 %.3f ms\n", (i + 1) * 100 / STEP_PARTS,
               1e-3 * histogram_us(&counts->steps[i], 0.5));
    }
}

static void print_totals(const struct load_kind *kind, const struct load_totals *totals,
                         bool json)
{
    if (json) {
        printf("{\"label\":\"%s\",\"sent\":%" PRIu64 ",\"replies\":%" PRIu64
               ",\"unanswered\":%" PRIu64 "}\n",
               kind->label, totals->n_sent, totals->n_replies, totals->n_unanswered);
    } else {
        printf("%s, warm-up included: %" PRIu64 " sent, %" PRIu64 " replies, %" PRIu64
               " unanswered\n",
               kind->label, totals->n_sent, totals->n_replies, totals->n_unanswered);
    }
}

int main(int argc, char **argv)
{
    struct load_options options;
    load_options_read(&options, argc, argv);
    struct load_counts *counts = calloc(options.n_kinds, sizeof *counts);
    struct load_totals totals[MOST_KINDS];
    if (!counts) {
        die("out of memory");
    }
    struct load *load = load_create(options.kinds, options.n_kinds, &options.socket.any,
                                    options.n_socket, options.address);
    load_run(load, options.warm_seconds, counts);
    for (size_t part = 0; part < options.n_parts; part++) {
        load_run(load, options.seconds / (double)options.n_parts, counts);
        for (size_t i = 0; i < options.n_kinds; i++) {
            if (options.json_lines) {
                print_json(&options.kinds[i], &counts[i]);
            } else {
                print_text(&options.kinds[i], &counts[i]);
            }
        }
        fflush(stdout);
    }
    load_finish(load, FINISH_SECONDS, totals);
    for (size_t i = 0; i < options.n_kinds; i++) {
        print_totals(&options.kinds[i], &totals[i], options.json_lines);
    }
    load_free(load);
    free(counts);
    return 0;
}
