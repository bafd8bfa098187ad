/* confine.c - how far the daemon confines itself, and what it needs for what its options ask. Runs on
 * the main thread at the start. */
#include "confine.h"

#include "base/options_table.h"
#include "base/sandbox_calls.h"
#include "base/sandbox_files.h"
#include "daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Below the repository's root: models, versions, their files. */
#define REPOSITORY_LEVELS 3

/* ---- whether -------------------------------------------------------------------------------- */

/* There where a tool is built into the program or lies beneath it, which then does far more than we
 * do. */
/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): names of those tools */
void __asan_init(void) __attribute__((weak));
void __tsan_init(void) __attribute__((weak));
void __gcov_init(void *) __attribute__((weak));
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

static const char *tool(void)
{
    const char *preloaded = getenv("LD_PRELOAD");
    if (__asan_init || __tsan_init) {
        return "off: built with a sanitizer";
    }
    if (__gcov_init) {
        return "off: built to measure coverage";
    }
    return preloaded && strstr(preloaded, "vgpreload") ? "off: under valgrind" : NULL;
}

static enum ad_sandbox_mode mode_of(const struct daemon *daemon)
{
    const int mode = ad_option_word_index(ad_sandbox_words, daemon->options.sandbox);
    return mode < 0 ? AD_SANDBOX_AUTO : (enum ad_sandbox_mode)mode;
}

/* Why nothing is done; NULL: it is. */
static const char *reason_against(const struct daemon *daemon)
{
    return mode_of(daemon) == AD_SANDBOX_OFF ? "off: as --sandbox says" : tool();
}

/* Nothing came of one part: text says why. */
static enum ad_status do_without(const struct daemon *daemon, const char *part,
                                 const char *text, struct ad_error *error)
{
    return mode_of(daemon) == AD_SANDBOX_REQUIRE
               ? ad_fail(error, AD_UNSUPPORTED, "--sandbox=require: %s is %s", part, text)
               : AD_OK;
}

/* ---- files ---------------------------------------------------------------------------------- */

/* What the system says of us and the machine: for metrics, and for the C library. */
static bool add_system(struct ad_sandbox_places *places)
{
    static const char *const read[] = {"/proc/self",     "/proc/stat",
                                       "/sys/fs/cgroup", "/sys/devices/system/cpu",
                                       "/etc/gnutls",    "/proc/sys/vm/overcommit_memory",
                                       "/dev/urandom",   "/etc/localtime"};
    bool added = true;
    for (size_t i = 0; added && i < sizeof read / sizeof read[0]; i++) {
        added = ad_sandbox_places_add(places, AD_SANDBOX_READ, read[i]);
    }
    return added;
}

/* What a reload reads again. */
static bool add_read(struct ad_sandbox_places *places, const struct ad_options *options)
{
    const char *const files[] = {options->tls_certificate, options->tls_key,
                                 options->tls_client_ca, options->api_keys};
    bool added =
        ad_sandbox_places_add_tree(places, options->model_repository, REPOSITORY_LEVELS);
    for (size_t i = 0; added && i < sizeof files / sizeof files[0]; i++) {
        added =
            !files[i] || ad_sandbox_places_add_file(places, AD_SANDBOX_READ, files[i]);
    }
    return added;
}

static bool add_written(struct ad_sandbox_places *places,
                        const struct ad_options *options)
{
    return (!options->log_dir ||
            ad_sandbox_places_add(places, AD_SANDBOX_APPEND, options->log_dir)) &&
           (!options->trace_file ||
            ad_sandbox_places_add_file(places, AD_SANDBOX_APPEND, options->trace_file)) &&
           (!options->http_unix_socket ||
            ad_sandbox_places_add_file(places, AD_SANDBOX_SOCKET,
                                       options->http_unix_socket)) &&
           (!options->allow_client_shm ||
            ad_sandbox_places_add(places, AD_SANDBOX_SHARE, AD_REGIONS_FOLDER));
}

/* The places to read, or those to write to. */
static void list(const struct ad_sandbox_places *places, bool read,
                 char text[AD_CONFINE_TEXT])
{
    size_t n = 0;
    snprintf(text, AD_CONFINE_TEXT, "none");
    for (size_t i = 0; i < places->n && n < AD_CONFINE_TEXT; i++) {
        if ((places->items[i].use == AD_SANDBOX_READ) == read) {
            n += (size_t)snprintf(text + n, AD_CONFINE_TEXT - n, "%s%s", n > 0 ? "," : "",
                                  places->items[i].path);
        }
    }
}

/* Whom it connects to: only itself, to see whether it answers, and only for a manager that asks. What
 * was passed may listen anywhere. */
static struct ad_sandbox_files rules_of(const struct daemon *daemon,
                                        const struct ad_sandbox_places *places)
{
    const struct ad_service_manager *manager = &daemon->manager;
    const bool to_abstract = manager->fd >= 0 && manager->address.sun_path[0] == '\0';
    const bool passed = daemon->passed.n > 0;
    return (struct ad_sandbox_files){.places = places,
                                     .connects = manager->watchdog_ns > 0,
                                     .port =
                                         passed ? 0 : (uint16_t)daemon->options.http_port,
                                     .uses_abstract = to_abstract || passed};
}

static enum ad_status confine(struct daemon *daemon,
                              const struct ad_sandbox_places *places,
                              struct ad_error *error)
{
    struct ad_confinement *confinement = &daemon->confinement;
    struct ad_error why = {.status = AD_OK};
    const struct ad_sandbox_files rules = rules_of(daemon, places);
    if (ad_sandbox_files_apply(&rules, &why) != AD_OK) {
        snprintf(confinement->files, sizeof confinement->files, "off: %.900s",
                 why.message);
        return do_without(daemon, "landlock", confinement->files, error);
    }
    snprintf(confinement->files, sizeof confinement->files, "on, ABI %d",
             ad_sandbox_files_abi());
    list(places, true, confinement->reads);
    list(places, false, confinement->writes);
    return AD_OK;
}

enum ad_status ad_confine_files(struct daemon *daemon, struct ad_error *error)
{
    struct ad_sandbox_places places = {NULL, 0};
    const char *against = reason_against(daemon);
    if (against) {
        snprintf(daemon->confinement.files, sizeof daemon->confinement.files, "%s",
                 against);
        return do_without(daemon, "landlock", against, error);
    }
    /* ours last: the log may cut a list */
    enum ad_status status = AD_OK;
    if (add_read(&places, &daemon->options) && add_written(&places, &daemon->options) &&
        add_system(&places)) {
        status = confine(daemon, &places, error);
    } else {
        status = ad_fail(error, AD_INTERNAL, "out of memory");
    }
    ad_sandbox_places_reset(&places);
    return status;
}

/* ---- system calls --------------------------------------------------------------------------- */

static void log_confinement(const struct daemon *daemon, const char *calls)
{
    const struct ad_confinement *confinement = &daemon->confinement;
    struct ad_log_field fields[4];
    size_t n = 0;
    fields[n++] = ad_log_text("seccomp", calls);
    fields[n++] = ad_log_text("landlock", confinement->files);
    if (confinement->reads[0] != '\0') {
        fields[n++] = ad_log_text("reads", confinement->reads);
        fields[n++] = ad_log_text("writes", confinement->writes);
    }
    ad_log_write(&daemon->log, AD_LOG_INFO, "sandbox", fields, n);
}

enum ad_status ad_confine_calls(struct daemon *daemon, struct ad_error *error)
{
    const struct ad_sandbox_calls calls = {.connects = daemon->manager.watchdog_ns > 0};
    const char *against = reason_against(daemon);
    struct ad_error why = {.status = AD_OK};
    char text[AD_CONFINE_TEXT];
    size_t n_calls = 0;
    enum ad_status status = AD_OK;
    if (against) {
        snprintf(text, sizeof text, "%s", against);
        status = do_without(daemon, "seccomp", text, error);
    } else if (ad_sandbox_calls_apply(&calls, &n_calls, &why) != AD_OK) {
        snprintf(text, sizeof text, "off: %.900s", why.message);
        status = do_without(daemon, "seccomp", text, error);
    } else {
        snprintf(text, sizeof text, "on, %zu calls", n_calls);
    }
    log_confinement(daemon, text);
    return status;
}
