/* fuzz_shared.c - the first byte says what the others are: the body of a registration, or that of an infer
 * request whose tensors may be in the regions `a` and `b`, and which of two models serves it: never our fault,
 * and nothing outside of the regions is written. */
#include "fuzz/served.h"
#include "http/handle_regions.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define SIZE 512
#define GUARD 64 /* bytes before and behind the regions */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The object, and a registry with two regions of it. */
struct object {
    char folder[64], path[80];
    int fd;
    struct ad_regions *regions;
};

static struct object object = {.fd = -1};

static void remove_object(void)
{
    ad_regions_free(object.regions);
    close(object.fd);
    remove(object.path);
    rmdir(object.folder);
}

/* Opening files takes longer than all else: once, for all inputs. */
static void make_object(void)
{
    snprintf(object.folder, sizeof object.folder, "/dev/shm/attentiond-fuzz.XXXXXX");
    fixture_require(mkdtemp(object.folder) != NULL, "folder");
    snprintf(object.path, sizeof object.path, "%s/object", object.folder);
    object.fd = open(object.path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    object.regions = ad_regions_create(object.folder);
    fixture_require(object.regions && object.fd >= 0 && ftruncate(object.fd, SIZE) == 0 &&
                        ad_regions_register(object.regions, "a", "object", GUARD, 256,
                                            NULL) == AD_OK &&
                        ad_regions_register(object.regions, "b", "/object", 300,
                                            SIZE - GUARD - 300, NULL) == AD_OK &&
                        atexit(remove_object) == 0,
                    "regions");
}

/* As it was before the first input. */
static void fill_object(void)
{
    unsigned char bytes[SIZE];
    memset(bytes, 0x3f, sizeof bytes);
    fixture_require(pwrite(object.fd, bytes, SIZE, 0) == SIZE, "the object's bytes");
}

static void check_guards(void)
{
    unsigned char bytes[SIZE + 1];
    fixture_require(pread(object.fd, bytes, sizeof bytes, 0) == SIZE,
                    "the object's size");
    for (size_t i = 0; i < GUARD; i++) {
        fixture_require(bytes[i] == 0x3f && bytes[SIZE - 1 - i] == 0x3f,
                        "written outside of the regions");
    }
}

static void ask_to_register(const uint8_t *data, size_t size)
{
    struct ad_service service = {.regions = object.regions};
    struct ad_buffer body;
    ad_buffer_init(&body);
    fixture_require(ad_buffer_append(&body, data, size), "memory");
    const struct ad_target target = {.region = "new"};
    const struct ad_ask ask = {.target = &target, .body = &body, .posted = true};
    struct ad_reply reply = {.status = AD_OK};
    struct ad_error error = {.status = AD_OK};
    enum ad_status status = ad_handle_register(&service, &ask, &reply, &error);
    fixture_require(status == AD_OK || status == AD_INVALID, error.message);
    ad_buffer_reset(&body);
    ad_reply_reset(&reply);
    ad_regions_unregister(object.regions, "new");
}

static void serve(struct ad_version *version, const uint8_t *data, size_t size)
{
    struct ad_serving serving = serving_make(1, 10000);
    struct ad_request *request = fixture_request(version, data, size, "", 0);
    request->regions = object.regions;
    serving_serve(&serving, request, served_worker());
    fixture_require(request->error.status != AD_INTERNAL, request->error.message);
    fixture_require((request->error.status == AD_OK) == (request->reply.size > 0),
                    "reply and status");
    ad_request_free(request);
    serving_reset(&serving);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!object.regions) {
        make_object();
    }
    if (size == 0) {
        return 0;
    }
    size_t which = data[0] % 3;
    if (which == 2) {
        ask_to_register(data + 1, size - 1);
    } else {
        fill_object();
        serve(served_model(which), data + 1, size - 1);
        check_guards();
    }
    return 0;
}
