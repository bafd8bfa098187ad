/* support.c - run one suite and count. */
#include "unit/support.h"

#include <stdio.h>
#include <stdlib.h>

int support_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_SILENT);
    int failed = srunner_ntests_failed(runner);
    int run = srunner_ntests_run(runner);
    TestResult **failures = srunner_failures(runner);
    for (int i = 0; i < failed; i++) {
        printf("%s:%d: %s: %s\n", tr_lfile(failures[i]), tr_lno(failures[i]),
               tr_tcname(failures[i]), tr_msg(failures[i]));
    }
    free(failures);
    srunner_free(runner);
    printf("%d passed, %d failed\n", run - failed, failed);
    return run > 0 && failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
