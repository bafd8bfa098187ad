/* sandbox_files.c - files out of reach, by Landlock. Runs on the main thread, before it starts others.
 *
 * The C library has no functions for it, and the system's header may be older than the running kernel,
 * so what it lacks stands here; the kernel's documentation, userspace-api/landlock, has the meaning. */
#include "base/sandbox_files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Since ABI 3 and 5. */
#define TRUNCATE (UINT64_C(1) << 14)
#define DEVICE_IOCTL (UINT64_C(1) << 15)

#define ALL_OF_ABI_1 (LANDLOCK_ACCESS_FS_MAKE_SYM | (LANDLOCK_ACCESS_FS_MAKE_SYM - 1))
#define CONNECT_TCP (UINT64_C(1) << 1)      /* since ABI 4 */
#define ABSTRACT_SOCKETS (UINT64_C(1) << 0) /* since ABI 6, as is the next */
#define SIGNALS (UINT64_C(1) << 1)
#define RULE_PORT 2 /* after LANDLOCK_RULE_PATH_BENEATH */

/* What a rule about a single file may hold. */
#define OF_A_FILE                                                 \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | \
     LANDLOCK_ACCESS_FS_READ_FILE | TRUNCATE | DEVICE_IOCTL)

/* The kernel's struct landlock_ruleset_attr of today; an older kernel takes it as long as what it does
 * not know is 0. */
struct ruleset {
    uint64_t files;
    uint64_t network;
    uint64_t scoped;
};

/* The kernel's struct landlock_net_port_attr. */
struct port_rule {
    uint64_t allowed;
    uint64_t port;
};

static const uint64_t rights_of[] = {
    [AD_SANDBOX_READ] = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
    [AD_SANDBOX_APPEND] = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG,
    [AD_SANDBOX_SHARE] = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE,
    [AD_SANDBOX_SOCKET] = LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_REMOVE_FILE};

int ad_sandbox_files_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, (size_t)0,
                       LANDLOCK_CREATE_RULESET_VERSION);
    return abi > 0 ? (int)abi : 0;
}

static struct ruleset make_ruleset(const struct ad_sandbox_files *files, int abi)
{
    struct ruleset ruleset = {.files = ALL_OF_ABI_1};
    if (abi >= 2) {
        ruleset.files |= LANDLOCK_ACCESS_FS_REFER;
    }
    if (abi >= 3) {
        ruleset.files |= TRUNCATE;
    }
    if (abi >= 4 && (!files->connects || files->port != 0)) {
        ruleset.network = CONNECT_TCP;
    }
    if (abi >= 5) {
        ruleset.files |= DEVICE_IOCTL;
    }
    if (abi >= 6) {
        ruleset.scoped = SIGNALS | (files->uses_abstract ? 0 : ABSTRACT_SOCKETS);
    }
    return ruleset;
}

static enum ad_status fail(struct ad_error *error, const char *what)
{
    return ad_fail(error, AD_INTERNAL, "%s: %s", what, strerror(errno));
}

/* A place that is not there is none; one that is no file of a file system, such as a pipe behind
 * /dev/stderr, is never out of reach. */
static enum ad_status allow_place(int rules, const struct ad_sandbox_place *place,
                                  struct ad_error *error)
{
    struct stat info;
    int fd = open(place->path, O_PATH | O_CLOEXEC);
    if (fd < 0) {
        return AD_OK;
    }
    struct landlock_path_beneath_attr rule = {.allowed_access = rights_of[place->use],
                                              .parent_fd = fd};
    if (fstat(fd, &info) == 0 && !S_ISDIR(info.st_mode)) {
        rule.allowed_access &= OF_A_FILE;
    }
    enum ad_status status = AD_OK;
    if (rule.allowed_access != 0 &&
        syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) !=
            0 &&
        errno != EBADFD) {
        status = fail(error, place->path);
    }
    close(fd);
    return status;
}

static enum ad_status allow_port(int rules, uint16_t port, struct ad_error *error)
{
    const struct port_rule rule = {CONNECT_TCP, port};
    return syscall(SYS_landlock_add_rule, rules, RULE_PORT, &rule, 0) == 0
               ? AD_OK
               : fail(error, "cannot allow a port");
}

static enum ad_status allow(int rules, const struct ruleset *ruleset,
                            const struct ad_sandbox_files *files, struct ad_error *error)
{
    enum ad_status status = AD_OK;
    for (size_t i = 0; !status && i < files->places->n; i++) {
        status = allow_place(rules, &files->places->items[i], error);
    }
    if (!status && files->connects && ruleset->network != 0) {
        status = allow_port(rules, files->port, error);
    }
    return status;
}

static enum ad_status restrict_self(int rules, struct ad_error *error)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_landlock_restrict_self, rules, 0) != 0) {
        return fail(error, "cannot restrict the process");
    }
    return AD_OK;
}

enum ad_status ad_sandbox_files_apply(const struct ad_sandbox_files *files,
                                      struct ad_error *error)
{
    const int abi = ad_sandbox_files_abi();
    if (abi == 0) {
        return ad_fail(error, AD_UNSUPPORTED, "not offered here (%s)", strerror(errno));
    }
    const struct ruleset ruleset = make_ruleset(files, abi);
    int rules = (int)syscall(SYS_landlock_create_ruleset, &ruleset, sizeof ruleset, 0);
    if (rules < 0) {
        return fail(error, "cannot make rules");
    }
    enum ad_status status = allow(rules, &ruleset, files, error);
    if (!status) {
        status = restrict_self(rules, error);
    }
    close(rules);
    return status;
}
