#include "daemon/gpu/sim_settings.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { WORD_MAX = 320, SLOW_MAX = 100000, LOOK_NS = 10000000 };

static const char *const kind_names[] = {
    [SIM_MEMORY] = "memory", [SIM_ERROR] = "error", [SIM_STICKY] = "sticky",
    [SIM_ABSENT] = "absent", [SIM_SLOW] = "slow",   [SIM_HANG] = "hang",
    [SIM_CRASH] = "crash",
};

/* Reads digits, up to max; *end is the rest of the text. */
static bool number_read(const char *text, uint64_t min, uint64_t max, uint64_t *out,
                        const char **end)
{
    uint64_t n = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        n = n * 10 + (uint64_t)(*at - '0');
        if (n > max) return false;
    }
    if (at == text || n < min) return false;
    *out = n;
    *end = at;
    return true;
}

static bool number_is(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    const char *end;
    return number_read(text, min, max, out, &end) && *end == '\0';
}

/* Reads N[+]:KIND[@CALL]. */
static bool parse_fail(const char *value, struct sim_settings *s)
{
    const char *at;
    if (!number_read(value, 1, UINT32_MAX, &s->fail_from, &at)) return false;
    s->fail_onward = *at == '+';
    at += s->fail_onward;
    if (*at++ != ':') return false;
    size_t length = strcspn(at, "@");
    const char *call = at[length] ? at + length + 1 : "";
    if (strlen(call) >= sizeof s->fail_call || (at[length] && !*call)) return false;
    strcpy(s->fail_call, call);
    s->fail_kind = SIM_NONE;
    for (int kind = SIM_MEMORY; kind <= SIM_CRASH; kind++)
        if (strlen(kind_names[kind]) == length && strncmp(at, kind_names[kind], length) == 0)
            s->fail_kind = (enum sim_kind)kind;
    return s->fail_kind != SIM_NONE;
}

static bool parse_path(const char *value, char path[256])
{
    if (!*value || strlen(value) >= 256) return false;
    strcpy(path, value);
    return true;
}

/* True if there is such a key; *good: its value is valid, too. */
static bool parse_word(const char *key, const char *value, struct sim_settings *s, bool *good)
{
    uint64_t n = 0;
    if (strcmp(key, "vram_mib") == 0) {
        *good = number_is(value, 1, 65536, &n);
        s->vram_bytes = n << 20;
    } else if (strcmp(key, "granularity_kib") == 0) {
        *good = number_is(value, 4, 2048, &n) && (n & (n - 1)) == 0;
        s->granularity = n << 10;
    } else if (strcmp(key, "latency_us") == 0) {
        *good = number_is(value, 0, 10000000, &n);
        s->latency_ns = n * 1000;
    } else if (strcmp(key, "run_us") == 0) {
        *good = number_is(value, 0, 10000000, &n);
        s->run_ns = n * 1000;
    } else if (strcmp(key, "multiply_adds") == 0) {
        *good = number_is(value, 1, 100000000, &s->multiply_adds);
    } else if (strcmp(key, "shadow_rows") == 0) {
        *good = number_is(value, 12, 100000000, &s->shadow_rows);
    } else if (strcmp(key, "pass_sets") == 0) {
        *good = number_is(value, 0, 1000000, &n);
        s->pass_sets = (uint32_t)n;
    } else if (strcmp(key, "devices") == 0) {
        *good = number_is(value, 0, 1024, &n);
        s->devices = (uint32_t)n;
    } else if (strcmp(key, "vmm") == 0) {
        *good = number_is(value, 0, 1, &n);
        s->vmm = n;
    } else if (strcmp(key, "managed") == 0) {
        *good = number_is(value, 0, 1, &n);
        s->managed = n;
    } else if (strcmp(key, "direct") == 0) {
        *good = number_is(value, 0, 1, &n);
        s->direct = n;
    } else if (strcmp(key, "strict") == 0) {
        *good = number_is(value, 0, 1, &n);
        s->strict = n;
    } else if (strcmp(key, "count") == 0) {
        *good = parse_path(value, s->count_path);
    } else if (strcmp(key, "slow") == 0) {
        *good = number_is(value, 1, SLOW_MAX, &n);
        s->slow = (uint32_t)n;
    } else if (strcmp(key, "slow_file") == 0) {
        *good = parse_path(value, s->slow_path);
    } else if (strcmp(key, "fail") == 0) {
        *good = parse_fail(value, s);
    } else {
        return false;
    }
    return true;
}

bool sim_settings_parse(const char *text, struct sim_settings *out, char why[SHARE_WHY])
{
    struct sim_settings s = {
        .vram_bytes = UINT64_C(256) << 20,
        .granularity = 64 << 10,
        .latency_ns = 5000,
        .multiply_adds = 20000,
        .shadow_rows = 1024,
        .slow = 1,
        .devices = 1,
        .vmm = true,
        .managed = true,
        .direct = true,
    };
    for (const char *at = text ? text : "";;) {
        at += strspn(at, " ");
        size_t length = strcspn(at, " ");
        if (length == 0) break;
        char word[WORD_MAX];
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        at += length;
        char *value = strchr(word, '=');
        if (value) *value++ = '\0';
        bool good = length < sizeof word;
        bool known = value && parse_word(word, value, &s, &good);
        if (known && good && length < sizeof word) continue;
        snprintf(why, SHARE_WHY, "simulated GPU: %s '%.*s'",
                 known ? "not a value that it takes:" : "no such setting:",
                 (int)(length < 160 ? length : 160), at - length);
        return false;
    }
    *out = s;
    return true;
}

/* ---- pace ---- */

/* Reads the number at the beginning of a file; false: there is none. */
static bool file_number(const char *path, uint64_t *out)
{
    char text[32] = "";
    const char *end;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t bytes = read(fd, text, sizeof text - 1);
    close(fd);
    return bytes > 0 && number_read(text, 1, SLOW_MAX, out, &end);
}

uint32_t sim_pace_factor(struct sim_pace *p, uint64_t now_ns)
{
    const struct sim_settings *s = p->settings;
    if (!s->slow_path[0]) return s->slow;
    if (p->read_ns && now_ns - p->read_ns < LOOK_NS) return p->factor;
    uint64_t number = s->slow;
    p->read_ns = now_ns;
    p->factor = file_number(s->slow_path, &number) ? (uint32_t)number : s->slow;
    return p->factor;
}

/* ---- faults ---- */

bool sim_faults_init(struct sim_faults *f, const struct sim_settings *settings, char why[SHARE_WHY])
{
    *f = (struct sim_faults){.settings = settings};
    f->calls = &f->own;
    if (!settings->count_path[0]) return true;
    void *map = MAP_FAILED;
    int fd = open(settings->count_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0 && ftruncate(fd, sizeof *f->calls) == 0)
        map = mmap(NULL, sizeof *f->calls, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int error = errno;
    if (fd >= 0) close(fd);
    if (map == MAP_FAILED) {
        snprintf(why, SHARE_WHY, "simulated GPU: cannot count in %.128s: %s", settings->count_path,
                 strerror(error));
        return false;
    }
    f->calls = map;
    return true;
}

void sim_faults_finish(struct sim_faults *f)
{
    if (f->calls && f->calls != &f->own) munmap(f->calls, sizeof *f->calls);
    f->calls = NULL;
}

enum device_result sim_faults_call(struct sim_faults *f, const char *call_name,
                                   bool can_lack_memory)
{
    const struct sim_settings *s = f->settings;
    if (s->fail_call[0] && strcmp(s->fail_call, call_name) != 0)
        return f->sticky ? DEVICE_STICKY : DEVICE_OK;
    uint64_t call = __atomic_add_fetch(f->calls, 1, __ATOMIC_RELAXED);
    bool here = s->fail_onward ? call >= s->fail_from : call == s->fail_from;
    if (s->fail_kind != SIM_NONE && here) {
        switch (s->fail_kind) {
        case SIM_NONE: break;
        case SIM_MEMORY: return can_lack_memory ? DEVICE_NO_MEMORY : DEVICE_ERROR;
        case SIM_ERROR: return DEVICE_ERROR;
        case SIM_ABSENT: return DEVICE_ABSENT;
        case SIM_STICKY: f->sticky = true; break;
        case SIM_SLOW: nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL); break;
        case SIM_HANG:
            for (;;)
                pause();
        case SIM_CRASH: raise(SIGKILL);
        }
    }
    return f->sticky ? DEVICE_STICKY : DEVICE_OK;
}
