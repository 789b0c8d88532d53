/* What info and stats say of GPUs, with processes that the test plays itself, and that write
 * nonsense into the memory they share. The source is built in here, over fakes of what it asks: the
 * real ones come with a process. */
#define gpu_process_at       fake_gpu_process_at
#define gpu_process_state    fake_gpu_process_state
#define gpu_process_share    fake_gpu_process_share
#define gpu_process_restarts fake_gpu_process_restarts
#define gpu_process_ready_ns fake_gpu_process_ready_ns
#define gpu_process_describe fake_gpu_process_describe
#define gpu_in_flight        fake_gpu_in_flight
#define gpu_replica_info     fake_gpu_replica_info
#include "daemon/report/cards_report.c" /* NOLINT(bugprone-suspicious-include) */

#include <stdlib.h>

#include <criterion/criterion.h>

/* ---- the GPU backend, as answers_gpu.c sees it ---- */

struct gpu_process {
    enum gpu_state state;
    struct share *share;
    uint64_t restarts, ready_ns;
    const char *text;
};

static struct gpu_process processes[GPU_MAX + 4];
static uint32_t process_count, in_flight;

const struct gpu_process *gpu_process_at(const struct backend *b, uint32_t i)
{
    cr_assert_not_null(b);
    return i < process_count ? &processes[i] : NULL;
}

enum gpu_state gpu_process_state(const struct gpu_process *p)
{
    return p->state;
}

struct share *gpu_process_share(struct gpu_process *p)
{
    return p->share;
}

uint64_t gpu_process_restarts(const struct gpu_process *p)
{
    return p->restarts;
}

uint64_t gpu_process_ready_ns(const struct gpu_process *p)
{
    return p->ready_ns;
}

void gpu_process_describe(const struct gpu_process *p, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s", p->text ? p->text : "");
}

uint32_t gpu_in_flight(const struct backend *b)
{
    return in_flight;
}

struct gpu_replica_info gpu_replica_info(const struct backend *b, const struct resident *of)
{
    return (struct gpu_replica_info){4096, 3};
}

/* ---- the tests ---- */

#define NOW_NS UINT64_C(5000)

static struct backend backend;
static struct pipeline pipeline;
static struct wire_info info;
static struct wire_stats stats;

static void begin(uint32_t count)
{
    memset(&pipeline, 0, sizeof pipeline);
    memset(&info, 0xff, sizeof info);
    memset(&stats, 0xff, sizeof stats);
    memset(processes, 0, sizeof processes);
    pipeline.gpu = &backend;
    process_count = count;
    in_flight = 0;
}

static struct share *new_share(int byte)
{
    struct share *s = aligned_alloc(_Alignof(struct share), sizeof *s);
    memset(s, byte, sizeof *s);
    return s;
}

Test(answers_gpu, without)
{
    begin(0);
    pipeline.gpu = NULL;
    answer_gpu_info(&pipeline, NOW_NS, &info);
    answer_gpu_stats(&pipeline, NOW_NS, &stats);
    cr_assert(info.gpu_count == 0 && stats.gpu_count == 0 && stats.route_count == 0);
    cr_assert_str_eq(info.gpu, "absent: this daemon runs without GPUs");
    pipeline.gpu = &backend;
    answer_gpu_info(&pipeline, NOW_NS, &info);
    cr_assert_str_eq(info.gpu, "absent: gpu.devices is none");
}

Test(answers_gpu, absent_starting_ready)
{
    begin(1);
    processes[0].text = "absent: no driver";
    answer_gpu_info(&pipeline, NOW_NS, &info);
    cr_assert_eq(info.gpu_count, 1);
    cr_assert_eq(info.gpus[0].state, WIRE_GPU_ABSENT);
    cr_assert_str_eq(info.gpus[0].why, "absent: no driver");
    cr_assert_str_eq(info.gpu, "absent: no driver");
    cr_assert_str_eq(info.gpus[0].name, "");

    struct share *s = processes[0].share = new_share(0);
    strcpy(s->device.name, "Card");
    s->device.budget_bytes = 75;
    s->device.ecc = 2; /* any number but 0 */
    atomic_store(&s->usage.replica_bytes, 50);
    atomic_store(&s->usage.shrunk, 51);
    atomic_store(&s->usage.split, 52);
    processes[0].state = GPU_READY;
    processes[0].text = "Card, and so on";
    processes[0].ready_ns = NOW_NS - 1000;
    processes[0].restarts = 4;
    in_flight = 9;
    pipeline.stats.routes[BACKEND_GPU][REASON_CHOSEN_FASTER] = 8;
    pipeline.stats.routes[BACKEND_CPU][REASON_BELOW_MIN_BATCH] = 7;
    answer_gpu_info(&pipeline, NOW_NS, &info);
    answer_gpu_stats(&pipeline, NOW_NS, &stats);
    cr_assert_str_eq(info.gpu, "Card, and so on");
    cr_assert_str_eq(info.gpus[0].name, "Card");
    cr_assert_str_eq(info.gpus[0].why, "");
    cr_assert(info.gpus[0].ecc && !info.gpus[0].managed);
    cr_assert(info.gpus[0].uptime_ns == 1000 && info.gpus[0].restarts == 4);
    cr_assert_eq(stats.gpus[0].replica_bytes, 50);
    cr_assert_eq(stats.gpus[0].budget_bytes, 75);
    cr_assert(stats.gpus[0].shrunk == 51 && stats.gpus[0].split == 52);
    cr_assert_eq(stats.gpus[0].jobs_in_flight, 9);
    cr_assert_eq(stats.route_count, 2);
    cr_assert_eq(stats.routes[1].backend, BACKEND_GPU);
    cr_assert_eq(stats.routes[1].requests, 8);

    processes[0].state = GPU_DOWN; /* its VRAM is the system's again; what the card is stays */
    processes[0].ready_ns = 0;
    processes[0].text = "down: killed";
    answer_gpu_info(&pipeline, NOW_NS, &info);
    answer_gpu_stats(&pipeline, NOW_NS, &stats);
    cr_assert_str_eq(info.gpus[0].name, "Card");
    cr_assert_str_eq(info.gpus[0].why, "down: killed");
    cr_assert(stats.gpus[0].replica_bytes == 0 && stats.gpus[0].uptime_ns == 0);
    cr_assert_eq(stats.gpus[0].restarts, 4);
    free(s);
}

Test(answers_gpu, scribbled)
{
    begin(GPU_MAX + 4); /* more than there can be */
    for (uint32_t i = 0; i < process_count; i++)
        processes[i] =
            (struct gpu_process){.state = GPU_READY, .share = new_share(i % 2 ? 0xff : 7)};
    answer_gpu_info(&pipeline, NOW_NS, &info);
    answer_gpu_stats(&pipeline, NOW_NS, &stats);
    cr_assert(info.gpu_count == WIRE_GPUS_MAX && stats.gpu_count == WIRE_GPUS_MAX);
    cr_assert_eq(strlen(info.gpus[0].name), SHARE_TEXT);
    cr_assert_eq(info.gpus[0].name[0], '?');
    cr_assert_eq(info.gpus[1].name[0], '?', "bytes that are no UTF-8 do not travel");
    cr_assert_eq(stats.gpus[1].uploads, UINT64_MAX);
    for (uint32_t i = 0; i < process_count; i++)
        free(processes[i].share);
}

Test(answers_gpu, several)
{
    begin(3);
    processes[0] = (struct gpu_process){.state = GPU_BREAKER, .text = "breaker open: it crashes"};
    processes[1] = (struct gpu_process){.state = GPU_READY, .text = "Second"};
    processes[2] = (struct gpu_process){.state = GPU_READY, .text = "Third"};
    in_flight = 3;
    struct job jobs[3];
    memset(jobs, 0, sizeof jobs);
    for (int i = 0; i < 3; i++) {
        jobs[i].key.request_id = (uint64_t)i;
        jobs[i].state = JOB_RUNNING;
        jobs[i].backend = i ? BACKEND_GPU : BACKEND_CPU;
        jobs[i].gpu.device = i == 2 ? 77 : 1; /* 77: none of ours */
        HASH_ADD(hh, pipeline.in_flight, key, sizeof jobs[i].key, &jobs[i]);
    }
    answer_gpu_info(&pipeline, NOW_NS, &info);
    answer_gpu_stats(&pipeline, NOW_NS, &stats);
    cr_assert_str_eq(info.gpu, "2 of 3 GPUs ready: Second");
    cr_assert_eq(info.gpus[0].state, WIRE_GPU_BREAKER);
    cr_assert_eq(stats.gpus[1].jobs_in_flight, 1);
    cr_assert_eq(stats.gpus[2].jobs_in_flight, 0);
    HASH_CLEAR(hh, pipeline.in_flight);
}
