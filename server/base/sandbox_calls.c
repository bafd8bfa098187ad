/* sandbox_calls.c - system calls out of reach, by seccomp. Runs on the main thread, once the others are
 * started and libraries are loaded; the filter holds for all of them.
 *
 * Names that this processor or the library does not know are passed over, so that one list serves all:
 * 64-bit Arm has no open, only openat. */
#include "base/sandbox_calls.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Five times what the filter takes, in blocks that come from the heap. */
#define N_ASIDE 32
#define ASIDE_BYTES ((size_t)32 << 10)
#define SORTED_BY_NUMBER \
    2 /* libseccomp's filter as a tree; in a row they cost more each */

/* ---- whole calls ---------------------------------------------------------------------------- */

static const char *const allowed[] = {
    /* memory and threads */
    "brk", "munmap", "mremap", "madvise", "futex", "set_robust_list", "get_robust_list",
    "set_tid_address", "rseq", "membarrier", "sched_yield", "sched_getaffinity", "getcpu",
    "exit", "exit_group", "getpid", "gettid",
    /* signals */
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigtimedwait", "sigaltstack",
    "restart_syscall",
    /* time and chance */
    "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday",
    "time", "times", "getrandom",
    /* files; which, is the business of sandbox_files.c */
    "open", "openat", "close", "read", "readv", "pread64", "pwrite64", "write", "writev",
    "lseek", "fstat", "stat", "lstat", "newfstatat", "statx", "fstatfs", "access",
    "faccessat", "readlink", "readlinkat", "getcwd", "getdents64", "fadvise64", "fcntl",
    "dup", "dup2", "dup3", "unlink", "unlinkat",
    /* waiting */
    "poll", "ppoll", "select", "pselect6", "epoll_create1", "epoll_ctl", "epoll_wait",
    "epoll_pwait", "eventfd2", "pipe2",
    /* sockets that are there, and those that they accept */
    "accept", "accept4", "recvfrom", "recvmsg", "sendto", "sendmsg", "sendfile",
    "shutdown", "getsockname", "getpeername", "getsockopt", "setsockopt",
    /* what the process and the system are */
    "uname", "sysinfo", "getrusage", "getrlimit", "getuid", "geteuid", "getgid",
    "getegid"};

/* The C library does with an older call. */
static const char *const absent[] = {
    "clone3",      "faccessat2", "openat2", "epoll_pwait2", "close_range",
    "futex_waitv", "fchmodat2",  "preadv2", "pwritev2",     "map_shadow_stack"};

/* Nothing of ours comes near these. */
static const char *const deadly[] = {
    /* other programs and processes */
    "execve", "execveat", "ptrace", "process_vm_readv", "process_vm_writev",
    "process_madvise", "pidfd_getfd", "kcmp", "setns", "unshare",
    /* the kernel */
    "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter",
    "io_uring_register", "init_module", "finit_module", "delete_module", "kexec_load",
    "kexec_file_load", "lookup_dcookie", "iopl", "ioperm", "modify_ldt", "keyctl",
    "add_key", "request_key", "syslog",
    /* the system */
    "mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen",
    "fsmount", "fsconfig", "fspick", "mount_setattr", "open_by_handle_at", "swapon",
    "swapoff", "reboot", "acct", "quotactl", "settimeofday", "clock_settime",
    "clock_adjtime", "adjtimex", "sethostname", "setdomainname"};

/* The number of rules, and the first failure. */
struct filter {
    scmp_filter_ctx context;
    size_t n_allowed;
    int failed; /* an errno; 0: none */
};

static void note(struct filter *filter, int code)
{
    if (filter->failed == 0 && code < 0) {
        filter->failed = -code;
    }
}

/* False: neither the processor nor the library knows it. */
static bool add_whole(struct filter *filter, uint32_t action, const char *name)
{
    int number = seccomp_syscall_resolve_name(name);
    if (number < 0) {
        return false;
    }
    note(filter, seccomp_rule_add(filter->context, action, number, 0));
    return true;
}

static void add_lists(struct filter *filter)
{
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++) {
        filter->n_allowed += add_whole(filter, SCMP_ACT_ALLOW, allowed[i]);
    }
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++) {
        (void)add_whole(filter, SCMP_ACT_ERRNO(ENOSYS), absent[i]);
    }
    for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++) {
        (void)add_whole(filter, SCMP_ACT_KILL_PROCESS, deadly[i]);
    }
}

/* ---- calls with some arguments -------------------------------------------------------------- */

/* The call is allowed where the bits of mask in that argument are those of value. */
static void add_bits(struct filter *filter, int number, unsigned argument, uint64_t mask,
                     uint64_t value)
{
    const struct scmp_arg_cmp bits =
        SCMP_CMP64(argument, SCMP_CMP_MASKED_EQ, mask, value);
    note(filter,
         seccomp_rule_add_array(filter->context, SCMP_ACT_ALLOW, number, 1, &bits));
}

/* An int: the upper half of its register means nothing. */
static void add_int(struct filter *filter, int number, unsigned argument, int value)
{
    add_bits(filter, number, argument, UINT32_MAX, (uint32_t)value);
}

static void add_partly(struct filter *filter)
{
    static const int about_itself[] = {PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE};
    static const int about_files[] = {FIONBIO, FIONREAD, TCGETS, TIOCGWINSZ, TIOCOUTQ};
    /* memory that runs is what was loaded */
    add_bits(filter, SCMP_SYS(mmap), 2, PROT_EXEC, 0);
    add_bits(filter, SCMP_SYS(mprotect), 2, PROT_EXEC, 0);
    /* threads, no processes */
    add_bits(filter, SCMP_SYS(clone), 0, CLONE_VM | CLONE_THREAD,
             CLONE_VM | CLONE_THREAD);
    add_int(filter, SCMP_SYS(tgkill), 0, getpid());
    /* limits are read, not set */
    add_bits(filter, SCMP_SYS(prlimit64), 2, UINT64_MAX, 0);
    for (size_t i = 0; i < sizeof about_itself / sizeof about_itself[0]; i++) {
        add_int(filter, SCMP_SYS(prctl), 0, about_itself[i]);
    }
    for (size_t i = 0; i < sizeof about_files / sizeof about_files[0]; i++) {
        add_int(filter, SCMP_SYS(ioctl), 1, about_files[i]);
    }
    filter->n_allowed += 7; /* the names above */
}

static void add_connecting(struct filter *filter)
{
    static const int families[] = {AF_UNIX, AF_INET, AF_INET6};
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        add_int(filter, SCMP_SYS(socket), 0, families[i]);
    }
    note(filter, seccomp_rule_add(filter->context, SCMP_ACT_ALLOW, SCMP_SYS(connect), 0));
    filter->n_allowed += 2;
}

/* ---- the filter ----------------------------------------------------------------------------- */

static void set(struct filter *filter, enum scmp_filter_attr attribute, uint32_t value)
{
    note(filter, seccomp_attr_set(filter->context, attribute, value));
}

static void fill(struct filter *filter, const struct ad_sandbox_calls *calls)
{
    set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    set(filter, SCMP_FLTATR_CTL_OPTIMIZE, SORTED_BY_NUMBER);
    /* The filter is no reason to slow down what computes: it runs no code of others. */
    set(filter, SCMP_FLTATR_CTL_SSB, 1);
    add_lists(filter);
    add_partly(filter);
    if (calls->connects) {
        add_connecting(filter);
    }
}

/* libseccomp 2.5 overlooks memory that it did not get, and leaves calls out of the filter then. So there is
 * to be enough of it: what is freed here stays with the process while *keeper lies behind it. */
static bool put_aside(void **keeper)
{
    void *blocks[N_ASIDE];
    bool enough = true;
    for (size_t i = 0; i < N_ASIDE; i++) {
        blocks[i] = malloc(ASIDE_BYTES);
        enough = enough && blocks[i];
    }
    *keeper = malloc(1);
    for (size_t i = 0; i < N_ASIDE; i++) {
        free(blocks[i]);
    }
    return enough && *keeper;
}

static enum ad_status load(const struct ad_sandbox_calls *calls, struct filter *filter,
                           struct ad_error *error)
{
    filter->context = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    if (!filter->context) {
        return ad_fail(error, AD_INTERNAL, "out of memory");
    }
    fill(filter, calls);
    if (filter->failed == 0) {
        note(filter, seccomp_load(filter->context));
    }
    seccomp_release(filter->context);
    return filter->failed == 0 ? AD_OK
                               : ad_fail(error, AD_INTERNAL, "cannot load the filter: %s",
                                         strerror(filter->failed));
}

enum ad_status ad_sandbox_calls_apply(const struct ad_sandbox_calls *calls,
                                      size_t *n_calls, struct ad_error *error)
{
    struct filter filter = {.context = NULL};
    void *keeper = NULL;
    *n_calls = 0;
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0) {
        return ad_fail(error, AD_UNSUPPORTED, "not offered here (%s)", strerror(errno));
    }
    enum ad_status status = put_aside(&keeper)
                                ? load(calls, &filter, error)
                                : ad_fail(error, AD_INTERNAL, "out of memory");
    free(keeper);
    *n_calls = status ? 0 : filter.n_allowed;
    return status;
}
