/* json_load.h - JSON text to jansson's tree, also where memory runs out. Any thread. */
#ifndef AD_BASE_JSON_LOAD_H
#define AD_BASE_JSON_LOAD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* As json_loadb, which jansson 2.14 gets wrong without memory: a token that cannot grow loses
 * characters, upon which it aborts, or copies past the end of a string. Text may be NULL where n is 0. */
json_t *ad_json_load(const char *text, size_t n, size_t flags, json_error_t *fault);

/* Was it memory that was missing, rather than anything wrong with the text? After a NULL. */
bool ad_json_no_memory(const json_error_t *fault);

#endif
