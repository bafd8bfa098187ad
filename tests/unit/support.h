/* support.h - what every unit test program shares: run one suite and count. */
#ifndef TESTS_UNIT_SUPPORT_H
#define TESTS_UNIT_SUPPORT_H

#include <check.h>

/* Run the suite, print the failures and "N passed, N failed"; the exit status of main. */
int support_run(Suite *suite);

#endif
