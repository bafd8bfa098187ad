/* no_blas.c - in place of lib/blas.c, for machines that we only cross compile for: there is none. */
#include "blas.h"

#include <stddef.h>

const struct attni_blas *attni_blas(void)
{
    return NULL;
}
