/* Takes a second lock while it holds the first: what one_lock.c must end. */
#include <pthread.h>
#include <stdlib.h>

int main(void)
{
    pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_t second = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&first);
    pthread_mutex_unlock(&first);
    pthread_mutex_lock(&second);
    pthread_mutex_lock(&first);
    pthread_mutex_unlock(&first);
    pthread_mutex_unlock(&second);
    return EXIT_SUCCESS;
}
