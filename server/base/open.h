/* open.h - files are opened again where a signal interrupts that, as it may where they come over a network.
 * Any thread. errno says why it failed. */
#ifndef AD_BASE_OPEN_H
#define AD_BASE_OPEN_H

#include <dirent.h>
#include <stdio.h>
#include <sys/types.h>

/* As openat, always with O_CLOEXEC. mode: where flags have O_CREAT. */
int ad_open(int folder, const char *path, int flags, mode_t mode);

/* As fopen, to read. */
FILE *ad_open_stream(const char *path);

/* As opendir. */
DIR *ad_open_folder(const char *path);

#endif
