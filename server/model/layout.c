/* layout.c - tell one model from a folder of models, and give the only model its name.
 *
 * A storage service may put one model's files straight into the folder that is served, so a root with a
 * config.json is a model. A config.json in the root and in a folder too could mean either, and a guess
 * would serve the wrong half: it is refused. Owner: the repository; runs on the thread that loads. */
#include "model/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static enum ad_status out_of_memory(struct ad_error *error, const char *root)
{
    return ad_fail(error, AD_INTERNAL, "%s: out of memory", root);
}

enum ad_status ad_layout_init(struct ad_layout *layout, const char *root,
                              const char *name, const struct ad_log *log,
                              struct ad_error *error)
{
    *layout = (struct ad_layout){.log = log};
    if (name && !ad_scan_is_servable(name)) {
        return ad_fail(
            error, AD_INVALID,
            "--model-name: '%.64s' cannot be a model's name: expected UTF-8 "
            "without '/' and control characters, 1 to 255 bytes, not beginning "
            "with '.'",
            name);
    }
    layout->root = strdup(root);
    layout->name = name ? strdup(name) : NULL;
    if (!layout->root || (name && !layout->name)) {
        ad_layout_reset(layout);
        return out_of_memory(error, root);
    }
    return AD_OK;
}

void ad_layout_reset(struct ad_layout *layout)
{
    free(layout->root);
    free(layout->name);
    free(layout->only);
    free(layout->folder);
    *layout = (struct ad_layout){.root = NULL};
}

/* ---- what there is --------------------------------------------------------------------------- */

/* Whether <root>/config.json is there, or with folder given <root>/<folder>/config.json. */
static enum ad_status has_config(const char *root, const char *folder, bool *has,
                                 struct ad_error *error)
{
    char *path = NULL;
    struct stat about;
    if (asprintf(&path, "%s/%s%sconfig.json", root, folder ? folder : "",
                 folder ? "/" : "") < 0) {
        return out_of_memory(error, root);
    }
    *has = stat(path, &about) == 0 && !S_ISDIR(about.st_mode);
    free(path);
    return AD_OK;
}

/* The first folder that is a model beyond doubt, or NULL. One that is named like a version may be a
 * version of the root. */
static enum ad_status find_model(const char *root, const struct ad_names *names,
                                 const char **found, struct ad_error *error)
{
    *found = NULL;
    for (size_t i = 0; i < names->n && !*found; i++) {
        bool has = false;
        if (ad_scan_version(names->items[i]) != 0) {
            continue;
        }
        enum ad_status status = has_config(root, names->items[i], &has, error);
        if (status) {
            return status;
        }
        *found = has ? names->items[i] : NULL;
    }
    return AD_OK;
}

/* Whether the root is a model itself. */
static enum ad_status tell_kind(const struct ad_layout *layout,
                                const struct ad_names *names, bool *is_model,
                                struct ad_error *error)
{
    bool has = false;
    const char *other = NULL;
    enum ad_status status = has_config(layout->root, NULL, &has, error);
    if (!status && (has || layout->is_model)) {
        status = find_model(layout->root, names, &other, error);
    }
    if (!status && has && other) {
        return ad_fail(
            error, AD_INVALID,
            "%s/config.json lies beside %s/%s/config.json: expected one model, "
            "or a folder of models without a config.json of its own",
            layout->root, layout->root, other);
    }
    *is_model = has || (layout->is_model && !other);
    return status;
}

/* Leave out the folders that are no models; a name that no path could ask for is logged. */
static void keep_models(struct ad_names *names, const struct ad_log *skipped)
{
    size_t n = 0;
    for (size_t i = 0; i < names->n; i++) {
        char *name = names->items[i];
        /* a volume has a folder of its own, where the repository is the root of one */
        const bool is_own = strcmp(name, "lost+found") == 0;
        if (!is_own && ad_scan_is_servable(name)) {
            names->items[n++] = name;
            continue;
        }
        const struct ad_log_field fields[] = {
            ad_log_text("entry", name),
            ad_log_text("reason", "a model's name is UTF-8 without control characters")};
        if (!is_own) {
            ad_log_write(skipped, AD_LOG_WARNING, "entry skipped", fields, 2);
        }
        free(name);
    }
    names->n = n;
}

/* ---- what it is called ----------------------------------------------------------------------- */

/* *name = the last part of a path, to be freed; NULL where it has none ("..", "/"). AD_INTERNAL: out
 * of memory. */
static enum ad_status last_part(const char *path, char **name, struct ad_error *error)
{
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/') {
        end--;
    }
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/') {
        begin--;
    }
    *name = strndup(path + begin, end - begin);
    if (!*name) {
        return out_of_memory(error, path);
    }
    if (!ad_scan_is_servable(*name)) {
        free(*name);
        *name = NULL;
    }
    return AD_OK;
}

/* *name = the root's own, as it was given or, where that is "." or the like, as it really is. */
static enum ad_status name_root(const struct ad_layout *layout, char **name,
                                struct ad_error *error)
{
    enum ad_status status = last_part(layout->root, name, error);
    if (status || *name) {
        return status;
    }
    char *real = realpath(layout->root, NULL);
    status = real ? last_part(real, name, error) : AD_OK;
    free(real);
    return status || *name ? status
                           : ad_fail(error, AD_INVALID,
                                     "%s: is one model, whose folder's name cannot be a "
                                     "model's: give it one with --model-name",
                                     layout->root);
}

/* What the only model is called (NULL: there is none, or it is called like its folder), and its
 * folder. */
static enum ad_status name_only(const struct ad_layout *layout, bool is_model,
                                const struct ad_names *names, char **only, char **folder,
                                struct ad_error *error)
{
    if (!is_model && (!layout->name || names->n != 1)) {
        return AD_OK;
    }
    enum ad_status status = AD_OK;
    if (layout->name) {
        *only = strdup(layout->name);
        status = *only ? AD_OK : out_of_memory(error, layout->root);
    } else {
        status = name_root(layout, only, error);
    }
    if (!status &&
        (is_model ? asprintf(folder, "%s", layout->root)
                  : asprintf(folder, "%s/%s", layout->root, names->items[0])) < 0) {
        *folder = NULL;
        status = out_of_memory(error, layout->root);
    }
    return status;
}

/* The names are the only model's. */
static enum ad_status set_only_name(struct ad_names *names, const char *only,
                                    struct ad_error *error)
{
    struct ad_names one = {calloc(1, sizeof *one.items), 0, 1};
    char *copy = strdup(only);
    if (!one.items || !copy) {
        free(copy);
        free(one.items);
        return ad_fail(error, AD_INTERNAL, "model '%s': out of memory", only);
    }
    one.items[one.n++] = copy;
    ad_names_reset(names);
    *names = one;
    return AD_OK;
}

/* Once, not at every look: a serving platform gives the option whatever it serves. */
static void note_ignored(struct ad_layout *layout, bool ignored, size_t n_models)
{
    if (ignored && !layout->ignored) {
        const struct ad_log_field fields[] = {ad_log_text("name", layout->name),
                                              ad_log_text("repository", layout->root),
                                              ad_log_number("models", (int64_t)n_models)};
        ad_log_write(layout->log, AD_LOG_WARNING,
                     "--model-name is ignored, it is for a repository of one model",
                     fields, 3);
    }
    layout->ignored = ignored;
}

static enum ad_status settle(struct ad_layout *layout, bool is_model,
                             struct ad_names *names, struct ad_error *error)
{
    char *only = NULL;
    char *folder = NULL;
    const size_t n_models = names->n;
    enum ad_status status = name_only(layout, is_model, names, &only, &folder, error);
    if (!status && only) {
        status = set_only_name(names, only, error);
    }
    if (status) {
        free(only);
        free(folder);
        return status;
    }
    free(layout->only);
    free(layout->folder);
    layout->only = only;
    layout->folder = folder;
    layout->is_model = is_model;
    note_ignored(layout, layout->name && !only && n_models > 1, n_models);
    return AD_OK;
}

enum ad_status ad_layout_look(struct ad_layout *layout, const struct ad_log *skipped,
                              struct ad_names *names, struct ad_error *error)
{
    enum ad_status status = ad_scan_folders(layout->root, skipped, names, error);
    if (status) {
        return status;
    }
    bool is_model = false;
    keep_models(names, skipped);
    status = tell_kind(layout, names, &is_model, error);
    if (!status) {
        status = settle(layout, is_model, names, error);
    }
    if (status) {
        ad_names_reset(names);
    }
    return status;
}

/* ---- where it lies --------------------------------------------------------------------------- */

enum ad_status ad_layout_path(const struct ad_layout *layout, const char *name,
                              char **path, struct ad_error *error)
{
    const bool is_only = layout->only && strcmp(name, layout->only) == 0;
    *path = is_only ? strdup(layout->folder) : NULL;
    if (is_only ? !*path : asprintf(path, "%s/%s", layout->root, name) < 0) {
        *path = NULL;
        return out_of_memory(error, layout->root);
    }
    return AD_OK;
}

bool ad_layout_may_have(const struct ad_layout *layout, const char *name)
{
    return !layout->only || strcmp(name, layout->only) == 0;
}
