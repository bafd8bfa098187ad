/* routes.c - which paths there are. The table is constant; any thread. */
#include "http/routes.h"
#include "http/handle_regions.h"
#include "http/handle_sequences.h"
#include "http/handlers.h"
#include "http/operator_handlers.h"

#include <string.h>

static const struct ad_route routes[] = {
    {"v2", .get = ad_handle_server},
    {"v2/health/live", .open = true, .get = ad_handle_live},
    {"v2/health/ready", .open = true, .get = ad_handle_ready},
    {"v2/logging", .admin = true, .get = ad_handle_logging, .post = ad_handle_logging},
    {"v2/models", .get = ad_handle_models},
    {"v2/models/stats", .admin = true, .get = ad_handle_stats},
    {"v2/models/{model}", .get = ad_handle_model},
    {"v2/models/{model}/ready", .open = true, .get = ad_handle_model_ready},
    {"v2/models/{model}/config", .get = ad_handle_model_config},
    {"v2/models/{model}/stats", .admin = true, .get = ad_handle_stats},
    {"v2/models/{model}/infer", .infer = true},
    {"v2/models/{model}/gradient", .infer = true, .gradient = true},
    {"v2/models/{model}/sequences", .admin = true, .get = ad_handle_sequences},
    {"v2/models/{model}/sequences/{id}", .infer = true, .moves = true},
    {"v2/models/{model}/versions/{version}", .get = ad_handle_model},
    {"v2/models/{model}/versions/{version}/ready", .open = true,
     .get = ad_handle_model_ready},
    {"v2/models/{model}/versions/{version}/config", .get = ad_handle_model_config},
    {"v2/models/{model}/versions/{version}/stats", .admin = true, .get = ad_handle_stats},
    {"v2/models/{model}/versions/{version}/infer", .infer = true},
    {"v2/models/{model}/versions/{version}/gradient", .infer = true, .gradient = true},
    {"v2/models/{model}/versions/{version}/sequences", .admin = true,
     .get = ad_handle_sequences},
    {"v2/models/{model}/versions/{version}/sequences/{id}", .infer = true, .moves = true},
    {"v2/repository/index", .admin = true, .post = ad_handle_index},
    {"v2/repository/models/{model}/load", .admin = true, .command = true,
     .kind = AD_COMMAND_LOAD},
    {"v2/repository/models/{model}/unload", .admin = true, .command = true,
     .kind = AD_COMMAND_UNLOAD},
    {"v2/systemsharedmemory/status", .get = ad_handle_regions},
    {"v2/systemsharedmemory/unregister", .post = ad_handle_unregister},
    {"v2/systemsharedmemory/region/{region}/status", .get = ad_handle_regions},
    {"v2/systemsharedmemory/region/{region}/register", .post = ad_handle_register},
    {"v2/systemsharedmemory/region/{region}/unregister", .post = ad_handle_unregister},
    {"v1/models", .get = ad_handle_models},
    {"v1/models/{model}:predict", .infer = true, .form = AD_FORM_PREDICT},
    {"v1/models/{model}", .open = true, .get = ad_handle_model_ready},
    {"metrics", .admin = true, .get = ad_handle_metrics},
};

static bool segment_is(const char *pattern, size_t n, const char *text)
{
    return strlen(text) == n && memcmp(pattern, text, n) == 0;
}

/* Does the segment end as the n bytes of pattern do behind its variable, with something before that? */
static bool ends_as(const char *pattern, size_t n, const char *text)
{
    size_t skipped = strlen("{model}"), length = strlen(text);
    return n > skipped && strncmp(pattern, "{model}", skipped) == 0 &&
           length > n - skipped &&
           memcmp(text + length - (n - skipped), pattern + skipped, n - skipped) == 0;
}

/* Does the path fit the pattern? Fills target on the way, and *end where a segment has an end that is the
 * pattern's. */
static bool matches(const char *pattern, struct ad_path *path, struct ad_target *target,
                    char **end)
{
    *target = (struct ad_target){NULL, NULL, NULL, NULL};
    *end = NULL;
    for (size_t i = 0; i < path->n_segments; i++) {
        size_t n = strcspn(pattern, "/");
        if (segment_is(pattern, n, "{model}")) {
            target->model = path->segments[i];
        } else if (segment_is(pattern, n, "{version}")) {
            target->version = path->segments[i];
        } else if (segment_is(pattern, n, "{region}")) {
            target->region = path->segments[i];
        } else if (segment_is(pattern, n, "{id}")) {
            target->id = path->segments[i];
        } else if (ends_as(pattern, n, path->segments[i])) {
            target->model = path->segments[i];
            *end =
                path->segments[i] + strlen(path->segments[i]) - (n - strlen("{model}"));
        } else if (!segment_is(pattern, n, path->segments[i])) {
            return false;
        }
        bool is_last = pattern[n] == '\0';
        if (is_last || i + 1 == path->n_segments) {
            return is_last && i + 1 == path->n_segments;
        }
        pattern += n + 1;
    }
    return false;
}

const struct ad_route *ad_route_find(struct ad_path *path, struct ad_target *target)
{
    char *end = NULL;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (matches(routes[i].pattern, path, target, &end)) {
            if (end) {
                *end = '\0';
            }
            return &routes[i];
        }
    }
    *target = (struct ad_target){NULL, NULL, NULL, NULL};
    return NULL;
}

enum ad_status ad_route_check_verb(const struct ad_route *route, const char *verb,
                                   struct ad_error *error)
{
    bool get = strcmp(verb, "GET") == 0 || strcmp(verb, "HEAD") == 0;
    bool post = strcmp(verb, "POST") == 0;
    bool forget = route->moves && strcmp(verb, "DELETE") == 0;
    if ((get && (route->get || route->moves)) || (post && ad_route_posts(route)) ||
        forget) {
        return AD_OK;
    }
    return ad_fail(error, AD_METHOD, "Method Not Allowed: this path takes %s, not %.32s",
                   ad_route_allow(route), verb);
}

const char *ad_route_allow(const struct ad_route *route)
{
    if (route->moves) {
        return "GET, HEAD, POST, DELETE";
    }
    return !route->get ? "POST" : ad_route_posts(route) ? "GET, HEAD, POST" : "GET, HEAD";
}
