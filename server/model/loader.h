/* loader.h - the thread that loads and unloads models while the daemon serves. One command at a
 * time, in order; in poll mode it also looks at the disk every so often, and in explicit mode learns
 * which models there are. Owner: main, which starts and stops it. */
#ifndef AD_MODEL_LOADER_H
#define AD_MODEL_LOADER_H

#include "base/error.h"
#include "base/log.h"
#include "model/repository.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AD_LOADER_MAX_WAITING 64

enum ad_command_kind { AD_COMMAND_LOAD, AD_COMMAND_UNLOAD, AD_COMMAND_RESCAN };

/* Owner: whoever made it until it is submitted, then the loader until on_done. */
struct ad_command {
    enum ad_command_kind kind;
    char *model;  /* owned, as is what follows */
    char *config; /* NULL: the file's */
    size_t n_config;
    struct ad_override_file *files;
    size_t n_files;
    bool everything; /* of a rescan: SIGHUP */

    struct ad_error error; /* the answer; AD_OK: it is done */
    /* Exactly once after a submit, on the loader's thread or on the one that stops it; takes the
     * command over. NULL: the loader frees it. */
    void (*on_done)(struct ad_command *command);
    void *context;
    struct ad_command *next; /* the loader's */
};

struct ad_command *ad_command_create(enum ad_command_kind kind); /* NULL: out of memory */
void ad_command_free(struct ad_command *command);                /* NULL is fine */

struct ad_loader; /* lock, condition, list of commands */

/* From here on the repository is loaded into by this thread alone. poll_seconds is at least 1. */
enum ad_status ad_loader_start(struct ad_repository *repository, uint64_t poll_seconds,
                               const struct ad_log *log, struct ad_loader **loader,
                               struct ad_error *error) AD_MUST_CHECK;

/* On success *command is the loader's (nulled). AD_UNAVAILABLE: the mode is not explicit (load,
 * unload), the loader is stopping, or AD_LOADER_MAX_WAITING commands wait. */
enum ad_status ad_loader_submit(struct ad_loader *loader, struct ad_command **command,
                                struct ad_error *error) AD_MUST_CHECK;

/* Refuse and answer what waits, let the model that is being loaded be finished, join; what is submitted
 * later is refused. False: the deadline has passed before, and the thread still uses loader and
 * repository; it may be asked again. NULL is fine. */
bool ad_loader_stop(struct ad_loader *loader, int64_t deadline_ns) AD_MUST_CHECK;

/* After the stop, and after the last submit of any thread. NULL is fine. */
void ad_loader_free(struct ad_loader *loader);

#endif
