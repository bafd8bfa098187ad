/* fuzz_shared.c - the bytes are the body of a registration, and that of an infer request whose tensors may be
 * in the regions `a`, `b` and `new`: never our fault, and nothing outside of the regions is written. */
#include "http/handle_regions.h"
#include "unit/codec/serving.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define SIZE 512
#define GUARD 64 /* bytes before and behind the regions */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A registry with two regions of the object at path in the folder; *fd is the object. */
static struct ad_regions *make_regions(const char *folder, const char *path, int *fd)
{
    unsigned char bytes[SIZE];
    memset(bytes, 0x3f, sizeof bytes);
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct ad_regions *regions = ad_regions_create(folder);
    fixture_require(
        regions && *fd >= 0 && write(*fd, bytes, SIZE) == SIZE &&
            ad_regions_register(regions, "a", "object", GUARD, 256, NULL) == AD_OK &&
            ad_regions_register(regions, "b", "/object", 300, SIZE - GUARD - 300, NULL) ==
                AD_OK,
        "regions");
    return regions;
}

static void check_guards(int fd)
{
    unsigned char bytes[SIZE + 1];
    fixture_require(pread(fd, bytes, sizeof bytes, 0) == SIZE, "the object's size");
    for (size_t i = 0; i < GUARD; i++) {
        fixture_require(bytes[i] == 0x3f && bytes[SIZE - 1 - i] == 0x3f,
                        "written outside of the regions");
    }
}

static void ask_to_register(struct ad_regions *regions, const uint8_t *data, size_t size)
{
    struct ad_service service = {.regions = regions};
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
    ad_regions_unregister(regions, "new");
}

static void serve(struct ad_version *version, struct ad_regions *regions,
                  const uint8_t *data, size_t size)
{
    struct ad_serving serving = serving_make(1, 10000);
    struct ad_worker worker = {.team = {.n_workers = 1}};
    struct ad_request *request = fixture_request(version, data, size, "", 0);
    request->regions = regions;
    serving_serve(&serving, request, &worker);
    fixture_require(request->error.status != AD_INTERNAL, request->error.message);
    fixture_require((request->error.status == AD_OK) == (request->reply.size > 0),
                    "reply and status");
    ad_request_free(request);
    serving_reset(&serving);
    ad_scratch_reset(&worker.scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char folder[] = "/tmp/attentiond-fuzz.XXXXXX", path[64];
    int fd = -1;
    fixture_require(mkdtemp(folder) != NULL, "folder");
    snprintf(path, sizeof path, "%s/object", folder);
    struct ad_regions *regions = make_regions(folder, path, &fd);
    struct ad_version *versions[] = {fixture_relational(), fixture_growing()};
    ask_to_register(regions, data, size);
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        serve(versions[i], regions, data, size);
        check_guards(fd);
        ad_version_release(versions[i]);
    }
    ad_regions_free(regions);
    close(fd);
    remove(path);
    rmdir(folder);
    return 0;
}
