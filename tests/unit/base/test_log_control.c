/* test_log_control.c - a log that is changed while it is written to: levels, form, file. */
#include "base/log_control.h"
#include "unit/support.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A folder for log files, and a log that goes to the file "first" beside it. */
struct scene {
    char root[64];
    char folder[96];
    struct ad_log log;
    struct ad_log_control *control;
    struct ad_error error;
};

static void path_of(const struct scene *scene, const char *name, char path[160])
{
    snprintf(path, 160, "%s/%s", scene->root, name);
}

static int create_file(const struct scene *scene, const char *name)
{
    char path[160];
    path_of(scene, name, path);
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    return fd;
}

static void set_up(struct scene *scene, bool with_folder)
{
    memset(scene, 0, sizeof *scene);
    strcpy(scene->root, "/tmp/attentiond-control-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(scene->root));
    snprintf(scene->folder, sizeof scene->folder, "%s/logs", scene->root);
    ck_assert_int_eq(mkdir(scene->folder, 0700), 0);
    scene->log.level = AD_LOG_INFO;
    scene->log.fd = create_file(scene, "first");
    ck_assert_int_eq(ad_log_control_create(&scene->log,
                                           with_folder ? scene->folder : NULL,
                                           &scene->control, &scene->error),
                     AD_OK);
}

static void tear_down(struct scene *scene)
{
    char command[128];
    ad_log_control_free(scene->control);
    close(scene->log.fd);
    snprintf(command, sizeof command, "rm -rf %s", scene->root);
    ck_assert_int_eq(system(command), 0);
}

/* How often text is in a file of the root. */
static int count(const struct scene *scene, const char *name, const char *text)
{
    char path[160];
    path_of(scene, name, path);
    FILE *file = fopen(path, "r");
    if (!file) {
        return -1;
    }
    static char content[1 << 20];
    content[fread(content, 1, sizeof content - 1, file)] = '\0';
    fclose(file);
    int n = 0;
    for (const char *at = content; (at = strstr(at, text)); at++) {
        n++;
    }
    return n;
}

static enum ad_status turn_to(struct scene *scene, const char *name)
{
    struct ad_log_change change = {.given = AD_LOG_GIVES_FILE};
    snprintf(change.to.file, sizeof change.to.file, "%s", name);
    ad_error_clear(&scene->error);
    return ad_log_control_change(scene->control, &change, &scene->error);
}

START_TEST(test_file)
{
    struct scene scene;
    set_up(&scene, true);
    ad_log_write(&scene.log, AD_LOG_INFO, "one", NULL, 0);
    ck_assert_int_eq(turn_to(&scene, "a.log"), AD_OK);
    ad_log_write(&scene.log, AD_LOG_INFO, "two", NULL, 0);
    ck_assert_int_eq(turn_to(&scene, "b.log"), AD_OK);
    ad_log_write(&scene.log, AD_LOG_INFO, "three", NULL, 0);
    ck_assert_int_eq(turn_to(&scene, "a.log"), AD_OK);
    ad_log_write(&scene.log, AD_LOG_INFO, "four", NULL, 0);
    struct ad_log_settings settings;
    ad_log_control_read(scene.control, &settings);
    ck_assert_str_eq(settings.file, "a.log");
    ck_assert_int_eq(turn_to(&scene, ""), AD_OK);
    ad_log_write(&scene.log, AD_LOG_INFO, "five", NULL, 0);
    ck_assert_int_eq(count(&scene, "first", "INFO"), 2);
    ck_assert_int_eq(count(&scene, "first", "five"), 1);
    ck_assert_int_eq(count(&scene, "logs/a.log", "two"), 1);
    ck_assert_int_eq(count(&scene, "logs/a.log", "four"), 1);
    ck_assert_int_eq(count(&scene, "logs/b.log", "three"), 1);
    ck_assert_int_eq(count(&scene, "logs/b.log", "INFO"), 1);
    struct stat info;
    char path[160];
    path_of(&scene, "logs/a.log", path);
    ck_assert_int_eq(stat(path, &info), 0);
    ck_assert_int_eq(info.st_mode & 0137, 0);
    ck_assert_int_eq(fcntl(scene.log.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    tear_down(&scene);
}
END_TEST

START_TEST(test_reopen)
{
    struct scene scene;
    char from[160], to[160];
    set_up(&scene, true);
    ck_assert_int_eq(ad_log_reopen(scene.control, &scene.error), AD_OK);
    ad_log_write(&scene.log, AD_LOG_INFO, "one", NULL, 0);
    ck_assert_int_eq(count(&scene, "first", "one"), 1);
    ck_assert_int_eq(turn_to(&scene, "a.log"), AD_OK);
    path_of(&scene, "logs/a.log", from);
    path_of(&scene, "logs/a.log.1", to);
    ck_assert_int_eq(rename(from, to), 0);
    ad_log_write(&scene.log, AD_LOG_INFO, "two", NULL, 0);
    ck_assert_int_eq(count(&scene, "logs/a.log.1", "two"), 1);
    ck_assert_int_eq(ad_log_reopen(scene.control, &scene.error), AD_OK);
    ad_log_write(&scene.log, AD_LOG_INFO, "three", NULL, 0);
    ck_assert_int_eq(count(&scene, "logs/a.log", "three"), 1);
    ck_assert_int_eq(count(&scene, "logs/a.log.1", "three"), 0);
    tear_down(&scene);
}
END_TEST

/* What is refused leaves the log where it goes. */
START_TEST(test_bad_files)
{
    static const char *const names[] = {
        ".",    "..",     "/etc/passwd", "../first", "a/b",         ".hid",   "a b",
        "a\nb", "folder", "link",        "pipe",     "caf\xc3\xa9", "socket", "a\x7f"};
    struct scene scene;
    char path[160];
    set_up(&scene, true);
    path_of(&scene, "logs/folder", path);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    path_of(&scene, "logs/link", path);
    ck_assert_int_eq(symlink("../first", path), 0);
    path_of(&scene, "logs/pipe", path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    path_of(&scene, "logs/socket", path);
    ck_assert_int_eq(mknod(path, S_IFSOCK | 0600, 0), 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        ck_assert_msg(turn_to(&scene, names[i]) == AD_INVALID, "%s", names[i]);
        ck_assert_int_eq(strncmp(scene.error.message, "log_file: ", 10), 0);
        ad_log_write(&scene.log, AD_LOG_INFO, "here", NULL, 0);
    }
    ck_assert_int_eq(count(&scene, "first", "here"), sizeof names / sizeof names[0]);
    close(reader);
    tear_down(&scene);
}
END_TEST

START_TEST(test_no_folder)
{
    struct scene scene;
    set_up(&scene, false);
    ck_assert_int_eq(turn_to(&scene, "a.log"), AD_INVALID);
    ck_assert_ptr_nonnull(strstr(scene.error.message, "--log-dir"));
    ck_assert_int_eq(turn_to(&scene, ""), AD_OK);
    tear_down(&scene);
}
END_TEST

START_TEST(test_bad_folder)
{
    struct ad_log log = {.fd = STDERR_FILENO};
    struct ad_log_control *control = NULL;
    struct ad_error error = {.status = AD_OK};
    ck_assert_int_eq(ad_log_control_create(&log, "/nonexistent/x", &control, &error),
                     AD_INVALID);
    ck_assert_ptr_null(control);
    ck_assert_int_eq(log.fd, STDERR_FILENO);
    ad_log_control_free(NULL);
}
END_TEST

/* All or nothing: a file that cannot be opened leaves the levels alone too. */
START_TEST(test_all_or_nothing)
{
    struct scene scene;
    struct ad_log_settings settings;
    set_up(&scene, true);
    struct ad_log_change change = {.given = AD_LOG_GIVES_FILE | AD_LOG_GIVES_ERROR};
    strcpy(change.to.file, "a/b");
    ck_assert_int_eq(ad_log_control_change(scene.control, &change, &scene.error),
                     AD_INVALID);
    ad_log_control_read(scene.control, &settings);
    ck_assert(settings.error);
    ck_assert_str_eq(settings.file, "");
    tear_down(&scene);
}
END_TEST

/* Any set of levels, one independent of the other; only what is given changes. */
START_TEST(test_levels)
{
    struct scene scene;
    set_up(&scene, true);
    struct ad_log_settings start;
    ad_log_control_read(scene.control, &start);
    ck_assert(start.info && start.warning && start.error);
    ck_assert_uint_eq(start.verbose_level, 0);
    ck_assert_int_eq(start.style, AD_LOG_STYLE_DEFAULT);
    for (unsigned set = 0; set < 16; set++) {
        struct ad_log_change change = {.given = AD_LOG_GIVES_INFO | AD_LOG_GIVES_WARNING |
                                                AD_LOG_GIVES_ERROR |
                                                AD_LOG_GIVES_VERBOSE_LEVEL};
        change.to.error = set & 1;
        change.to.warning = set & 2;
        change.to.info = set & 4;
        change.to.verbose_level = set & 8 ? 3 : 0;
        ck_assert_int_eq(ad_log_control_change(scene.control, &change, &scene.error),
                         AD_OK);
        for (enum ad_log_level level = AD_LOG_ERROR; level <= AD_LOG_DEBUG; level++) {
            ck_assert_int_eq(ad_log_enables(&scene.log, level), (set >> level) & 1);
        }
        const struct ad_log_change none = {.given = 0};
        ck_assert_int_eq(ad_log_control_change(scene.control, &none, &scene.error),
                         AD_OK);
        struct ad_log_settings settings;
        ad_log_control_read(scene.control, &settings);
        ck_assert(settings.error == change.to.error && settings.info == change.to.info &&
                  settings.warning == change.to.warning);
        ck_assert_uint_eq(settings.verbose_level, change.to.verbose_level);
        ck_assert_str_eq(settings.file, "");
    }
    tear_down(&scene);
}
END_TEST

START_TEST(test_style)
{
    struct scene scene;
    set_up(&scene, true);
    struct ad_log_change change = {.given = AD_LOG_GIVES_STYLE};
    change.to.style = AD_LOG_STYLE_JSON;
    ck_assert_int_eq(ad_log_control_change(scene.control, &change, &scene.error), AD_OK);
    ad_log_write(&scene.log, AD_LOG_INFO, "m", NULL, 0);
    ck_assert_int_eq(count(&scene, "first", "\"message\":\"m\"}"), 1);
    change.to.style = AD_LOG_STYLE_ISO8601;
    ck_assert_int_eq(ad_log_control_change(scene.control, &change, &scene.error), AD_OK);
    ad_log_write(&scene.log, AD_LOG_INFO, "n", NULL, 0);
    ck_assert_int_eq(count(&scene, "first", "INFO  n\n"), 1);
    tear_down(&scene);
}
END_TEST

#define N_THREADS 3
#define N_LINES 2000

static void *write_lines(void *context)
{
    const struct ad_log *log = context;
    for (int64_t i = 0; i < N_LINES; i++) {
        const struct ad_log_field field = ad_log_number("i", i);
        ad_log_write(log, AD_LOG_ERROR, "line", &field, 1);
    }
    return NULL;
}

/* No line is lost while the file changes under the writers. */
START_TEST(test_threads)
{
    struct scene scene;
    set_up(&scene, true);
    pthread_t threads[N_THREADS];
    for (size_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_lines, &scene.log), 0);
    }
    for (int i = 0; i < 100; i++) {
        static const char *const names[] = {"a.log", "b.log", ""};
        struct ad_log_change change = {.given = AD_LOG_GIVES_FILE | AD_LOG_GIVES_STYLE,
                                       .to.style = (enum ad_log_style)(i % 3)};
        strcpy(change.to.file, names[i % 3]);
        ck_assert_int_eq(ad_log_control_change(scene.control, &change, &scene.error),
                         AD_OK);
        usleep(200);
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    ck_assert_int_eq(count(&scene, "first", "line") +
                         count(&scene, "logs/a.log", "line") +
                         count(&scene, "logs/b.log", "line"),
                     N_THREADS * N_LINES);
    tear_down(&scene);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log_control");
    TCase *tests = tcase_create("log_control");
    suite_add_tcase(suite, tests);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_file);
    tcase_add_test(tests, test_reopen);
    tcase_add_test(tests, test_bad_files);
    tcase_add_test(tests, test_no_folder);
    tcase_add_test(tests, test_bad_folder);
    tcase_add_test(tests, test_all_or_nothing);
    tcase_add_test(tests, test_levels);
    tcase_add_test(tests, test_style);
    tcase_add_test(tests, test_threads);
    return support_run(suite);
}
