/* manifest_serving.c - dynamic_batching, queue_policy and version_policy of a config.json.
 *
 * Every number has a range that the daemon can live with whatever the file says. Runs on the thread
 * that loads. */
#include "model/manifest_serving.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ROWS (UINT64_C(1) << 20)
#define MAX_DELAY_US UINT64_C(60000000)      /* a minute */
#define MAX_TIMEOUT_US UINT64_C(86400000000) /* a day */
#define MAX_QUEUE UINT64_C(1000000)          /* as --queue-size */

/* *object = the member, an object with no keys but the known ones; NULL when it is not given. */
static enum ad_status find_object(const struct ad_place *place, const json_t *parent,
                                  const char *const *known, json_t **object,
                                  struct ad_error *error)
{
    *object = json_object_get(parent, place->key);
    if (!*object) {
        return AD_OK;
    }
    if (!json_is_object(*object)) {
        return ad_place_expected(place, "an object", *object, error);
    }
    return ad_place_check_keys(place, *object, known, error);
}

/* A number that may be left out: *value is then as it was. */
struct number {
    const char *key;
    uint64_t min, max;
    uint64_t *value;
};

static enum ad_status read_numbers(const struct ad_place *place, const json_t *object,
                                   const struct number *numbers, size_t n,
                                   struct ad_error *error)
{
    for (size_t i = 0; i < n; i++) {
        const struct ad_place at = ad_place_member(place, numbers[i].key);
        const json_t *value = json_object_get(object, numbers[i].key);
        enum ad_status status =
            value ? ad_place_integer(&at, value, numbers[i].min, numbers[i].max,
                                     numbers[i].value, error)
                  : AD_OK;
        if (status) {
            return status;
        }
    }
    return AD_OK;
}

static enum ad_status read_batching(const struct ad_place *document, const json_t *root,
                                    struct ad_model_settings *settings,
                                    struct ad_error *error)
{
    static const char *const known[] = {"max_batch_rows", "max_batch_requests",
                                        "max_queue_delay_microseconds", NULL};
    const struct ad_place place = ad_place_member(document, "dynamic_batching");
    json_t *object;
    enum ad_status status = find_object(&place, root, known, &object, error);
    uint64_t rows = 32; /* more in one product is hardly faster, and holds up replies */
    uint64_t requests = 64;
    uint64_t delay_us = 0;
    const struct number numbers[] = {{known[0], 1, MAX_ROWS, &rows},
                                     {known[1], 1, AD_MAX_BATCH_REQUESTS, &requests},
                                     {known[2], 0, MAX_DELAY_US, &delay_us}};
    if (!status && object) {
        status = read_numbers(&place, object, numbers, 3, error);
    }
    settings->max_batch_rows = (size_t)rows;
    settings->max_batch_requests = (size_t)requests;
    settings->max_queue_delay_us = delay_us;
    return status;
}

static enum ad_status read_queue(const struct ad_place *document, const json_t *root,
                                 struct ad_model_settings *settings,
                                 struct ad_error *error)
{
    static const char *const known[] = {"max_queue_size", "priority_levels",
                                        "default_priority_level",
                                        "default_timeout_microseconds", NULL};
    const struct ad_place place = ad_place_member(document, "queue_policy");
    json_t *object;
    enum ad_status status = find_object(&place, root, known, &object, error);
    uint64_t size = 0;
    uint64_t levels = 0;
    uint64_t level = 0;
    uint64_t timeout_us = 0;
    const struct number numbers[] = {{known[0], 0, MAX_QUEUE, &size},
                                     {known[1], 0, AD_MAX_PRIORITY_LEVELS, &levels},
                                     {known[3], 0, MAX_TIMEOUT_US, &timeout_us}};
    if (!status && object) {
        status = read_numbers(&place, object, numbers, 3, error);
    }
    if (!status && object) {
        /* its range is the levels there are */
        const struct number own = {known[2], 0, levels, &level};
        status = read_numbers(&place, object, &own, 1, error);
    }
    settings->max_queue_size = (size_t)size;
    settings->n_priorities = levels > 0 ? (unsigned)levels : 1;
    settings->default_priority = level > 0 ? (unsigned)level : settings->n_priorities;
    settings->default_timeout_us = timeout_us;
    return status;
}

/* ---- versions -------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static enum ad_status read_list(const struct ad_place *place, const json_t *array,
                                struct ad_version_policy *policy, struct ad_error *error)
{
    const size_t n = json_array_size(array);
    if (!json_is_array(array) || n == 0 || n > AD_MANIFEST_MAX_VERSIONS) {
        return ad_place_fail(place, error, "expected an array of 1 to %d versions",
                             AD_MANIFEST_MAX_VERSIONS);
    }
    policy->versions = calloc(n, sizeof *policy->versions);
    if (!policy->versions) {
        return ad_place_no_memory(place, error);
    }
    for (size_t i = 0; i < n; i++) {
        const struct ad_place at = ad_place_element(place, i);
        enum ad_status status = ad_place_integer(&at, json_array_get(array, i), 1,
                                                 INT64_MAX, &policy->versions[i], error);
        if (status) {
            return status;
        }
    }
    qsort(policy->versions, n, sizeof *policy->versions, compare);
    policy->n_versions = 1;
    for (size_t i = 1; i < n; i++) {
        if (policy->versions[i] != policy->versions[policy->n_versions - 1]) {
            policy->versions[policy->n_versions++] = policy->versions[i];
        }
    }
    return AD_OK;
}

/* What stands beside the name of a policy: {"num_versions": 2}. */
static enum ad_status read_choice(const struct ad_place *policy_place, json_t *object,
                                  struct ad_version_policy *policy,
                                  struct ad_error *error)
{
    static const char *const of_all[] = {NULL};
    static const char *const of_latest[] = {"num_versions", NULL};
    static const char *const of_specific[] = {"versions", NULL};
    const char *const *const known[] = {[AD_POLICY_ALL] = of_all,
                                        [AD_POLICY_LATEST] = of_latest,
                                        [AD_POLICY_SPECIFIC] = of_specific};
    const char *const names[] = {[AD_POLICY_ALL] = "all",
                                 [AD_POLICY_LATEST] = "latest",
                                 [AD_POLICY_SPECIFIC] = "specific"};
    const struct ad_place place = ad_place_member(policy_place, names[policy->kind]);
    json_t *choice;
    enum ad_status status =
        find_object(&place, object, known[policy->kind], &choice, error);
    if (status) {
        return status;
    }
    switch (policy->kind) {
    case AD_POLICY_ALL:
        return AD_OK;
    case AD_POLICY_LATEST: {
        policy->n_latest = 1;
        const struct number number = {"num_versions", 1, INT64_MAX, &policy->n_latest};
        return read_numbers(&place, choice, &number, 1, error);
    }
    case AD_POLICY_SPECIFIC: {
        const struct ad_place at = ad_place_member(&place, "versions");
        return read_list(&at, json_object_get(choice, "versions"), policy, error);
    }
    }
    return AD_OK;
}

static enum ad_status read_policy(const struct ad_place *document, const json_t *root,
                                  struct ad_version_policy *policy,
                                  struct ad_error *error)
{
    static const char *const known[] = {"all", "latest", "specific", NULL};
    const struct ad_place place = ad_place_member(document, "version_policy");
    json_t *object;
    enum ad_status status = find_object(&place, root, known, &object, error);
    if (status || !object) {
        return status;
    }
    if (json_object_size(object) != 1) {
        return ad_place_fail(&place, error,
                             "expected one of all, latest and specific, got %zu",
                             json_object_size(object));
    }
    policy->kind = json_object_get(object, "latest")     ? AD_POLICY_LATEST
                   : json_object_get(object, "specific") ? AD_POLICY_SPECIFIC
                                                         : AD_POLICY_ALL;
    return read_choice(&place, object, policy, error);
}

enum ad_status ad_manifest_read_serving(const struct ad_place *document, json_t *root,
                                        struct ad_manifest *manifest,
                                        struct ad_error *error)
{
    enum ad_status status = read_batching(document, root, &manifest->settings, error);
    if (!status) {
        status = read_queue(document, root, &manifest->settings, error);
    }
    return status ? status : read_policy(document, root, &manifest->policy, error);
}
