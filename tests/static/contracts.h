/* contracts.h - what functions of other files promise, for analysers that look at one file at a time. It is
 * included ahead of each file that they read (but of those that define these functions), and of nothing that
 * is built.
 *
 * Whoever reports a failure returns a status that is one: without knowing that, an analyser follows
 * `return ad_fail(...)` as if all were well, into results that were never made. */
#ifndef ATTN_STATIC_CONTRACTS_H
#define ATTN_STATIC_CONTRACTS_H

#if __has_include("base/error.h")
#include "base/error.h"
#include "codec/fault.h"
#include "codec/nested.h"
#include "http/json_reader.h"
#include "model/manifest_json.h"

#define ad_fail(error, status, ...) ((void)ad_fail(error, status, __VA_ARGS__), (status))
#define ad_fail_code(error, status, ...) \
    ((void)ad_fail_code(error, status, __VA_ARGS__), (status))
#define ad_fail_attn(...) ((void)ad_fail_attn(__VA_ARGS__), AD_INVALID)
#define ad_cursor_fail(...) ((void)ad_cursor_fail(__VA_ARGS__), AD_INVALID)
#define ad_place_fail(...) ((void)ad_place_fail(__VA_ARGS__), AD_INVALID)
#define ad_place_expected(...) ((void)ad_place_expected(__VA_ARGS__), AD_INVALID)
#define ad_place_no_memory(...) ((void)ad_place_no_memory(__VA_ARGS__), AD_INTERNAL)
/* status is of the first failure */
#define ad_reader_fail(reader, ...) \
    ((void)ad_reader_fail(reader, __VA_ARGS__), (void)((reader)->status |= AD_INVALID))
#define ad_reader_no_memory(reader) \
    ((void)ad_reader_no_memory(reader), (void)((reader)->status = AD_INTERNAL))
#endif

#if __has_include("status.h")
#include "status.h"

#define attni_fail(error, status, ...) \
    ((void)attni_fail(error, status, __VA_ARGS__), (status))
#define attni_fail_memory(error) ((void)attni_fail_memory(error), ATTN_NO_MEMORY)
#endif

#endif
