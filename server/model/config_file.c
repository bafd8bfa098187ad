/* config_file.c - read a small file, whatever it really is.
 *
 * A pipe or device in a config's place must not hold up the start, nor a file that grows while it
 * is read exceed the limit. No state; any thread. */
#include "model/config_file.h"
#include "base/open.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum ad_status fail(struct ad_error *error, const char *path, int code)
{
    if (code == ENOENT) {
        return ad_fail(error, AD_NOT_FOUND, "%s: no such file", path);
    }
    return ad_fail(error, AD_INVALID, "%s: cannot be read: %s", path, strerror(code));
}

static enum ad_status too_large(struct ad_error *error, const char *path,
                                size_t max_bytes)
{
    return ad_fail(error, AD_INVALID, "%s: expected at most %zu bytes, the file has more",
                   path, max_bytes);
}

static enum ad_status check_kind(int fd, const char *path, size_t max_bytes,
                                 struct ad_error *error)
{
    struct stat about;
    if (fstat(fd, &about) != 0) {
        return fail(error, path, errno);
    }
    if (!S_ISREG(about.st_mode)) {
        return ad_fail(error, AD_INVALID, "%s: not a regular file", path);
    }
    if (about.st_size > 0 && (uintmax_t)about.st_size > max_bytes) {
        return too_large(error, path, max_bytes);
    }
    return AD_OK;
}

/* Fill buffer, which has max_bytes and one more, up to the file's end. */
static enum ad_status read_all(int fd, const char *path, char *buffer, size_t max_bytes,
                               size_t *n_bytes, struct ad_error *error)
{
    size_t n = 0;
    for (;;) {
        /* one byte over the limit is asked for, to see whether it is there */
        const ssize_t got = read(fd, buffer + n, max_bytes + 1 - n);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return fail(error, path, errno);
        }
        if (got == 0) {
            *n_bytes = n;
            return AD_OK;
        }
        n += (size_t)got;
        if (n > max_bytes) {
            return too_large(error, path, max_bytes);
        }
    }
}

enum ad_status ad_config_file_read(const char *path, size_t max_bytes, char **text,
                                   size_t *n_bytes, struct ad_error *error)
{
    const int fd = ad_open(AT_FDCWD, path, O_RDONLY | O_NOCTTY | O_NONBLOCK, 0);
    if (fd < 0) {
        return fail(error, path, errno);
    }
    char *buffer = NULL;
    enum ad_status status = check_kind(fd, path, max_bytes, error);
    if (!status) {
        buffer = malloc(max_bytes + 1);
        status = buffer ? read_all(fd, path, buffer, max_bytes, n_bytes, error)
                        : ad_fail(error, AD_INTERNAL, "%s: out of memory", path);
    }
    close(fd);
    if (status && buffer) {
        explicit_bzero(buffer, max_bytes + 1); /* it may have been one of keys */
        free(buffer);
    }
    if (status) {
        return status;
    }
    buffer[*n_bytes] = '\0';
    *text = buffer;
    return AD_OK;
}
