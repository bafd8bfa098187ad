/* manifest_json.h - JSON values with their place in config.json, for messages.
 *
 * Used by manifest*.c, and by the reader of another file of the same kind (http/keys_file.c). */
#ifndef AD_MODEL_MANIFEST_JSON_H
#define AD_MODEL_MANIFEST_JSON_H

#include "base/error.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* Where a value stands: a chain of keys from the document down, each link on its reader's stack. */
struct ad_place {
    const char *file;              /* the document's name */
    const struct ad_place *parent; /* NULL: the document itself */
    const char *key;               /* inside an object; NULL inside an array */
    size_t index;                  /* inside an array */
};

/* The place of a member, and of an array's element. They borrow all they are given. */
struct ad_place ad_place_member(const struct ad_place *parent, const char *key);
struct ad_place ad_place_element(const struct ad_place *parent, size_t index);

/* AD_INVALID: "<file>: <path>: <message>". */
enum ad_status ad_place_fail(const struct ad_place *place, struct ad_error *error,
                             const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* AD_INVALID: "<file>: <path>: expected <expected>, got <value>". value NULL: it is missing. */
enum ad_status ad_place_expected(const struct ad_place *place, const char *expected,
                                 const json_t *value, struct ad_error *error);

/* AD_INTERNAL: "<file>: out of memory". */
enum ad_status ad_place_no_memory(const struct ad_place *place, struct ad_error *error);

/* *text = the member's string, which lives as long as object. */
enum ad_status ad_place_string(const struct ad_place *object_place, const json_t *object,
                               const char *key, const char **text,
                               struct ad_error *error) AD_MUST_CHECK;

/* *number = value, an integer from min to max (at most INT64_MAX). value may be NULL: refused. */
enum ad_status ad_place_integer(const struct ad_place *place, const json_t *value,
                                uint64_t min, uint64_t max, uint64_t *number,
                                struct ad_error *error) AD_MUST_CHECK;

/* AD_INVALID when object has a key that is not in the NULL-terminated list, which may be empty. */
enum ad_status ad_place_check_keys(const struct ad_place *place, json_t *object,
                                   const char *const *known,
                                   struct ad_error *error) AD_MUST_CHECK;

#endif
