/* engram-acceld: reads arguments and configuration and talks to the service manager; the engine
 * does the rest. */
#include <argp.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#define SD_JOURNAL_SUPPRESS_LOCATION /* lines name their place in the code by their text */
#include <systemd/sd-daemon.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include "daemon/base/config.h"
#include "daemon/base/descriptors.h"
#include "daemon/base/log.h"
#include "daemon/base/secret.h"
#include "daemon/engine.h"
#include "daemon/handover/hand_over.h"
#include "daemon/http/access.h"
#include "daemon/persist/load.h"
#include "daemon/persist/persist.h"
#include "kernels/vectors.h"

/* As documented in the man page. */
enum { EXIT_OK = 0, EXIT_START = 1, EXIT_CONFIG = 2, EXIT_UNSAVED = 3 };

static const char default_config_path[] = "/etc/engram-accel/engram-accel.json";
static const char journal_socket[] = "/run/systemd/journal/socket";

/* argp finds it by this name. */
__attribute__((visibility("default"))) const char *argp_program_version =
    "engram-acceld " ENGRAM_VERSION "\n" ENGRAM_BUILD;
const char *argp_program_bug_address = NULL;

enum { OPTION_CHECK = 256, OPTION_SAMPLE, OPTION_SETTINGS, OPTION_MAN, OPTION_VERIFY, OPTION_HAND };

static const struct argp_option options[] = {
    {"config", 'c', "FILE", 0,
     "Read settings from FILE (default: /etc/engram-accel/engram-accel.json, when it exists)", 0},
    {"set", 's', "KEY=VALUE", 0, "Set one setting, over the file; may be repeated", 0},
    {"socket", 'S', "PATH", 0, "Same as --set socket.path=PATH", 0},
    {"check-config", OPTION_CHECK, NULL, 0, "Check the settings, say OK, and exit", 1},
    {"print-config", OPTION_SAMPLE, NULL, 0, "Print a file with every default, and exit", 1},
    {"help-config", OPTION_SETTINGS, NULL, 0, "Explain every setting, and exit", 1},
    {"verify", OPTION_VERIFY, "DIR", 0,
     "Check a snapshot, or the newest in a folder of snapshots, and exit: 0 if it is whole, else 1",
     1},
    {"hand-over", OPTION_HAND, "SOCKET", 0,
     "Take the place of the daemon that serves there, with all its data as it lies in memory", 1},
    {"print-man", OPTION_MAN, NULL, OPTION_HIDDEN, "Print the man page's section on settings", 1},
    {0},
};

struct daemon_arguments {
    const char *config_path;
    const char *settings[64];
    unsigned setting_count;
    char socket_setting[CONFIG_TEXT_MAX + 16];
    bool check_only;
    const char *verify;    /* the folder; NULL: none */
    const char *hand_over; /* the socket; NULL: none */
};

static void add_setting(struct argp_state *state, struct daemon_arguments *a, const char *setting)
{
    if (a->setting_count == sizeof a->settings / sizeof *a->settings)
        argp_error(state, "too many settings");
    a->settings[a->setting_count++] = setting;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct daemon_arguments *a = state->input;
    switch (key) {
    case 'c': a->config_path = value; return 0;
    case 's': add_setting(state, a, value); return 0;
    case 'S':
        if (strlen(value) > CONFIG_TEXT_MAX) argp_error(state, "--socket: path too long");
        snprintf(a->socket_setting, sizeof a->socket_setting, "socket.path=%s", value);
        add_setting(state, a, a->socket_setting);
        return 0;
    case OPTION_CHECK: a->check_only = true; return 0;
    case OPTION_VERIFY: a->verify = value; return 0;
    case OPTION_HAND: a->hand_over = value; return 0;
    case OPTION_SAMPLE: config_print_sample(stdout); exit(EXIT_OK);
    case OPTION_SETTINGS: config_print_help(stdout); exit(EXIT_OK);
    case OPTION_MAN: config_print_man(stdout); exit(EXIT_OK);
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    options,
    parse,
    NULL,
    "Keeps vectors and graphs resident; answers similarity, kNN and spreading over a socket.\v"
    "SIGTERM finishes accepted requests and stops; a second one stops at once. SIGHUP re-reads "
    "the live settings. Exit codes: 0 stopped as asked, 1 could not start, 2 wrong option or "
    "setting, 3 stopped, but the data could not be saved.",
    NULL,
    NULL,
    NULL};

/* Reads the file, then the command line. Errors go to stderr. */
/* A check of the settings does not know whether systemd will give a folder. */
static bool has_folder(const struct daemon_arguments *a, const struct config *c)
{
    const char *state = getenv("STATE_DIRECTORY");
    if (strcmp(c->persist_dir, "none") == 0) return false;
    return c->persist_dir[0] || a->check_only || a->verify || (state && *state);
}

static bool read_settings(struct daemon_arguments *a, struct config *c)
{
    struct failure f = {0};
    config_defaults(c);
    if (!a->config_path && access(default_config_path, F_OK) == 0)
        a->config_path = default_config_path;
    enum status st = a->config_path ? config_read_file(c, a->config_path, &f) : STATUS_OK;
    for (unsigned i = 0; !st && i < a->setting_count; i++)
        st = config_set(c, a->settings[i], &f);
    if (!st && !vectors_choose(c->kernels)) {
        char cpu[129];
        vectors_describe_cpu(cpu, sizeof cpu);
        st = failure_set(&f, STATUS_INVALID_ARGUMENT, DETAIL_NONE,
                         "kernels: '%s' cannot run here (%s)", c->kernels, cpu);
    }
    if (!st && !c->socket_path[0] && !c->tcp_enabled)
        st = failure_set(&f, STATUS_INVALID_ARGUMENT, DETAIL_NONE,
                         "socket.path is empty and tcp.enabled is false: nothing to listen on");
    if (!st && strcmp(c->persist_journal, "off") != 0 && !has_folder(a, c))
        st = failure_set(&f, STATUS_INVALID_ARGUMENT, DETAIL_NONE,
                         "%.200s: persist.journal: '%s', but persist.dir names no folder for it",
                         a->config_path ? a->config_path : "command line", c->persist_journal);
    if (!st && strcmp(c->log_format, "journald") == 0 && access(journal_socket, F_OK))
        st = failure_set(&f, STATUS_INVALID_ARGUMENT, DETAIL_NONE,
                         "log.format: 'journald', but no journal runs here (%s: %s)",
                         journal_socket, strerror(errno));
    if (st) fprintf(stderr, "engram-acceld: %s\n", f.text);
    return !st;
}

/* The files that a start reads secrets from. */
static bool check_files(const struct config *c)
{
    const struct secret_source from = {"auth.token_file", c->token_file, false};
    struct failure f = {0};
    struct secret token;
    struct guard guard;
    struct manifest_key key;
    enum status st = from.path[0] ? secret_read(&from, &token, &f) : STATUS_OK;
    if (!st && c->metrics_listen[0]) st = access_read(c, &guard, &f);
    if (!st) st = load_key(c->persist_key_file, &key, &f);
    if (st) fprintf(stderr, "engram-acceld: %s\n", f.text);
    return !st;
}

static bool raise_limit(int which, struct rlimit *limit)
{
    if (getrlimit(which, limit)) return false;
    limit->rlim_cur = limit->rlim_max;
    return setrlimit(which, limit) == 0;
}

/* Every connection takes a descriptor; memory that is shared is a file, and data are saved. */
static void raise_limits(const struct config *c)
{
    struct rlimit limit;
    raise_limit(RLIMIT_FSIZE, &limit);
    if (!raise_limit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= c->connection_max + 64ull) return;
    log_warning("limits.connections is %u, but only %llu descriptors may be open",
                c->connection_max, (unsigned long long)limit.rlim_cur);
}

/* Stacks for all that runs: the main thread's grows as far as its limit, threads have what theirs
 * begins with, which is the limit that the program was started with. */
static bool raise_stacks(void)
{
    enum { ENOUGH = 256 << 10, USUAL = 8 << 20 };
    struct rlimit limit;
    pthread_attr_t attributes;
    size_t bytes = 0;
    if (getrlimit(RLIMIT_STACK, &limit)) return true;
    if (limit.rlim_cur < USUAL) {
        limit.rlim_cur = limit.rlim_max < USUAL ? limit.rlim_max : USUAL;
        setrlimit(RLIMIT_STACK, &limit);
    }
    if (limit.rlim_cur < ENOUGH) {
        fprintf(stderr,
                "engram-acceld: stacks may have only %llu KiB (RLIMIT_STACK); %d are "
                "needed\n",
                (unsigned long long)limit.rlim_cur >> 10, ENOUGH >> 10);
        return false;
    }
    if (pthread_getattr_default_np(&attributes)) return true;
    if (!pthread_attr_getstacksize(&attributes, &bytes) && bytes < USUAL &&
        !pthread_attr_setstacksize(&attributes, USUAL))
        pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
    return true;
}

static int send_to_journal(const struct iovec *fields, int count)
{
    /* libsystemd calls it a success where no journal runs any more */
    return access(journal_socket, F_OK) ? -1 : sd_journal_sendv(fields, count);
}

static void notify(const char *state)
{
    sd_notify(0, state);
}

static void say_start(const struct engine *e, const struct daemon_arguments *a,
                      const struct config *c)
{
    char cpu[129];
    vectors_describe_cpu(cpu, sizeof cpu);
    log_info("engram-acceld %s, pid %d, settings from %s", ENGRAM_VERSION, getpid(),
             a->config_path ? a->config_path : "defaults");
    log_info("cpu: %s; kernels: %s", cpu, vectors_choose(c->kernels)->name);
    if (strcmp(c->gpu_devices, "none") == 0)
        log_info("gpu: absent: gpu.devices is none; the CPU answers everything");
    if (c->socket_path[0]) log_info("listening on %s", c->socket_path);
    if (c->tcp_enabled) log_info("listening on %s port %u", c->tcp_host, engine_tcp_port(e));
    if (c->tcp_enabled && !c->token_file[0])
        log_warning("tcp.enabled without auth.token_file: every user of this machine gets in");
    if (engine_http_address(e)) log_info("metrics on %s", engine_http_address(e));
}

/* What was printed in vain is a failure: also for argp, which ends the program by itself. */
static void check_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return;
    fprintf(stderr, "engram-acceld: standard output: %s\n", strerror(errno));
    _exit(EXIT_START);
}

/* ---- hand-over ---- */

/* What the service manager has kept of the daemon before, and its listening socket. */
static bool take_descriptors(struct hand_over *from, int *inherited_fd)
{
    char **names = NULL;
    int n = sd_listen_fds_with_names(1, &names);
    if (n < 0) {
        log_error("cannot start: LISTEN_FDS, LISTEN_PID: %s", strerror(-n));
        return false;
    }
    for (int i = 0; i < n; i++) {
        int fd = SD_LISTEN_FDS_START + i;
        if (!hand_over_take_stored(from, names[i], fd) && *inherited_fd < 0) *inherited_fd = fd;
        free(names[i]);
    }
    free(names);
    if (from->heap_fd < 0 || hand_over_is_whole(from)) return true;
    log_error("hand-over: what the service manager kept is not whole; nothing of it is used");
    hand_over_close(from);
    return true;
}

/* False: the daemon there refuses, and goes on. */
static bool ask(const char *path, struct hand_over *from)
{
    struct failure f = {0};
    hand_over_close(from);
    enum status st = hand_over_ask(path, from, &f);
    if (!st) return true;
    if (st == STATUS_UNAVAILABLE) {
        log_warning("hand-over: %s; starting with what is on the disk", f.text);
        return true;
    }
    log_error("hand-over: %s", f.text);
    return false;
}

/* Leaves it to the service manager, which passes it to the next start. What it had of an earlier
 * one is claimed, and of no use. */
static void store_descriptors(const struct hand_over *h)
{
    const int fds[HAND_OVER_STORED] = {h->heap_fd, h->catalogue_fd, h->claim_fd};
    for (int i = 0; i < HAND_OVER_STORED; i++) {
        char state[64];
        snprintf(state, sizeof state, "FDSTORE=1\nFDNAME=%s", hand_over_names[i]);
        sd_pid_notify_with_fds(0, 0, state, &fds[i], 1);
    }
}

static void remove_stored(void)
{
    for (int i = 0; i < HAND_OVER_STORED; i++) {
        char state[64];
        snprintf(state, sizeof state, "FDSTOREREMOVE=1\nFDNAME=%s", hand_over_names[i]);
        sd_notify(0, state);
    }
}

/* Runs until it is stopped, and again each time that a successor has failed. */
static int run(struct engine_options *o, const struct daemon_arguments *a, struct hand_over *from)
{
    struct hand_over leaves;
    bool saved;
    o->leaves = &leaves;
    o->leaves_to_manager = getenv("NOTIFY_SOCKET") != NULL;
    for (;;) {
        struct engine *e;
        struct failure f = {0};
        bool adopts = from->heap_fd >= 0, stored = adopts && from->peer_fd < 0;
        o->adopts = adopts ? from : NULL;
        hand_over_init(&leaves);
        enum status st = engine_create(o, &e, &f);
        if (st) {
            hand_over_gives_up(from, &f);
            if (st == STATUS_CANCELLED) {
                log_info("stopped before it served: %s", f.text);
                return EXIT_OK;
            }
            log_error("cannot start: %s", f.text);
            return st == STATUS_INVALID_ARGUMENT ? EXIT_CONFIG : EXIT_START;
        }
        if (stored) remove_stored();
        say_start(e, a, &o->config);
        const struct failure *why = engine_run(e);
        bool failed = why != NULL;
        if (failed) log_error("cannot start: %s", why->text);
        saved = engine_destroy(e);
        hand_over_close(from);
        if (failed) return EXIT_START;
        if (!leaves.is_back) break;
        *from = leaves;
        o->inherited_fd = -1; /* it is among those that came back */
    }
    if (leaves.heap_fd >= 0 && leaves.peer_fd < 0) store_descriptors(&leaves);
    hand_over_close(&leaves);
    log_info("stopped%s", saved ? "" : ", not saved");
    return saved ? EXIT_OK : EXIT_UNSAVED;
}

int main(int argc, char **argv)
{
    struct daemon_arguments a = {0};
    struct engine_options engine_options = {.inherited_fd = -1, .handle_signals = true};
    if (!descriptors_open_standard()) return EXIT_START;
    atexit(check_output);
    argp_err_exit_status = EXIT_CONFIG;
    argp_parse(&parser, argc, argv, 0, NULL, &a);
    if (!read_settings(&a, &engine_options.config)) return EXIT_CONFIG;
    const struct config *c = &engine_options.config;
    log_set_level_name(c->log_level);
    log_set_format_name(c->log_format, "engram-acceld");
    log_use_journal(send_to_journal);
    if (a.check_only) {
        if (!check_files(c)) return EXIT_CONFIG;
        printf("%s: OK\n", a.config_path ? a.config_path : "defaults");
        return EXIT_OK;
    }
    if (a.verify)
        return persist_verify(a.verify, c->persist_key_file, stdout) ? EXIT_OK : EXIT_START;
    if (!raise_stacks()) return EXIT_START;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is told by who writes it */
    if (!log_start()) {
        log_error("cannot start: no thread for the log");
        return EXIT_START;
    }
    raise_limits(c);
    struct hand_over from;
    hand_over_init(&from);
    if (!take_descriptors(&from, &engine_options.inherited_fd)) {
        log_stop();
        return EXIT_START;
    }
    engine_options.config_path = a.config_path;
    engine_options.settings = a.settings;
    engine_options.setting_count = a.setting_count;
    engine_options.notify = notify;
    if (sd_watchdog_enabled(1, &engine_options.watchdog_us) <= 0) engine_options.watchdog_us = 0;

    bool goes_on = !a.hand_over || ask(a.hand_over, &from);
    int code = goes_on ? run(&engine_options, &a, &from) : EXIT_START;
    hand_over_close(&from);
    log_stop();
    return code;
}
