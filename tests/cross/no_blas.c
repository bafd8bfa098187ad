/* no_blas.c - in place of lib/blas.c: there is none, as on machines that we only cross compile for. */
#include "blas.h"

#include <stddef.h>

const struct attni_blas *attni_blas(void)
{
    return NULL;
}
