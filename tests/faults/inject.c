/* inject.c - preloaded into the daemon: lets calls of the C library fail when it is told to.
 *
 * The file that ATTN_INJECT names is mapped before main runs. Whoever started the daemon arms kinds of
 * calls in it at any moment; see inject.h. Any thread. It keeps no lock and allocates nothing, since it
 * is what allocates. */
#include "faults/inject.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MOST_FILES 65536
#define EVERY 65536

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static struct control *control;   /* NULL: nothing fails */
static char watched[MOST_FILES];  /* open files under control->path */
static __thread bool finding_out; /* dladdr itself may allocate */

#define NEXT(name) ((__typeof__(&name))next(#name))

static void *next(const char *name)
{
    bool before = finding_out;
    finding_out = true;
    void *function = dlsym(RTLD_NEXT, name);
    finding_out = before;
    return function;
}

__attribute__((constructor)) static void attach(void)
{
    const char *name = getenv("ATTN_INJECT");
    int fd = name ? (int)syscall(SYS_openat, AT_FDCWD, name, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) {
        return;
    }
    void *memory = (void *)syscall(SYS_mmap, NULL, sizeof *control,
                                   PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    control = memory == MAP_FAILED ? NULL : memory;
    syscall(SYS_close, fd);
}

static uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    x *= UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 33;
}

/* The daemon sees to it that there is memory for libseccomp before that begins: it overlooks failures. */
static bool is_spared(const Dl_info *info)
{
    return strstr(info->dli_fname, "libseccomp") != NULL;
}

/* False: of this caller no call fails. */
static bool tell_where(enum kind kind, const void *caller)
{
    Dl_info info;
    bool spared = false;
    finding_out = true;
    if (dladdr(caller, &info) && info.dli_fname) {
        spared = kind == KIND_ALLOC && is_spared(&info);
        const char *slash = strrchr(info.dli_fname, '/');
        snprintf(control->where, sizeof control->where, "%s:%s+0x%lx",
                 slash ? slash + 1 : info.dli_fname,
                 info.dli_sname ? info.dli_sname : "?",
                 (unsigned long)((const char *)caller - (const char *)info.dli_fbase));
    }
    finding_out = false;
    return !spared;
}

/* The error that this call is to fail with, or 0; where it is to move fewer bytes, *n says how many. */
static int fault(enum kind kind, size_t *n, const void *caller)
{
    if (!control || finding_out) {
        return 0;
    }
    struct kind_control *own = &control->kinds[kind];
    if (!__atomic_load_n(&own->armed, __ATOMIC_ACQUIRE)) {
        return 0;
    }
    uint64_t call = __atomic_add_fetch(&own->n_calls, 1, __ATOMIC_RELAXED);
    uint64_t drawn = mix(control->seed ^ mix(call * N_KINDS + kind));
    bool hit = (call >= own->from && call < own->past) || drawn % EVERY < own->rate;
    if (!hit) {
        return 0;
    }
    bool shortened = own->shorten && n && *n > 1 && (drawn >> 20) % 2 == 0;
    if (!shortened && !tell_where(kind, caller)) {
        return 0;
    }
    __atomic_add_fetch(&own->n_hits, 1, __ATOMIC_RELAXED);
    if (shortened) {
        *n = 1 + (drawn >> 21) % (*n - 1);
    }
    return shortened ? 0 : (int)own->error;
}

/* True with errno set where the call of a function with such a caller is to fail. */
#define FAILS(kind, n)                                                    \
    ((errno_of = fault((kind), (n), __builtin_return_address(0))) != 0 && \
     (errno = errno_of, true))

/* ---- memory ------------------------------------------------------------------------------------ */

void *malloc(size_t size)
{
    int errno_of;
    return FAILS(KIND_ALLOC, NULL) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    int errno_of;
    return FAILS(KIND_ALLOC, NULL) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *memory, size_t size)
{
    int errno_of;
    return FAILS(KIND_ALLOC, NULL) ? NULL : __libc_realloc(memory, size);
}

void *memalign(size_t alignment, size_t size);
void *memalign(size_t alignment, size_t size)
{
    int errno_of;
    return FAILS(KIND_ALLOC, NULL) ? NULL : __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    int errno_of;
    return FAILS(KIND_ALLOC, NULL) ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    int errno_of;
    if (FAILS(KIND_ALLOC, NULL)) {
        return ENOMEM;
    }
    *memory = __libc_memalign(alignment, size);
    return *memory ? 0 : ENOMEM;
}

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    int errno_of;
    if ((flags & MAP_ANONYMOUS) && FAILS(KIND_ALLOC, NULL)) {
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}

char *strdup(const char *text)
{
    int errno_of;
    size_t size = strlen(text) + 1;
    char *copy = FAILS(KIND_ALLOC, NULL) ? NULL : __libc_malloc(size);
    return copy ? memcpy(copy, text, size) : NULL;
}

/* ---- files ------------------------------------------------------------------------------------- */

static bool is_watched(const char *path)
{
    return control && control->path[0] && path && strstr(path, control->path);
}

static bool is_watched_file(int fd)
{
    return fd >= 0 && fd < MOST_FILES && watched[fd];
}

static int opened(int fd, const char *path)
{
    if (fd >= 0 && fd < MOST_FILES) {
        watched[fd] = is_watched(path);
    }
    return fd;
}

int open(const char *path, int flags, ...)
{
    int errno_of;
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    if (is_watched(path) && FAILS(KIND_OPEN, NULL)) {
        return -1;
    }
    return opened((int)syscall(SYS_openat, AT_FDCWD, path, flags, mode), path);
}

int openat(int folder, const char *path, int flags, ...)
{
    int errno_of;
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    if (is_watched(path) && FAILS(KIND_OPEN, NULL)) {
        return -1;
    }
    return opened((int)syscall(SYS_openat, folder, path, flags, mode), path);
}

FILE *fopen(const char *path, const char *mode)
{
    int errno_of;
    return is_watched(path) && FAILS(KIND_OPEN, NULL) ? NULL : NEXT(fopen)(path, mode);
}

DIR *opendir(const char *path)
{
    int errno_of;
    return is_watched(path) && FAILS(KIND_OPEN, NULL) ? NULL : NEXT(opendir)(path);
}

int close(int fd)
{
    if (fd >= 0 && fd < MOST_FILES) {
        watched[fd] = 0;
    }
    return (int)syscall(SYS_close, fd);
}

int stat(const char *path, struct stat *about)
{
    int errno_of;
    return is_watched(path) && FAILS(KIND_STAT, NULL)
               ? -1
               : (int)syscall(SYS_newfstatat, AT_FDCWD, path, about, 0);
}

int fstat(int fd, struct stat *about)
{
    int errno_of;
    return is_watched_file(fd) && FAILS(KIND_STAT, NULL)
               ? -1
               : (int)syscall(SYS_newfstatat, fd, "", about, AT_EMPTY_PATH);
}

/* Logs and traces; what wakes threads never waits and is written whole, so that nothing interrupts it. */
static bool is_file(int fd)
{
    struct stat about;
    return syscall(SYS_newfstatat, fd, "", &about, AT_EMPTY_PATH) == 0 &&
           S_ISREG(about.st_mode);
}

ssize_t read(int fd, void *to, size_t n)
{
    int errno_of;
    if (is_watched_file(fd) && FAILS(KIND_READ, &n)) {
        return -1;
    }
    return syscall(SYS_read, fd, to, n);
}

/* What a compiler makes of read where it knows the size of the memory. */
ssize_t __read_chk(int fd, void *to, size_t n, size_t size);
ssize_t __read_chk(int fd, void *to, size_t n, size_t size)
{
    int errno_of;
    if (n > size) {
        abort();
    }
    if (is_watched_file(fd) && FAILS(KIND_READ, &n)) {
        return -1;
    }
    return syscall(SYS_read, fd, to, n);
}

ssize_t pread(int fd, void *to, size_t n, off_t offset)
{
    int errno_of;
    if (is_watched_file(fd) && FAILS(KIND_READ, &n)) {
        return -1;
    }
    return syscall(SYS_pread64, fd, to, n, offset);
}

ssize_t write(int fd, const void *from, size_t n)
{
    int errno_of;
    if (is_file(fd) && FAILS(KIND_WRITE, &n)) {
        return -1;
    }
    return syscall(SYS_write, fd, from, n);
}

/* ---- sockets ----------------------------------------------------------------------------------- */

ssize_t recv(int fd, void *to, size_t n, int flags)
{
    int errno_of;
    if (FAILS(KIND_RECEIVE, &n)) {
        return -1;
    }
    return syscall(SYS_recvfrom, fd, to, n, flags, NULL, NULL);
}

ssize_t send(int fd, const void *from, size_t n, int flags)
{
    int errno_of;
    if (FAILS(KIND_SEND, &n)) {
        return -1;
    }
    return syscall(SYS_sendto, fd, from, n, flags, NULL, 0);
}

ssize_t sendto(int fd, const void *from, size_t n, int flags,
               const struct sockaddr *address, socklen_t size)
{
    int errno_of;
    if (FAILS(KIND_SEND, NULL)) { /* a datagram goes whole or not at all */
        return -1;
    }
    return syscall(SYS_sendto, fd, from, n, flags, address, size);
}

/* Of several pieces, one that is shortened sends a part of the first alone. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    int errno_of;
    size_t n = message->msg_iovlen ? message->msg_iov[0].iov_len : 0;
    size_t all = n;
    if (FAILS(KIND_SEND, &n)) {
        return -1;
    }
    if (n != all) {
        return syscall(SYS_sendto, fd, message->msg_iov[0].iov_base, n, flags, NULL, 0);
    }
    return syscall(SYS_sendmsg, fd, message, flags);
}

ssize_t sendfile64(int to, int from, off64_t *offset, size_t n)
{
    int errno_of;
    if (FAILS(KIND_SEND, &n)) {
        return -1;
    }
    return syscall(SYS_sendfile, to, from, offset, n);
}

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
    int errno_of;
    if (FAILS(KIND_ACCEPT, NULL)) {
        return -1;
    }
    return (int)syscall(SYS_accept4, fd, address, size, flags);
}

int connect(int fd, const struct sockaddr *address, socklen_t size)
{
    int errno_of;
    if (FAILS(KIND_CONNECT, NULL)) {
        return -1;
    }
    return (int)syscall(SYS_connect, fd, address, size);
}

/* ---- waiting, clocks, threads, chance ---------------------------------------------------------- */

int epoll_wait(int fd, struct epoll_event *events, int n, int timeout_ms)
{
    int errno_of;
    if (FAILS(KIND_WAIT, NULL)) {
        return -1;
    }
    return (int)syscall(SYS_epoll_wait, fd, events, n, timeout_ms);
}

int poll(struct pollfd *files, nfds_t n, int timeout_ms)
{
    int errno_of;
    if (FAILS(KIND_WAIT, NULL)) {
        return -1;
    }
    return (int)syscall(SYS_poll, files, n, timeout_ms);
}

int nanosleep(const struct timespec *how_long, struct timespec *left)
{
    int errno_of;
    if (FAILS(KIND_WAIT, NULL)) {
        if (left) {
            *left = *how_long;
        }
        return -1;
    }
    return (int)syscall(SYS_nanosleep, how_long, left);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int code = (int)syscall(SYS_clock_gettime, clock, now);
    int64_t shift = !control                   ? 0
                    : clock == CLOCK_REALTIME  ? control->real_ns
                    : clock == CLOCK_MONOTONIC ? control->mono_ns
                                               : 0;
    int64_t ns = now->tv_nsec + shift % 1000000000;
    now->tv_sec += shift / 1000000000 + (ns >= 1000000000) - (ns < 0);
    now->tv_nsec = ns >= 1000000000 ? ns - 1000000000 : ns < 0 ? ns + 1000000000 : ns;
    return code;
}

/* Until a moment of the clock that is shifted. The system's is not. */
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                           const struct timespec *until)
{
    int64_t shift = control ? control->mono_ns : 0;
    struct timespec real = {until->tv_sec - shift / 1000000000,
                            until->tv_nsec - shift % 1000000000};
    if (real.tv_nsec < 0) {
        real.tv_sec--;
        real.tv_nsec += 1000000000;
    }
    return NEXT(pthread_cond_timedwait)(cond, lock, &real);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                   void *(*routine)(void *), void *argument)
{
    int errno_of;
    return FAILS(KIND_THREAD, NULL)
               ? EAGAIN
               : NEXT(pthread_create)(thread, attributes, routine, argument);
}

ssize_t getrandom(void *to, size_t n, unsigned flags)
{
    int errno_of;
    if (FAILS(KIND_RANDOM, &n)) {
        return -1;
    }
    return syscall(SYS_getrandom, to, n, flags);
}
