/* open.c - files are opened again where a signal interrupts that. */
#include "base/open.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>

int ad_open(int folder, const char *path, int flags, mode_t mode)
{
    int fd;
    do {
        fd = openat(folder, path, flags | O_CLOEXEC, mode);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

FILE *ad_open_stream(const char *path)
{
    FILE *stream;
    do {
        stream = fopen(path, "re");
    } while (!stream && errno == EINTR);
    return stream;
}

DIR *ad_open_folder(const char *path)
{
    DIR *folder;
    do {
        folder = opendir(path);
    } while (!folder && errno == EINTR);
    return folder;
}
