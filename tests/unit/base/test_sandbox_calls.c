/* Does the filter of system calls let through what serving does, refuse what it never does, and end a
 * process that does worse? Each attempt is a process of its own. */
#include "base/sandbox_calls.h"

#include "unit/support.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define KILLED (-1)

/* 0 or the errno of a call that returned code. */
static int outcome(long code)
{
    return code < 0 ? errno : 0;
}

/* ---- what serving does ---------------------------------------------------------------------- */

static int read_a_file(void)
{
    char byte;
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    return outcome(fd < 0 ? fd : read(fd, &byte, 1));
}

static void *set_flag(void *flag)
{
    *(int *)flag = 1;
    return NULL;
}

static int start_a_thread(void)
{
    pthread_t thread;
    int flag = 0;
    int code = pthread_create(&thread, NULL, set_flag, &flag);
    return code ? code : pthread_join(thread, NULL) ? ECHILD : flag ? 0 : ENOMSG;
}

static int use_much_memory(void)
{
    void *memory =
        mmap(NULL, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? errno : outcome(munmap(memory, 16 << 20));
}

static int get_random_bytes(void)
{
    char bytes[8];
    return outcome(getrandom(bytes, sizeof bytes, 0));
}

static int read_a_limit(void)
{
    struct rlimit limit;
    return outcome(getrlimit(RLIMIT_NOFILE, &limit));
}

static int open_an_event(void)
{
    return outcome(eventfd(0, EFD_CLOEXEC));
}

/* ---- what it never does --------------------------------------------------------------------- */

static int start_a_process(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        _exit(0);
    }
    return outcome(pid);
}

static int clone_anew(void)
{
    return outcome(syscall(SYS_clone3, NULL, 0));
}

static int make_memory_executable(void)
{
    void *memory =
        mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return outcome(mprotect(memory, PAGE, PROT_READ | PROT_EXEC));
}

static int map_executable_memory(void)
{
    void *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? errno : 0;
}

static int open_a_socket(void)
{
    return outcome(socket(AF_INET, SOCK_STREAM, 0));
}

static int open_another_socket(void)
{
    return outcome(socket(AF_NETLINK, SOCK_RAW, 0));
}

static int listen_somewhere(void)
{
    const struct sockaddr_in address = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return outcome(fd < 0 ? fd
                          : bind(fd, (const struct sockaddr *)&address, sizeof address));
}

static int set_a_limit(void)
{
    struct rlimit limit;
    return outcome(getrlimit(RLIMIT_CPU, &limit)) != 0
               ? ENOSYS
               : outcome(setrlimit(RLIMIT_CPU, &limit));
}

static int make_a_folder(void)
{
    return outcome(mkdir("/proc/none", 0700));
}

static int signal_another(void)
{
    return outcome(kill(getppid(), 0));
}

static int signal_its_thread(void)
{
    return outcome(syscall(SYS_tgkill, getppid(), getppid(), 0));
}

static int turn_dumpable(void)
{
    return outcome(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
}

/* ---- what is worse -------------------------------------------------------------------------- */

static int run_a_program(void)
{
    char name[] = "/bin/true";
    char *const arguments[] = {name, NULL};
    char *const environment[] = {NULL};
    return outcome(execve(name, arguments, environment));
}

static int trace_itself(void)
{
    return outcome(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}

static int read_another_process(void)
{
    return outcome(syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0));
}

static int load_into_the_kernel(void)
{
    return outcome(syscall(SYS_bpf, 0, NULL, 0));
}

static int leave_its_namespace(void)
{
    return outcome(unshare(CLONE_NEWUSER));
}

static int queue_calls(void)
{
    return outcome(syscall(SYS_io_uring_setup, 1, NULL));
}

/* ---- attempts ------------------------------------------------------------------------------- */

struct attempt {
    const char *what;
    int (*act)(void);
    bool connects;
    int expected; /* 0: it works; KILLED; or an errno */
};

static const struct attempt attempts[] = {
    {"read a file", read_a_file, false, 0},
    {"start a thread", start_a_thread, false, 0},
    {"use much memory", use_much_memory, false, 0},
    {"get random bytes", get_random_bytes, false, 0},
    {"read a limit", read_a_limit, false, 0},
    {"open an event", open_an_event, false, 0},
    {"open a socket, where it may", open_a_socket, true, 0},
    {"start a process", start_a_process, false, EPERM},
    {"use a call that the C library can do without", clone_anew, false, ENOSYS},
    {"make memory executable", make_memory_executable, false, EPERM},
    {"map executable memory", map_executable_memory, false, EPERM},
    {"open a socket", open_a_socket, false, EPERM},
    {"open a socket to the kernel", open_another_socket, true, EPERM},
    {"listen", listen_somewhere, true, EPERM},
    {"set a limit", set_a_limit, false, EPERM},
    {"make a folder", make_a_folder, false, EPERM},
    {"signal another process", signal_another, false, EPERM},
    {"signal its thread", signal_its_thread, false, EPERM},
    {"change how it may be looked into", turn_dumpable, false, EPERM},
    {"run a program", run_a_program, false, KILLED},
    {"trace itself", trace_itself, false, KILLED},
    {"read another process", read_another_process, false, KILLED},
    {"load into the kernel", load_into_the_kernel, false, KILLED},
    {"leave its namespace", leave_its_namespace, false, KILLED},
    {"queue calls past the filter", queue_calls, false, KILLED},
};

static bool is_offered(void)
{
    return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0;
}

static void apply(bool connects)
{
    const bool offered = is_offered(); /* later, it is not to be asked */
    const struct ad_sandbox_calls calls = {.connects = connects};
    struct ad_error error = {.status = AD_OK};
    size_t n_calls = 0;
    enum ad_status status = ad_sandbox_calls_apply(&calls, &n_calls, &error);
    if (!offered) {
        _exit(status == AD_UNSUPPORTED ? 0 : 101);
    }
    if (status != AD_OK || n_calls == 0) {
        fprintf(stderr, "%s\n", error.message);
        _exit(102);
    }
}

/* What came of a process; an exit status is an errno. */
static int result_of(pid_t pid)
{
    int code = 0;
    ck_assert_int_eq(waitpid(pid, &code, 0), pid);
    return WIFSIGNALED(code) && WTERMSIG(code) == SIGSYS ? KILLED : WEXITSTATUS(code);
}

static void keep_no_core(void)
{
    const struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
}

START_TEST(one_attempt)
{
    const struct attempt *attempt = &attempts[_i];
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        keep_no_core();
        apply(attempt->connects);
        _exit(attempt->act());
    }
    const int result = result_of(pid);
    const int expected = is_offered() ? attempt->expected : 0;
    ck_assert_msg(result == expected, "%s: %d, expected %d", attempt->what, result,
                  expected);
}
END_TEST

/* ---- other threads -------------------------------------------------------------------------- */

static void *wait_and_make_a_folder(void *fd)
{
    char byte;
    ssize_t n = read(*(const int *)fd, &byte, 1);
    _exit(n == 1 ? make_a_folder() : 103);
}

/* A thread that was there before is held to it as well. */
START_TEST(other_threads)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, wait_and_make_a_folder, &ends[0]) != 0) {
            _exit(104);
        }
        apply(false);
        if (write(ends[1], "", 1) == 1) {
            pthread_join(thread, NULL);
        }
        _exit(105);
    }
    ck_assert_int_eq(result_of(pid), is_offered() ? EPERM : 0);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sandbox_calls");
    TCase *tcase = tcase_create("sandbox_calls");
    tcase_add_loop_test(tcase, one_attempt, 0, sizeof attempts / sizeof *attempts);
    tcase_add_test(tcase, other_threads);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
