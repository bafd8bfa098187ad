/* sandbox_places.c - which folders and files a sandbox has to leave within reach, so that what is
 * replaced later is still found. A rule of the kernel is about the folder that was there when it was
 * made; files and links change inside of it. Runs on the main thread. */
#include "base/sandbox_places.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_LINKS 8 /* one behind the other */

/* ---- the list ------------------------------------------------------------------------------- */

bool ad_sandbox_places_add(struct ad_sandbox_places *places, enum ad_sandbox_use use,
                           const char *path)
{
    for (size_t i = 0; i < places->n; i++) {
        if (places->items[i].use == use && strcmp(places->items[i].path, path) == 0) {
            return true;
        }
    }
    struct ad_sandbox_place *grown =
        realloc(places->items, (places->n + 1) * sizeof *grown);
    if (!grown) {
        return false;
    }
    places->items = grown;
    grown[places->n] = (struct ad_sandbox_place){use, strdup(path)};
    if (!grown[places->n].path) {
        return false;
    }
    places->n++;
    return true;
}

void ad_sandbox_places_reset(struct ad_sandbox_places *places)
{
    for (size_t i = 0; i < places->n; i++) {
        free(places->items[i].path);
    }
    free(places->items);
    *places = (struct ad_sandbox_places){NULL, 0};
}

/* ---- folders -------------------------------------------------------------------------------- */

/* The text of the folder that a path lies in. */
static void folder_of(const char *path, char folder[PATH_MAX])
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') {
        n--;
    }
    while (n > 0 && path[n - 1] != '/') {
        n--;
    }
    while (n > 1 && path[n - 1] == '/') {
        n--;
    }
    snprintf(folder, PATH_MAX, "%.*s", n > 0 ? (int)n : 1, n > 0 ? path : ".");
}

static bool is_root(const char *folder)
{
    struct stat here, root;
    return stat(folder, &here) == 0 && stat("/", &root) == 0 &&
           here.st_dev == root.st_dev && here.st_ino == root.st_ino;
}

/* The folder of path; of / when it is to be read, path alone. */
static bool add_around(struct ad_sandbox_places *places, enum ad_sandbox_use use,
                       const char *path)
{
    char folder[PATH_MAX];
    folder_of(path, folder);
    return ad_sandbox_places_add(
        places, use, use == AD_SANDBOX_READ && is_root(folder) ? path : folder);
}

/* ---- links ---------------------------------------------------------------------------------- */

static bool follow(struct ad_sandbox_places *places, enum ad_sandbox_use use,
                   const char *path, unsigned n_links);

/* Where the link at path leads to; false: it is none. */
static bool read_link(const char *path, char target[PATH_MAX])
{
    char text[PATH_MAX], folder[PATH_MAX];
    ssize_t n = readlink(path, text, sizeof text - 1);
    if (n <= 0) {
        return false;
    }
    text[n] = '\0';
    folder_of(path, folder);
    int length = text[0] == '/' ? snprintf(target, PATH_MAX, "%s", text)
                                : snprintf(target, PATH_MAX, "%s/%s", folder, text);
    return length < PATH_MAX;
}

/* NOLINTNEXTLINE(misc-no-recursion): MOST_LINKS deep at most */
static bool follow_link(struct ad_sandbox_places *places, enum ad_sandbox_use use,
                        const char *path, unsigned n_links)
{
    char target[PATH_MAX];
    if (n_links == 0 || !read_link(path, target)) {
        return true;
    }
    return add_around(places, use, target) && follow(places, use, target, n_links - 1);
}

/* Every part of a path may be a link: /srv/current/models is one where `current` is. */
/* NOLINTNEXTLINE(misc-no-recursion): MOST_LINKS deep at most */
static bool follow(struct ad_sandbox_places *places, enum ad_sandbox_use use,
                   const char *path, unsigned n_links)
{
    char part[PATH_MAX];
    bool added = true;
    for (size_t n = 1; added && path[n - 1] != '\0' && n < sizeof part; n++) {
        if (path[n - 1] != '/' && (path[n] == '/' || path[n] == '\0')) {
            memcpy(part, path, n);
            part[n] = '\0';
            added = follow_link(places, use, part, n_links);
        }
    }
    return added;
}

bool ad_sandbox_places_add_file(struct ad_sandbox_places *places, enum ad_sandbox_use use,
                                const char *path)
{
    return add_around(places, use, path) && follow(places, use, path, MOST_LINKS);
}

/* ---- trees ---------------------------------------------------------------------------------- */

/* NOLINTNEXTLINE(misc-no-recursion): n_levels deep */
static bool follow_inside(struct ad_sandbox_places *places, const char *path,
                          unsigned n_levels)
{
    DIR *folder = n_levels > 0 ? opendir(path) : NULL;
    bool added = true;
    for (const struct dirent *entry; added && folder && (entry = readdir(folder));) {
        char inner[PATH_MAX];
        int n = snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            n < PATH_MAX) {
            added = follow_link(places, AD_SANDBOX_READ, inner, MOST_LINKS) &&
                    follow_inside(places, inner, n_levels - 1);
        }
    }
    if (folder) {
        closedir(folder);
    }
    return added;
}

bool ad_sandbox_places_add_tree(struct ad_sandbox_places *places, const char *path,
                                unsigned n_levels)
{
    return ad_sandbox_places_add(places, AD_SANDBOX_READ, path) &&
           follow(places, AD_SANDBOX_READ, path, MOST_LINKS) &&
           follow_inside(places, path, n_levels);
}
