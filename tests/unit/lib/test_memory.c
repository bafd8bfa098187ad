/* test_memory.c - memory for many numbers: aligned, usable to its end, refused when it cannot be. */
#include "attention.h"

#include "unit/support.h"

#include <stdint.h>
#include <string.h>

static const size_t sizes[] = {0,       1,       63,      64,      65,     4096,
                               2097151, 2097152, 2097153, 6291456, 7000001};

START_TEST(memory_is_aligned_and_whole)
{
    size_t n_bytes = sizes[_i];
    unsigned char *memory = attn_alloc(n_bytes);
    ck_assert_ptr_nonnull(memory);
    ck_assert_uint_eq((uintptr_t)memory % 64, 0);
    memset(memory, 0x5a, n_bytes);
    size_t n_kept = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        n_kept += memory[i] == 0x5a;
    }
    ck_assert_uint_eq(n_kept, n_bytes);
    attn_free(memory);
}
END_TEST

START_TEST(impossible_sizes_are_refused)
{
    const size_t impossible[] = {SIZE_MAX, SIZE_MAX - 63, PTRDIFF_MAX};
    ck_assert_ptr_null(attn_alloc(impossible[_i]));
}
END_TEST

START_TEST(nothing_may_be_freed)
{
    attn_free(NULL);
}
END_TEST

int main(void)
{
    TCase *memory = tcase_create("memory");
    tcase_add_loop_test(memory, memory_is_aligned_and_whole, 0,
                        (int)(sizeof sizes / sizeof *sizes));
    tcase_add_loop_test(memory, impossible_sizes_are_refused, 0, 3);
    tcase_add_test(memory, nothing_may_be_freed);
    Suite *suite = suite_create("memory");
    suite_add_tcase(suite, memory);
    return support_run(suite);
}
