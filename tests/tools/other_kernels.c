/* other_kernels.c - print the names of the kernels that run on this processor beside those that are
 * chosen without being asked for, one a line: what tests repeat with ATTN_ISA. */
#include "kernels/kernels.h"

#include <stdio.h>

int main(void)
{
    const struct attni_kernels *table;
    for (size_t i = 0; (table = attni_kernels_at(i)); i++) {
        if (table != attni_kernels()) {
            puts(table->name);
        }
    }
    return 0;
}
