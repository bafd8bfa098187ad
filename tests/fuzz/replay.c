/* replay.c - run a fuzz target over the files of a corpus folder, without a fuzzer: what once broke
 * a parser stays a test. Usage: replay_NAME FOLDER. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) {
        perror(path);
        return -1;
    }
    long size = ftell(file);
    rewind(file);
    /* exactly as large as the file, so that a read past the end is seen by the sanitizers */
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
    if (size < 0 || !data || fread(data, 1, (size_t)size, file) != (size_t)size) {
        perror(path);
        return -1;
    }
    fclose(file);
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    DIR *folder = opendir(argv[1]);
    if (!folder) {
        perror(argv[1]);
        return 2;
    }
    int n = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        if (entry->d_name[0] == '.') {
            continue;
        }
        if (replay(path) != 0) {
            return 1;
        }
        n++;
    }
    closedir(folder);
    printf("%s: %d passed, 0 failed\n", argv[1], n);
    return n > 0 ? 0 : 1;
}
