/* test_memory.c - arena and buffer: growth, alignment, sizes that overflow, memory that runs out. */
#include "base/arena.h"
#include "base/buffer.h"
#include "unit/base/fail_allocation.h"
#include "unit/support.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

START_TEST(test_arena_aligns_and_keeps_apart)
{
    struct ad_arena arena;
    ad_arena_init(&arena);
    static const size_t sizes[] = {0,    1,     63, 64,      65, 4000,
                                   5000, 70000, 3,  2000000, 7,  100};
    unsigned char *memory[100][12];
    for (size_t round = 0; round < 100; round++) {
        for (size_t i = 0; i < 12; i++) {
            size_t size = sizes[i] / (round + 1);
            memory[round][i] = ad_arena_alloc(&arena, size);
            ck_assert_ptr_nonnull(memory[round][i]);
            ck_assert_uint_eq((uintptr_t)memory[round][i] % 64, 0);
            memset(memory[round][i], (int)(round + i), size);
        }
    }
    for (size_t round = 0; round < 100; round++) {
        for (size_t i = 0; i < 12; i++) {
            size_t n_changed = 0;
            for (size_t at = 0; at < sizes[i] / (round + 1); at++) {
                n_changed += memory[round][i][at] != (unsigned char)(round + i);
            }
            ck_assert_uint_eq(n_changed, 0);
        }
    }
    ad_arena_reset(&arena);
    ck_assert_ptr_null(arena.blocks);
    ck_assert_uint_eq(arena.total, 0);
    ck_assert_ptr_nonnull(ad_arena_alloc(&arena, 10)); /* ready for reuse */
    ad_arena_reset(&arena);
    ad_arena_reset(&arena);
}
END_TEST

START_TEST(test_arena_wastes_little)
{
    struct ad_arena arena;
    ad_arena_init(&arena);
    ck_assert_ptr_nonnull(ad_arena_alloc(&arena, 100));
    ck_assert_uint_eq(arena.total, 4096);
    size_t used = arena.used;
    /* a large one has a block of its own, and the small ones go on where they were */
    ck_assert_ptr_nonnull(ad_arena_alloc(&arena, 100000));
    ck_assert_uint_eq(arena.used, used);
    for (int i = 0; i < 1000; i++) {
        ck_assert_ptr_nonnull(ad_arena_alloc(&arena, 1000));
    }
    ck_assert_uint_lt(arena.total, 3000000);
    ad_arena_reset(&arena);
}
END_TEST

START_TEST(test_arena_refuses_absurd_sizes)
{
    struct ad_arena arena;
    ad_arena_init(&arena);
    for (int round = 0; round < 2; round++) {
        ck_assert_ptr_null(ad_arena_alloc(&arena, SIZE_MAX));
        ck_assert_ptr_null(ad_arena_alloc(&arena, SIZE_MAX - 63));
        ck_assert_ptr_null(ad_arena_alloc(&arena, (size_t)PTRDIFF_MAX));
        ck_assert_ptr_null(ad_arena_alloc(&arena, (size_t)PTRDIFF_MAX - 127));
        ck_assert_ptr_null(ad_arena_array(&arena, SIZE_MAX / 4 + 1, 4));
        ck_assert_ptr_null(ad_arena_array(&arena, SIZE_MAX, SIZE_MAX));
        ck_assert_ptr_nonnull(ad_arena_array(&arena, 0, SIZE_MAX));
        ck_assert_ptr_nonnull(ad_arena_array(&arena, SIZE_MAX, 0));
        ck_assert_ptr_nonnull(ad_arena_array(&arena, 3, 5));
    }
    ad_arena_reset(&arena);
}
END_TEST

START_TEST(test_arena_strndup)
{
    struct ad_arena arena;
    ad_arena_init(&arena);
    ck_assert_str_eq(ad_arena_strndup(&arena, "speech", 6), "speech");
    ck_assert_str_eq(ad_arena_strndup(&arena, "speech", 2), "sp");
    ck_assert_str_eq(ad_arena_strndup(&arena, "speech", 100), "speech");
    ck_assert_str_eq(ad_arena_strndup(&arena, "", 0), "");
    ad_arena_reset(&arena);
}
END_TEST

START_TEST(test_arena_out_of_memory)
{
    struct ad_arena arena;
    for (long n = 1;; n++) {
        ad_arena_init(&arena);
        fail_allocation(n);
        bool ok = true;
        for (size_t i = 0; ok && i < 50; i++) {
            ok = ad_arena_array(&arena, i, 1000) && ad_arena_strndup(&arena, "a", 1);
        }
        bool failed = allocation_failed();
        ck_assert_int_eq(ok, !failed);
        ck_assert_ptr_nonnull(ad_arena_alloc(&arena, 5000)); /* still of use */
        ad_arena_reset(&arena);
        if (!failed) {
            break;
        }
    }
}
END_TEST

START_TEST(test_buffer_grows)
{
    struct ad_buffer buffer;
    ad_buffer_init(&buffer);
    ck_assert_ptr_null(buffer.data);
    size_t moves = 0;
    for (size_t i = 0; i < 100000; i++) {
        const char *before = buffer.data;
        size_t capacity = buffer.capacity;
        char c = (char)('a' + i % 26);
        ck_assert(ad_buffer_append(&buffer, &c, 1));
        moves += buffer.data != before || buffer.capacity != capacity;
        ck_assert_uint_eq(buffer.size, i + 1);
        ck_assert_int_eq(buffer.data[buffer.size], '\0');
    }
    ck_assert_uint_lt(moves, 30);
    size_t n_changed = 0;
    for (size_t i = 0; i < 100000; i++) {
        n_changed += buffer.data[i] != (char)('a' + i % 26);
    }
    ck_assert_uint_eq(n_changed, 0);
    ad_buffer_reset(&buffer);
    ck_assert_ptr_null(buffer.data);
    ck_assert_uint_eq(buffer.capacity, 0);
    ad_buffer_reset(&buffer);
}
END_TEST

START_TEST(test_buffer_of_nothing)
{
    struct ad_buffer buffer;
    ad_buffer_init(&buffer);
    ck_assert(ad_buffer_append(&buffer, NULL, 0));
    ck_assert_str_eq(buffer.data, "");
    ck_assert(ad_buffer_printf(&buffer, "%s", ""));
    ck_assert_uint_eq(buffer.size, 0);
    ad_buffer_reset(&buffer);
    ck_assert(ad_buffer_reserve(&buffer, 0));
    ck_assert_str_eq(buffer.data, "");
    ad_buffer_reset(&buffer);
}
END_TEST

START_TEST(test_buffer_reserve)
{
    struct ad_buffer buffer;
    ad_buffer_init(&buffer);
    ck_assert(ad_buffer_reserve(&buffer, 1000));
    ck_assert_uint_ge(buffer.capacity, 1001);
    const char *data = buffer.data;
    char bytes[1000];
    memset(bytes, 'x', sizeof bytes);
    ck_assert(ad_buffer_append(&buffer, bytes, sizeof bytes));
    ck_assert_ptr_eq(buffer.data, data);
    ck_assert(!ad_buffer_reserve(&buffer, SIZE_MAX));
    ck_assert(!ad_buffer_reserve(&buffer, SIZE_MAX - 1000));
    ck_assert(!ad_buffer_reserve(&buffer, (size_t)PTRDIFF_MAX - 1000));
    ck_assert(!ad_buffer_append(&buffer, bytes, SIZE_MAX));
    ck_assert_ptr_eq(buffer.data, data);
    ck_assert_uint_eq(buffer.size, 1000);
    ad_buffer_reset(&buffer);
}
END_TEST

/* However it grows, what begins behind a lead stays there. */
START_TEST(test_buffer_with_a_lead)
{
    static const size_t leads[] = {0, 1, 16, 63};
    for (size_t i = 0; i < sizeof leads / sizeof *leads; i++) {
        struct ad_buffer buffer;
        ad_buffer_init(&buffer);
        ck_assert(ad_buffer_start(&buffer, leads[i], 10));
        ck_assert_uint_eq(buffer.size, 0);
        ck_assert_int_eq(buffer.data[0], '\0');
        for (size_t n = 0; n < 3000000; n += 1000) {
            char bytes[1000];
            memset(bytes, 'a' + (int)(n / 1000 % 26), sizeof bytes);
            ck_assert(ad_buffer_append(&buffer, bytes, sizeof bytes));
            ck_assert_uint_eq(((uintptr_t)buffer.data - leads[i]) % 16, 0);
        }
        size_t n_wrong = 0;
        for (size_t n = 0; n < 3000000; n++) {
            n_wrong += buffer.data[n] != 'a' + (char)(n / 1000 % 26);
        }
        ck_assert_uint_eq(n_wrong, 0);
        ad_buffer_reset(&buffer);
        ck_assert_uint_eq(buffer.lead, 0);
        ck_assert_ptr_null(buffer.data);
        ck_assert(!ad_buffer_start(&buffer, leads[i], SIZE_MAX - leads[i]));
        ad_buffer_reset(&buffer);
    }
}
END_TEST

START_TEST(test_buffer_printf)
{
    struct ad_buffer buffer;
    ad_buffer_init(&buffer);
    char expected[8192] = "";
    for (int i = 0; i < 500; i++) {
        ck_assert(ad_buffer_printf(&buffer, "%d,%s;", i, "name"));
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected),
                 "%d,%s;", i, "name");
    }
    ck_assert_str_eq(buffer.data, expected);
    ck_assert_uint_eq(buffer.size, strlen(expected));
    ad_buffer_reset(&buffer);
}
END_TEST

START_TEST(test_buffer_out_of_memory)
{
    for (long n = 1;; n++) {
        struct ad_buffer buffer;
        ad_buffer_init(&buffer);
        fail_allocation(n);
        size_t n_appended = 0;
        /* Growth that fails is tried again with just what is needed, so one may be survived. */
        for (size_t i = 0; i < 1000; i++) {
            bool ok = i % 2 ? ad_buffer_append(&buffer, "0123456789", 10)
                            : ad_buffer_printf(&buffer, "%s", "0123456789");
            n_appended += ok;
        }
        bool failed = allocation_failed();
        ck_assert_uint_eq(buffer.size, n_appended * 10);
        ck_assert_uint_ge(n_appended, 999);
        ck_assert_uint_eq(strlen(buffer.data), buffer.size);
        ad_buffer_reset(&buffer);
        if (!failed) {
            break;
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory");
    TCase *tests = tcase_create("memory");
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, test_arena_aligns_and_keeps_apart);
    tcase_add_test(tests, test_arena_wastes_little);
    tcase_add_test(tests, test_arena_refuses_absurd_sizes);
    tcase_add_test(tests, test_arena_strndup);
    tcase_add_test(tests, test_arena_out_of_memory);
    tcase_add_test(tests, test_buffer_grows);
    tcase_add_test(tests, test_buffer_of_nothing);
    tcase_add_test(tests, test_buffer_reserve);
    tcase_add_test(tests, test_buffer_with_a_lead);
    tcase_add_test(tests, test_buffer_printf);
    tcase_add_test(tests, test_buffer_out_of_memory);
    return support_run(suite);
}
