/* Is everything out of reach but the places that were named, each for its use alone? Each attempt is a
 * process of its own, in a folder of these:
 *
 *     read/file  append/file  share/file  socket/  other/file  link -> read/file */
#include "base/sandbox_files.h"

#include "unit/support.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALLOWED_PORT 9 /* nobody listens there */
#define OTHER_PORT 7

/* ---- attempts ------------------------------------------------------------------------------- */

static int outcome(long code)
{
    return code < 0 ? errno : 0;
}

static int attempt_read(const char *path)
{
    return outcome(open(path, O_RDONLY));
}

static int attempt_list(const char *path)
{
    return outcome(open(path, O_RDONLY | O_DIRECTORY));
}

static int attempt_write(const char *path)
{
    return outcome(open(path, O_WRONLY | O_APPEND | O_CREAT, 0600));
}

static int attempt_change(const char *path)
{
    return outcome(open(path, O_RDWR));
}

static int attempt_remove(const char *path)
{
    return outcome(unlink(path));
}

static int attempt_folder(const char *path)
{
    return outcome(mkdir(path, 0700));
}

static int attempt_link(const char *path)
{
    return outcome(symlink("file", path));
}

static int attempt_rename(const char *path)
{
    return outcome(rename(path, "append/renamed"));
}

static int attempt_cut(const char *path)
{
    return outcome(truncate(path, 0));
}

static int attempt_run(const char *path)
{
    return outcome(execl(path, path, (char *)NULL));
}

static int attempt_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    return outcome(bind(fd, (const struct sockaddr *)&address, sizeof address));
}

static int attempt_connect(const char *port)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)atoi(port)),
                                        .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return outcome(connect(fd, (const struct sockaddr *)&address, sizeof address));
}

/* To a socket of the test's own process, which has no file. */
static int attempt_abstract(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%s%ld", name,
             (long)getppid());
    return outcome(connect(fd, (const struct sockaddr *)&address, sizeof address));
}

static int attempt_signal(const char *unused)
{
    (void)unused;
    return outcome(kill(getppid(), 0));
}

struct attempt {
    int (*act)(const char *path);
    const char *path;
    int expected; /* 0: it works, or an errno */
    int abi;      /* the first that sees to it; before, the attempt is left out */
    bool connects;
    bool uses_abstract;
};

static const struct attempt attempts[] = {
    {attempt_read, "read/file", 0, 1, false, false},
    {attempt_read, "link", 0, 1, false, false},
    {attempt_list, "read", 0, 1, false, false},
    {attempt_write, "read/file", EACCES, 1, false, false},
    {attempt_write, "read/new", EACCES, 1, false, false},
    {attempt_remove, "read/file", EACCES, 1, false, false},
    {attempt_cut, "read/file", EACCES, 3, false, false},
    {attempt_write, "append/file", 0, 1, false, false},
    {attempt_write, "append/new", 0, 1, false, false},
    {attempt_read, "append/file", EACCES, 1, false, false},
    {attempt_list, "append", EACCES, 1, false, false},
    {attempt_remove, "append/file", EACCES, 1, false, false},
    {attempt_cut, "append/file", EACCES, 3, false, false},
    {attempt_folder, "append/folder", EACCES, 1, false, false},
    {attempt_link, "append/link", EACCES, 1, false, false},
    {attempt_rename, "append/file", EACCES, 1, false, false},
    {attempt_change, "share/file", 0, 1, false, false},
    {attempt_write, "share/new", EACCES, 1, false, false},
    {attempt_socket, "socket/new", 0, 1, false, false},
    {attempt_remove, "socket/old", 0, 1, false, false},
    {attempt_write, "socket/file", EACCES, 1, false, false},
    {attempt_read, "single", 0, 1, false, false},
    {attempt_read, "other/file", EACCES, 1, false, false},
    {attempt_list, "other", EACCES, 1, false, false},
    {attempt_write, "other/new", EACCES, 1, false, false},
    {attempt_socket, "other/socket", EACCES, 1, false, false},
    {attempt_read, "/etc/passwd", EACCES, 1, false, false},
    {attempt_run, "/bin/true", EACCES, 1, false, false},
    {attempt_run, "read/file", EACCES, 1, false, false},
    {attempt_connect, "7", EACCES, 4, false, false},
    {attempt_connect, "9", EACCES, 4, false, false},
    {attempt_connect, "7", EACCES, 4, true, false},
    {attempt_connect, "9", ECONNREFUSED, 4, true, false},
    {attempt_abstract, "box", EPERM, 6, false, false},
    {attempt_abstract, "box", 0, 6, false, true},
    {attempt_signal, "", EPERM, 6, false, false},
};

/* ---- the folder ----------------------------------------------------------------------------- */

static void make_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0700);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static void make_scene(void)
{
    static const char *const folders[] = {"read", "append", "share", "socket", "other"};
    static const char *const files[] = {"read/file",  "append/file", "share/file",
                                        "socket/old", "other/file",  "single"};
    char scratch[] = "/tmp/sandbox-files-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(scratch));
    ck_assert_int_eq(chdir(scratch), 0);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        ck_assert_int_eq(mkdir(folders[i], 0700), 0);
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        make_file(files[i]);
    }
    ck_assert_int_eq(symlink("read/file", "link"), 0);
}

static void remove_scene(void)
{
    char command[256], scratch[128];
    ck_assert_ptr_nonnull(getcwd(scratch, sizeof scratch));
    snprintf(command, sizeof command, "rm -r %s", scratch);
    ck_assert_int_eq(system(command), 0);
}

/* Wait for nobody: it is there to be connected to. */
static int listen_abstract(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "box%ld", (long)getpid());
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    return fd;
}

static void apply(const struct attempt *attempt)
{
    struct ad_sandbox_places places = {NULL, 0};
    if (!ad_sandbox_places_add(&places, AD_SANDBOX_READ, "read") ||
        !ad_sandbox_places_add(&places, AD_SANDBOX_APPEND, "append") ||
        !ad_sandbox_places_add(&places, AD_SANDBOX_SHARE, "share") ||
        !ad_sandbox_places_add(&places, AD_SANDBOX_SOCKET, "socket") ||
        !ad_sandbox_places_add(&places, AD_SANDBOX_READ, "missing") ||
        !ad_sandbox_places_add(&places, AD_SANDBOX_READ, "single") ||
        !ad_sandbox_places_add(&places, AD_SANDBOX_SOCKET, "single")) {
        _exit(200);
    }
    const struct ad_sandbox_files files = {.places = &places,
                                           .connects = attempt->connects,
                                           .port = ALLOWED_PORT,
                                           .uses_abstract = attempt->uses_abstract};
    struct ad_error error = {.status = AD_OK};
    enum ad_status status = ad_sandbox_files_apply(&files, &error);
    if (ad_sandbox_files_abi() == 0) {
        _exit(status == AD_UNSUPPORTED ? 0 : 201);
    }
    if (status != AD_OK) {
        fprintf(stderr, "%s\n", error.message);
        _exit(202);
    }
}

START_TEST(one_attempt)
{
    const struct attempt *attempt = &attempts[_i];
    int code = 0;
    make_scene();
    int fd = listen_abstract();
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        apply(attempt);
        _exit(attempt->act(attempt->path));
    }
    ck_assert_int_eq(waitpid(pid, &code, 0), pid);
    ck_assert(WIFEXITED(code));
    close(fd);
    remove_scene();
    const int abi = ad_sandbox_files_abi();
    const int expected = abi == 0 ? 0 : attempt->expected;
    if (abi == 0 || abi >= attempt->abi) {
        ck_assert_msg(WEXITSTATUS(code) == expected, "attempt %d, %s: %d, expected %d",
                      _i, attempt->path, WEXITSTATUS(code), expected);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sandbox_files");
    TCase *tcase = tcase_create("sandbox_files");
    tcase_add_loop_test(tcase, one_attempt, 0, sizeof attempts / sizeof *attempts);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
