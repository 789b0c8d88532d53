#include "daemon/learn/model_keeper.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/cards/cards.h"

#define SAVE_EVERY_NS UINT64_C(600000000000)
/* How long the other GPUs may take to be ready after the first one. */
#define SETTLE_NS UINT64_C(5000000000)

struct model_keeper {
    struct model_keeper_options options;
    char path[PATH_MAX]; /* "": it is not kept */
    /* what is kept; a half that could not be used yet is left as it was read */
    struct model_file now;
    struct model_file out; /* being written, or as it was written last */
    bool named[HALVES]; /* the half is about this machine, so that the model's lines belong in it */
    uint64_t ready_ns;  /* since when a GPU has been ready */
    uint64_t saved_ns;
    uv_work_t work;
    bool writing, complained;
    struct failure failure; /* of the last write */
};

static const char *const half_titles[HALVES] = {"the CPU", "the GPUs"};

/* ---------------------------------------------------------------- which machine */

/* Keeps printable characters that JSON need not escape. */
static void make_plain(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || (unsigned char)*text > 0x7e || *text == '"' ||
            *text == '\\')
            *text = '?';
}

/* Reads the first line about the processor's model: a name on x86, numbers on Arm. */
static void read_processor(char *out, size_t size)
{
    char line[512];
    snprintf(out, size, "unknown processor");
    FILE *in = fopen("/proc/cpuinfo", "re");
    while (in && fgets(line, sizeof line, in)) {
        if (strncmp(line, "model name", 10) != 0 && strncmp(line, "CPU part", 8) != 0) continue;
        const char *value = strchr(line, ':');
        if (!value) continue;
        value += strspn(value, ": \t");
        snprintf(out, size, "%.*s", (int)strcspn(value, "\n"), value);
        break;
    }
    if (in) fclose(in);
}

static void describe_cpu(const struct model_keeper_options *o, char *out, size_t size)
{
    char processor[256];
    read_processor(processor, sizeof processor);
    snprintf(out, size, "%s, %u workers, %s", processor, o->workers, o->kernels->name);
    make_plain(out);
}

/* Describes all GPUs that have ever been ready. The GPU processes wrote it: it is not trusted. */
static void describe_gpus(const struct backend *gpu, char *out, size_t size)
{
    size_t used = 0;
    const struct gpu_process *process;
    *out = 0;
    for (uint32_t i = 0; (process = cards_process_at(gpu, i)); i++) {
        char name[SHARE_TEXT], uuid[64];
        const struct share *share = gpu_process_share((struct gpu_process *)process);
        if (!share) continue;
        const struct share_device *d = &share->device;
        share_copy_text(name, sizeof name, d->name, sizeof d->name);
        share_copy_text(uuid, sizeof uuid, d->uuid, sizeof d->uuid);
        int n = snprintf(out + used, size - used, "%s%s %s (driver %u)", used ? ", " : "", name,
                         uuid, d->driver_version);
        used = n > 0 && used + (size_t)n < size ? used + (size_t)n : size - 1;
    }
    make_plain(out);
}

/* ---------------------------------------------------------------- reading */

static void choose_path(struct model_keeper *k, const char *asked)
{
    /* it may name several directories; the first is used */
    const char *state = getenv("STATE_DIRECTORY");
    int n = 0;
    if (*asked)
        n = snprintf(k->path, sizeof k->path, "%s", asked);
    else if (state && *state)
        n = snprintf(k->path, sizeof k->path, "%.*s/model.json", (int)strcspn(state, ":"), state);
    if (n >= (int)sizeof k->path) k->path[0] = 0;
}

static void read_file(struct model_keeper *k)
{
    struct failure f = {0};
    if (!k->path[0]) return;
    enum status st = model_file_read(k->path, &k->now, &f);
    if (st && st != STATUS_NOT_FOUND) log_warning("model: %s: %s; ignored", k->path, f.text);
}

/* Takes what the file says about a half, now that the machine is known. */
static void take_half(struct model_keeper *k, enum calibrated_half which, const char *machine)
{
    struct model_half *half = &k->now.halves[which];
    struct cost_model *m = k->options.model;
    k->named[which] = true;
    if (half->known && strcmp(half->machine, machine) == 0) {
        memcpy(m->lines[which], half->lines, sizeof half->lines);
        if (which == HALF_GPU) {
            m->upload_ns = half->upload_ns;
            m->upload_ns_per_byte = half->upload_ns_per_byte;
        }
        m->calibrated = true;
        log_info("model: loaded what %s knows of %s", k->path, half_titles[which]);
        return;
    }
    if (half->known)
        log_warning("model: %s: what it knows of %s is of '%.200s', this is '%.200s'; ignored",
                    k->path, half_titles[which], half->machine, machine);
    memset(half, 0, sizeof *half);
    snprintf(half->machine, sizeof half->machine, "%s", machine);
}

/* ---------------------------------------------------------------- writing */

/* Collects what the model knows now in k->now. */
static void gather(struct model_keeper *k)
{
    const struct cost_model *m = k->options.model;
    for (int i = 0; i < HALVES; i++) {
        struct model_half *half = &k->now.halves[i];
        if (!k->named[i]) continue;
        memcpy(half->lines, m->lines[i], sizeof half->lines);
        half->upload_ns = i == HALF_GPU ? m->upload_ns : 0;
        half->upload_ns_per_byte = i == HALF_GPU ? m->upload_ns_per_byte : 0;
        half->known |= half->calibrated;
        for (uint32_t line = 0; line < COST_OPERATIONS; line++) {
            memset(half->lines[line].outcomes, 0, sizeof half->lines[line].outcomes);
            half->lines[line].outcome_count = 0;
            half->known |= half->lines[line].seen > 0;
        }
    }
}

/* True if there is something to write, which is in k->out then. */
static bool prepare_save(struct model_keeper *k)
{
    if (!k->path[0]) return false;
    gather(k);
    if (memcmp(&k->now, &k->out, sizeof k->now) == 0) return false;
    if (!k->now.halves[HALF_CPU].known && !k->now.halves[HALF_GPU].known) return false;
    k->out = k->now;
    return true;
}

/* Logs one line when writing begins to fail, and one when it works again. */
static void report_save(struct model_keeper *k, enum status st)
{
    if (st && !k->complained)
        log_warning("model: %s: %s; what is there stays", k->path, k->failure.text);
    if (!st && k->complained) log_info("model: %s: written again", k->path);
    k->complained = st != STATUS_OK;
    if (st) memset(&k->out, 0, sizeof k->out); /* so that the next attempt writes */
}

static void write_out(uv_work_t *work)
{
    struct model_keeper *k = work->data;
    memset(&k->failure, 0, sizeof k->failure);
    (void)model_file_write(k->path, &k->out, &k->failure);
}

static void on_written(uv_work_t *work, int status)
{
    struct model_keeper *k = work->data;
    k->writing = false;
    report_save(k, k->failure.code);
}

static void save_beside(struct model_keeper *k)
{
    if (k->writing || !prepare_save(k)) return;
    k->work.data = k;
    k->writing = uv_queue_work(k->options.loop, &k->work, write_out, on_written) == 0;
    if (!k->writing) memset(&k->out, 0, sizeof k->out);
}

/* ---------------------------------------------------------------- life */

enum status model_keeper_create(const struct model_keeper_options *options,
                                struct model_keeper **out)
{
    char machine[MODEL_MACHINE_MAX];
    struct model_keeper *k = fault_here("model: keeper") ? NULL : calloc(1, sizeof *k);
    if (!k) return STATUS_RESOURCE_EXHAUSTED;
    k->options = *options;
    k->saved_ns = options->now_ns;
    choose_path(k, options->path);
    read_file(k);
    k->out = k->now;
    describe_cpu(options, machine, sizeof machine);
    take_half(k, HALF_CPU, machine);
    *out = k;
    return STATUS_OK;
}

void model_keeper_destroy(struct model_keeper *k)
{
    if (!k) return;
    if (prepare_save(k)) {
        memset(&k->failure, 0, sizeof k->failure);
        report_save(k, model_file_write(k->path, &k->out, &k->failure));
    }
    free(k);
}

/* GPUs are started one after the other, and some may never be ready: the set of GPUs is known once
 * none is still starting. */
static bool are_gpus_settled(struct model_keeper *k, uint64_t now_ns)
{
    const struct backend *gpu = k->options.gpu;
    const struct gpu_process *process;
    uint32_t ready = 0, coming = 0;
    if (!gpu) return false;
    for (uint32_t i = 0; (process = cards_process_at(gpu, i)); i++) {
        enum gpu_state state = gpu_process_state(process);
        ready += state == GPU_READY;
        coming += state == GPU_STARTING || state == GPU_DOWN;
    }
    if (!ready) return false;
    if (!k->ready_ns) k->ready_ns = now_ns;
    return !coming || now_ns - k->ready_ns > SETTLE_NS;
}

void model_keeper_check(struct model_keeper *k, uint64_t now_ns)
{
    if (!k->named[HALF_GPU] && are_gpus_settled(k, now_ns)) {
        char machine[MODEL_MACHINE_MAX];
        describe_gpus(k->options.gpu, machine, sizeof machine);
        take_half(k, HALF_GPU, machine);
    }
    if (now_ns < k->saved_ns + SAVE_EVERY_NS) return;
    k->saved_ns = now_ns;
    save_beside(k);
}

bool model_keeper_knows_gpus(const struct model_keeper *k)
{
    return k->named[HALF_GPU];
}

bool model_keeper_calibrated(const struct model_keeper *k, enum calibrated_half half)
{
    return k->now.halves[half].known && k->now.halves[half].calibrated;
}

void model_keeper_set_calibrated(struct model_keeper *k, enum calibrated_half half)
{
    k->now.halves[half].known = k->now.halves[half].calibrated = true;
}
