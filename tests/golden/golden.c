/* golden.c - hold libattention, through its public header alone, against the golden cases.
 *
 * Usage: golden FOLDER [-v] [NAME_PART]. A case is FOLDER/NAME.json (what it is) and
 * FOLDER/NAME.safetensors (weights, inputs and expected outputs). Its passes, forward and backward, are
 * each computed inline first and compared with the values of the original in double precision; then
 * in the variants of the table below, which must give the same bits. All memory handed to the library
 * lies between guard zones.
 * One thread. */
#include "golden/case.h"
#include "golden/run.h"

#include <dirent.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first row is what the others are compared with, bit for bit. The lean one is held to the
 * tolerance instead: without `attention` among its outputs a layer may take another path. */
static const struct variant variants[] = {
    {.name = "inline"},
    {.name = "3 workers", .parallel = true},
    {.name = "misaligned", .misaligned = true},
    {.name = "outputs reversed", .reversed = true},
    {.name = "all at once", .parallel = true, .misaligned = true, .reversed = true},
    {.name = "what comes unasked", .lean = true},
};
#define N_VARIANTS (sizeof variants / sizeof *variants)

struct golden {
    const char *folder, *name_part;
    bool verbose;
    size_t n_passed, n_failed;
};

/* ---- one run's verdict ------------------------------------------------------------------- */

static double expected_value(const struct attn_tensor *expected, size_t i)
{
    const char *data = expected->data;
    if (expected->dtype == ATTN_F64) {
        double value;
        memcpy(&value, data + i * sizeof value, sizeof value);
        return value;
    }
    float value;
    memcpy(&value, data + i * sizeof value, sizeof value);
    return (double)value;
}

/* NaN where NaN is expected and nowhere else, likewise infinities; the rest within tolerance. */
static bool value_holds(double got, double expected, double absolute, double relative)
{
    if (isnan(expected) || isnan(got)) {
        return isnan(expected) && isnan(got);
    }
    if (isinf(expected) || isinf(got)) {
        return !(got < expected) && !(got > expected);
    }
    return fabs(got - expected) <= absolute + relative * fabs(expected);
}

static bool same_shape(const struct attn_tensor *a, const struct attn_tensor *b)
{
    return a->rank == b->rank &&
           memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0;
}

/* Note the first thing that is wrong in problem. */
__attribute__((format(printf, 2, 3))) static void note(struct result *result,
                                                       const char *format, ...)
{
    if (result->problem[0] == '\0') {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(result->problem, sizeof result->problem, format, arguments);
        va_end(arguments);
    }
}

/* The values that the pass expects of an output; NULL: any. */
static const struct attn_tensor *expected_of(const struct test_case *c,
                                             const struct pass *pass, const char *name)
{
    for (size_t i = 0; i < pass->n_outputs; i++) {
        if (strcmp(pass->outputs[i], name) == 0) {
            return case_expected(c, name);
        }
    }
    return NULL;
}

static void check_output(const struct test_case *c, const struct pass *pass,
                         struct result *result, size_t index)
{
    const char *name = result->names[index];
    const struct attn_tensor *got = &result->outputs[index];
    const struct attn_tensor *expected = expected_of(c, pass, name);
    size_t n = 0;
    if (got->dtype != ATTN_F32 || attn_tensor_count(got, &n) != ATTN_OK) {
        note(result, "%s is no tensor of floats", name);
        return;
    }
    if (!expected) {
        return; /* served though the original refuses it: any values */
    }
    if (!same_shape(got, expected)) {
        note(result, "%s has another shape than expected", name);
        return;
    }
    double absolute, relative;
    case_tolerance(c, name, &absolute, &relative);
    for (size_t i = 0; i < n; i++) {
        float value;
        memcpy(&value, (const char *)got->data + i * sizeof value, sizeof value);
        double wanted = expected_value(expected, i);
        if (!value_holds((double)value, wanted, absolute, relative)) {
            note(result, "%s[%zu] is %.9g, expected %.17g", name, i, (double)value,
                 wanted);
            return;
        }
    }
}

/* The outputs asked for came, in the order asked for, with the values of the original. */
static void check_values(const struct test_case *c, const struct pass *pass,
                         const struct variant *v, struct result *result)
{
    if (result->n_outputs == 0) {
        note(result, "no outputs");
    }
    if (!v->lean && pass->n_outputs > 0) {
        if (result->n_outputs != pass->n_outputs) {
            note(result, "%zu outputs, expected %zu", result->n_outputs, pass->n_outputs);
        }
        for (size_t i = 0; i < result->n_outputs && i < pass->n_outputs; i++) {
            if (strcmp(result->names[i], pass->outputs[i]) != 0) {
                note(result, "output %s, expected %s", result->names[i],
                     pass->outputs[i]);
            }
        }
    }
    for (size_t i = 0; i < result->n_outputs; i++) {
        check_output(c, pass, result, i);
    }
}

static void check_same_bits(const struct result *first, struct result *result)
{
    if (result->n_outputs != first->n_outputs) {
        note(result, "%zu outputs, inline had %zu", result->n_outputs, first->n_outputs);
    }
    for (size_t i = 0; i < result->n_outputs && i < first->n_outputs; i++) {
        const struct guarded *a = &first->memory[i], *b = &result->memory[i];
        if (a->n_bytes != b->n_bytes ||
            (a->n_bytes > 0 && memcmp(a->data, b->data, a->n_bytes) != 0)) {
            note(result, "%s differs in its bits from the inline run", result->names[i]);
        }
    }
}

/* A refusal says why in one line, and the reason is the case, not the machine. */
static void check_refusal(enum attn_status status, struct result *result)
{
    if (status == ATTN_OK) {
        note(result, "served, though it must be refused");
    } else if (status == ATTN_NO_MEMORY || status == ATTN_IO || status == ATTN_FORMAT) {
        note(result, "refused for a wrong reason: %s", attn_status_text(status));
    } else if (!result->error.message[0] || strchr(result->error.message, '\n')) {
        note(result, "the refusal has no message of one line");
    }
}

/* ---- one case ---------------------------------------------------------------------------- */

static void count(struct golden *golden, const char *name, const struct pass *pass,
                  const struct variant *v, const struct result *result)
{
    if (result->problem[0]) {
        golden->n_failed++;
        printf("%s (%s, %s): %s\n", name, pass->name, v->name, result->problem);
        return;
    }
    golden->n_passed++;
    if (golden->verbose) {
        printf("%s (%s, %s): %s\n", name, pass->name, v->name,
               result->error.message[0] ? result->error.message : "holds");
    }
}

static void check_variant(struct golden *golden, const struct test_case *c,
                          const struct pass *pass, const struct variant *v,
                          struct result *result, const struct result *first)
{
    enum attn_status status = case_run(c, pass, v, result);
    if (pass->expectation == EXPECT_REFUSED) {
        check_refusal(status, result);
    } else if (status != ATTN_OK) {
        note(result, "refused (%s): %s", attn_status_text(status), result->error.message);
    } else {
        check_values(c, pass, v, result);
        if (!v->lean) {
            check_same_bits(first, result);
        }
    }
    count(golden, c->name, pass, v, result);
}

static void check_pass(struct golden *golden, const struct test_case *c,
                       const struct pass *pass)
{
    struct result first = {0}, other;
    check_variant(golden, c, pass, &variants[0], &first, &first);
    for (size_t i = 1; i < N_VARIANTS; i++) {
        check_variant(golden, c, pass, &variants[i], &other, &first);
        result_reset(&other);
    }
    result_reset(&first);
}

static void check_case(struct golden *golden, const char *name)
{
    struct test_case c;
    case_open(&c, golden->folder, name);
    for (size_t i = 0; i < N_PASSES; i++) {
        if (c.passes[i].expectation != EXPECT_NOTHING) {
            check_pass(golden, &c, &c.passes[i]);
        }
    }
    case_close(&c);
}

/* ---- all cases --------------------------------------------------------------------------- */

static int is_case(const struct dirent *entry)
{
    return ends_with(entry->d_name, ".json");
}

static void check_folder(struct golden *golden)
{
    struct dirent **entries;
    int n = scandir(golden->folder, &entries, is_case, alphasort);
    if (n < 0) {
        die("golden: cannot read the folder %s", golden->folder);
    }
    for (int i = 0; i < n; i++) {
        char name[sizeof entries[i]->d_name];
        size_t n_name = strlen(entries[i]->d_name) - strlen(".json");
        memcpy(name, entries[i]->d_name, n_name);
        name[n_name] = '\0';
        if (strstr(name, golden->name_part)) {
            check_case(golden, name);
        }
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv)
{
    struct golden golden = {.name_part = ""};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0) {
            golden.verbose = true;
        } else if (!golden.folder) {
            golden.folder = argv[i];
        } else {
            golden.name_part = argv[i];
        }
    }
    if (!golden.folder) {
        fprintf(stderr, "usage: golden FOLDER [-v] [NAME_PART]\n");
        return 2;
    }
    check_folder(&golden);
    printf("golden: %zu passed, %zu failed\n", golden.n_passed, golden.n_failed);
    return golden.n_failed == 0 && golden.n_passed > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
