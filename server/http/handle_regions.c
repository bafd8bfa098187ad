/* handle_regions.c - the routes of shared memory. They answer on the I/O thread: an object is opened, never
 * read here. */
#include "http/handle_regions.h"
#include "http/json_reader.h"
#include "http/json_writer.h"
#include "sched/regions.h"

#include <stdlib.h>
#include <string.h>

static enum ad_status check_offered(const struct ad_service *service,
                                    struct ad_error *error)
{
    return service->regions
               ? AD_OK
               : ad_fail(error, AD_UNSUPPORTED,
                         "shared memory is not offered; the option --allow-client-shm "
                         "lets clients use it");
}

/* ---- status ------------------------------------------------------------------------------------ */

static void write_region(struct ad_json *json, const struct ad_region *region)
{
    ad_json_open(json, '{');
    ad_json_string_member(json, "name", region->name);
    ad_json_string_member(json, "key", region->key);
    ad_json_integer_member(json, "offset", (int64_t)region->offset);
    ad_json_integer_member(json, "byte_size", (int64_t)region->n_bytes);
    ad_json_close(json, '}');
}

/* Those of them that are asked for; whether there were any. */
static bool write_regions(struct ad_json *json, struct ad_region **list, size_t n,
                          const char *name)
{
    bool any = false;
    ad_json_open(json, '[');
    for (size_t i = 0; i < n; i++) {
        if (!name || strcmp(list[i]->name, name) == 0) {
            write_region(json, list[i]);
            any = true;
        }
        ad_region_release(list[i]);
    }
    ad_json_close(json, ']');
    return any;
}

enum ad_status ad_handle_regions(const struct ad_service *service,
                                 const struct ad_ask *ask, struct ad_reply *reply,
                                 struct ad_error *error)
{
    struct ad_region **list = NULL;
    size_t n = 0;
    enum ad_status status = check_offered(service, error);
    if (!status) {
        status = ad_regions_list(service->regions, &list, &n, error);
    }
    if (status) {
        return status;
    }
    struct ad_json json = ad_json_to(&reply->body);
    bool any = write_regions(&json, list, n, ask->target->region);
    free(list);
    if (ask->target->region && !any) {
        return ad_fail(error, AD_NOT_FOUND, "unknown shared memory region '%.128s'",
                       ask->target->region);
    }
    reply->n_json = reply->body.size;
    return ad_json_ok(&json) ? AD_OK : ad_fail(error, AD_INTERNAL, "out of memory");
}

/* ---- register ---------------------------------------------------------------------------------- */

/* What a body says. */
struct place {
    char *key; /* to be freed */
    uint64_t offset, n_bytes;
    bool has_offset, has_size;
};

static void read_key(struct ad_reader *reader, struct place *place)
{
    size_t n = 0;
    char *key = ad_reader_string(reader, &n);
    if (key && strlen(key) != n) {
        ad_reader_fail(reader, "key must not hold \\u0000");
    }
    if (place->key) {
        ad_reader_fail(reader, "key is given twice");
        free(key);
    } else {
        place->key = key;
    }
}

static void read_number(struct ad_reader *reader, uint64_t *number, bool *has)
{
    if (*has) {
        ad_reader_fail(reader, "%s is given twice", reader->key);
    }
    *number = ad_reader_number(reader);
    *has = true;
}

static void read_member(struct ad_reader *reader, struct place *place)
{
    if (strcmp(reader->key, "key") == 0) {
        read_key(reader, place);
    } else if (strcmp(reader->key, "offset") == 0) {
        read_number(reader, &place->offset, &place->has_offset);
    } else if (strcmp(reader->key, "byte_size") == 0) {
        read_number(reader, &place->n_bytes, &place->has_size);
    } else {
        ad_reader_fail(reader,
                       "unknown member '%.64s', expected key, offset and byte_size",
                       reader->key);
    }
}

static enum ad_status read_place(const struct ad_buffer *body, struct place *place,
                                 struct ad_error *error)
{
    struct ad_reader reader;
    ad_reader_init(&reader, body->data, body->size, error);
    for (bool more = ad_reader_open(&reader); more; more = ad_reader_more(&reader)) {
        read_member(&reader, place);
    }
    ad_reader_end(&reader);
    if (!place->key || !place->has_size) {
        ad_reader_fail(&reader, "expected a member %s", place->key ? "byte_size" : "key");
    }
    return reader.status;
}

static void log_change(const struct ad_service *service, const char *what,
                       const char *region, const char *key)
{
    const struct ad_log_field fields[] = {ad_log_text("region", region),
                                          ad_log_text("key", key)};
    ad_log_write(service->log, AD_LOG_INFO, what, fields, key[0] ? 2 : 1);
}

enum ad_status ad_handle_register(const struct ad_service *service,
                                  const struct ad_ask *ask, struct ad_reply *reply,
                                  struct ad_error *error)
{
    struct place place = {.key = NULL};
    enum ad_status status = check_offered(service, error);
    if (!status) {
        status = read_place(ask->body, &place, error);
    }
    if (!status) {
        status = ad_regions_register(service->regions, ask->target->region, place.key,
                                     place.offset, place.n_bytes, error);
    }
    if (!status) {
        log_change(service, "shared memory registered", ask->target->region, place.key);
    }
    free(place.key);
    reply->empty = true;
    return status;
}

/* ---- unregister -------------------------------------------------------------------------------- */

enum ad_status ad_handle_unregister(const struct ad_service *service,
                                    const struct ad_ask *ask, struct ad_reply *reply,
                                    struct ad_error *error)
{
    struct ad_reader reader;
    enum ad_status status = check_offered(service, error);
    if (status) {
        return status;
    }
    ad_reader_init(&reader, ask->body->data, ask->body->size, error);
    if (!ad_reader_is_empty(&reader)) {
        if (ad_reader_open(&reader)) {
            ad_reader_fail(&reader, "expected nothing or {}");
        }
        ad_reader_end(&reader);
    }
    if (reader.status) {
        return reader.status;
    }
    ad_regions_unregister(service->regions, ask->target->region);
    log_change(service, "shared memory unregistered",
               ask->target->region ? ask->target->region : "(all)", "");
    reply->empty = true;
    return AD_OK;
}
