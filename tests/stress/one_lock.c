/* Preloaded into the daemon: a thread that takes a mutex while it holds another is told of and ends the
 * process. What takes no second lock needs no order of locks, and cannot end in a deadlock of them. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef int mutex_call(pthread_mutex_t *);

/* The C library starts to use locks before any constructor runs, so what is called is looked up when it is. */
static mutex_call *real_lock;
static mutex_call *real_unlock;

static __thread pthread_mutex_t *held;
static __thread const void *held_from; /* where it was taken */

static mutex_call *look_up(mutex_call **kept, const char *name)
{
    mutex_call *found = __atomic_load_n(kept, __ATOMIC_RELAXED);
    if (!found) {
        *(void **)&found = dlsym(RTLD_NEXT, name);
        __atomic_store_n(kept, found, __ATOMIC_RELAXED);
    }
    return found;
}

/* Whoever preloads this can see that it was. */
__attribute__((constructor)) static void begin(void)
{
    (void)dprintf(STDERR_FILENO, "locks are watched\n");
}

static void tell(const void *from)
{
    Dl_info info;
    if (dladdr(from, &info) && info.dli_fname) {
        (void)dprintf(STDERR_FILENO, " %s+%#jx", info.dli_fname,
                      (uintmax_t)((const char *)from - (const char *)info.dli_fbase));
    } else {
        (void)dprintf(STDERR_FILENO, " %p", from);
    }
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    const void *from = __builtin_return_address(0);
    if (held) {
        const void *first = held_from;
        held = NULL; /* telling may lock */
        (void)dprintf(STDERR_FILENO, "one lock: a second is taken at");
        tell(from);
        (void)dprintf(STDERR_FILENO, " while the first is held since");
        tell(first);
        (void)dprintf(STDERR_FILENO, "\n");
        abort();
    }
    int error = look_up(&real_lock, "pthread_mutex_lock")(mutex);
    if (error == 0) {
        held = mutex;
        held_from = from;
    }
    return error;
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    if (held == mutex) {
        held = NULL;
    }
    return look_up(&real_unlock, "pthread_mutex_unlock")(mutex);
}
