/* check.c - run the tests of one suite, each in a process of its own, and count. */
#include "unit/support.h"

#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_TESTS 128

struct TCase {
    struct {
        const TTest *test;
        int first, end;
    } tests[MOST_TESTS];
    size_t n;
    unsigned seconds;
};

struct Suite {
    TCase *tcases[MOST_TESTS];
    size_t n;
};

static void *need_zeros(size_t n_bytes)
{
    void *memory = calloc(1, n_bytes);
    if (!memory) {
        abort();
    }
    return memory;
}

Suite *suite_create(const char *name)
{
    (void)name;
    return need_zeros(sizeof(Suite));
}

TCase *tcase_create(const char *name)
{
    (void)name;
    return need_zeros(sizeof(TCase));
}

void suite_add_tcase(Suite *suite, TCase *tcase)
{
    if (suite->n == MOST_TESTS) {
        abort();
    }
    suite->tcases[suite->n++] = tcase;
}

void tcase_set_timeout(TCase *tcase, double seconds)
{
    tcase->seconds = (unsigned)seconds;
}

void tcase_add_loop_test(TCase *tcase, const TTest *test, int first, int end)
{
    if (tcase->n == MOST_TESTS) {
        abort();
    }
    tcase->tests[tcase->n].test = test;
    tcase->tests[tcase->n].first = first;
    tcase->tests[tcase->n++].end = end;
}

void tcase_add_test(TCase *tcase, const TTest *test)
{
    tcase_add_loop_test(tcase, test, 0, 1);
}

void cross_fail(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("%s:%d: ", file, line);
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    exit(EXIT_FAILURE);
}

/* Whether one test passed. */
static bool run_test(const TTest *test, int i, unsigned seconds)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(seconds);
        test->run(i);
        exit(EXIT_SUCCESS);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        printf("%s, %d: failed, wait status %d\n", test->name, i, status);
        return false;
    }
    return true;
}

int support_run(Suite *suite)
{
    int passed = 0, failed = 0;
    for (size_t c = 0; c < suite->n; c++) {
        const TCase *tcase = suite->tcases[c];
        for (size_t t = 0; t < tcase->n; t++) {
            for (int i = tcase->tests[t].first; i < tcase->tests[t].end; i++) {
                bool good = run_test(tcase->tests[t].test, i, tcase->seconds);
                passed += good;
                failed += !good;
            }
        }
        free(suite->tcases[c]);
    }
    free(suite);
    printf("%d passed, %d failed\n", passed, failed);
    return passed > 0 && failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
