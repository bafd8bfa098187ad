/* log_control.c - what of a log changes at run time. Any thread; settings and the file are guarded by
 * a lock that lines never take. The log's descriptor keeps its number: a file is put behind it. */
#include "base/log_control.h"
#include "base/open.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MODE 0640

const char *const ad_log_style_words[] = {[AD_LOG_STYLE_DEFAULT] = "default",
                                          [AD_LOG_STYLE_ISO8601] = "ISO8601",
                                          [AD_LOG_STYLE_JSON] = "json",
                                          NULL};

struct ad_log_control {
    struct ad_log *log;              /* immutable, as are the next two */
    int first_fd;                    /* where the log went at the start; not ours */
    int folder;                      /* -1: none */
    pthread_mutex_t lock;            /* of what follows */
    struct ad_log_settings settings; /* what the log does, as it was asked for */
};

static struct ad_log_settings settings_of(const struct ad_log *log)
{
    return (struct ad_log_settings){.info = ad_log_enables(log, AD_LOG_INFO),
                                    .warning = ad_log_enables(log, AD_LOG_WARNING),
                                    .error = ad_log_enables(log, AD_LOG_ERROR),
                                    .verbose_level = ad_log_enables(log, AD_LOG_DEBUG),
                                    .style = atomic_load(&log->format) == AD_LOG_JSON
                                                 ? AD_LOG_STYLE_JSON
                                                 : AD_LOG_STYLE_DEFAULT};
}

static enum ad_status open_folder(const char *path, int *fd, struct ad_error *error)
{
    *fd = ad_open(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0);
    return *fd >= 0
               ? AD_OK
               : ad_fail(error, AD_INVALID, "log folder %s: %s", path, strerror(errno));
}

enum ad_status ad_log_control_create(struct ad_log *log, const char *folder,
                                     struct ad_log_control **control,
                                     struct ad_error *error)
{
    *control = NULL;
    struct ad_log_control *created = calloc(1, sizeof *created);
    if (!created) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    created->log = log;
    created->first_fd = log->fd;
    created->folder = -1;
    enum ad_status status = folder ? open_folder(folder, &created->folder, error) : AD_OK;
    int fd = status ? -1 : fcntl(log->fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (!status && fd < 0) {
        status = ad_fail(error, AD_INTERNAL, "log: %s", strerror(errno));
    }
    if (status) {
        if (created->folder >= 0) {
            close(created->folder);
        }
        free(created);
        return status;
    }
    log->fd = fd;
    created->settings = settings_of(log);
    pthread_mutex_init(&created->lock, NULL);
    *control = created;
    return AD_OK;
}

void ad_log_control_free(struct ad_log_control *control)
{
    if (!control) {
        return;
    }
    int fd = control->log->fd;
    control->log->fd = control->first_fd;
    close(fd);
    if (control->folder >= 0) {
        close(control->folder);
    }
    pthread_mutex_destroy(&control->lock);
    free(control);
}

void ad_log_control_read(struct ad_log_control *control, struct ad_log_settings *settings)
{
    pthread_mutex_lock(&control->lock);
    *settings = control->settings;
    pthread_mutex_unlock(&control->lock);
}

/* ---- the file -------------------------------------------------------------- */

static bool is_plain_name(const char *name)
{
    for (const char *at = name; *at; at++) {
        if (*at <= ' ' || *at > '~' || *at == '/') {
            return false;
        }
    }
    return name[0] != '.';
}

/* A regular file of the folder: not behind a link, and not a pipe that could hold us up. */
static enum ad_status open_regular(const struct ad_log_control *control, const char *name,
                                   int *fd, struct ad_error *error)
{
    struct stat info;
    *fd = ad_open(control->folder, name,
                  O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY,
                  FILE_MODE);
    if (*fd < 0) {
        return ad_fail(error, AD_INVALID, "log_file: '%s' cannot be opened: %s", name,
                       strerror(errno));
    }
    if (fstat(*fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(*fd);
        return ad_fail(error, AD_INVALID, "log_file: '%s' is not a regular file", name);
    }
    return AD_OK;
}

/* Put the file of that name behind the log's descriptor, or what was there at the start. */
static enum ad_status turn_to(struct ad_log_control *control, const char *name,
                              struct ad_error *error)
{
    int fd = control->first_fd;
    if (name[0] != '\0') {
        if (control->folder < 0) {
            return ad_fail(error, AD_INVALID,
                           "log_file: a log goes to a file only below the folder that "
                           "--log-dir names, and none is named");
        }
        if (!is_plain_name(name)) {
            return ad_fail(error, AD_INVALID,
                           "log_file: expected the plain name of a file, got '%s'", name);
        }
        enum ad_status status = open_regular(control, name, &fd, error);
        if (status) {
            return status;
        }
    }
    int turned = dup3(fd, control->log->fd, O_CLOEXEC);
    int reason = errno;
    if (fd != control->first_fd) {
        close(fd);
    }
    return turned >= 0 ? AD_OK
                       : ad_fail(error, AD_INTERNAL, "log_file: %s", strerror(reason));
}

/* ---- changes --------------------------------------------------------------- */

static void apply(struct ad_log *log, const struct ad_log_settings *settings)
{
    const bool written[] = {[AD_LOG_ERROR] = settings->error,
                            [AD_LOG_WARNING] = settings->warning,
                            [AD_LOG_INFO] = settings->info,
                            [AD_LOG_DEBUG] = settings->verbose_level > 0};
    unsigned muted = 0;
    for (unsigned level = AD_LOG_ERROR; level <= AD_LOG_DEBUG; level++) {
        muted |= written[level] ? 0 : 1U << level;
    }
    atomic_store(&log->muted, muted);
    atomic_store(&log->level, AD_LOG_DEBUG);
    atomic_store(&log->format,
                 settings->style == AD_LOG_STYLE_JSON ? AD_LOG_JSON : AD_LOG_TEXT);
}

static struct ad_log_settings changed(const struct ad_log_settings *from,
                                      const struct ad_log_change *change)
{
    struct ad_log_settings settings = *from;
    const struct ad_log_settings *to = &change->to;
    unsigned given = change->given;
    if (given & AD_LOG_GIVES_FILE) {
        memcpy(settings.file, to->file, sizeof settings.file);
    }
    settings.info = given & AD_LOG_GIVES_INFO ? to->info : from->info;
    settings.warning = given & AD_LOG_GIVES_WARNING ? to->warning : from->warning;
    settings.error = given & AD_LOG_GIVES_ERROR ? to->error : from->error;
    settings.verbose_level =
        given & AD_LOG_GIVES_VERBOSE_LEVEL ? to->verbose_level : from->verbose_level;
    settings.style = given & AD_LOG_GIVES_STYLE ? to->style : from->style;
    return settings;
}

enum ad_status ad_log_control_change(struct ad_log_control *control,
                                     const struct ad_log_change *change,
                                     struct ad_error *error)
{
    enum ad_status status = AD_OK;
    pthread_mutex_lock(&control->lock);
    struct ad_log_settings settings = changed(&control->settings, change);
    if (strcmp(settings.file, control->settings.file) != 0) {
        status = turn_to(control, settings.file, error);
    }
    if (status == AD_OK) {
        apply(control->log, &settings);
        control->settings = settings;
    }
    pthread_mutex_unlock(&control->lock);
    return status;
}

enum ad_status ad_log_reopen(struct ad_log_control *control, struct ad_error *error)
{
    enum ad_status status = AD_OK;
    pthread_mutex_lock(&control->lock);
    if (control->settings.file[0] != '\0') {
        status = turn_to(control, control->settings.file, error);
    }
    pthread_mutex_unlock(&control->lock);
    return status;
}
