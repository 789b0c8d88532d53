#include "tests/support/gpu_pair.h"

#include <criterion/criterion.h>
#include <signal.h>

void gpu_pair_open_cpu(struct gpu_pair *p)
{
    gpu_scene_open(&p->cpu, NULL, (const char *[]){"gpu.devices=none", NULL});
}

void gpu_pair_open(struct gpu_pair *p, const char *sim)
{
    gpu_scene_open(&p->gpu, sim, (const char *[]){"gpu.heartbeat_ms=10000", NULL});
    gpu_pair_open_cpu(p);
    gpu_scene_await(&p->gpu, EA_GPU_READY);
}

void gpu_pair_close(struct gpu_pair *p)
{
    gpu_scene_close(&p->gpu);
    gpu_scene_close(&p->cpu);
}

void gpu_pair_close_unharmed(struct gpu_pair *p)
{
    cr_assert_eq(gpu_scene_stats(p->gpu.a).restarts, 0);
    gpu_pair_close(p);
}

ea_client *gpu_pair_of(struct gpu_pair *p, int i)
{
    return i ? p->cpu.a : p->gpu.a;
}

void gpu_pair_kill_meanwhile(struct gpu_pair *p, unsigned requests,
                             void (*send)(ea_client *c, const void *question), const void *question,
                             unsigned *right)
{
    for (int kills = 0; kills < 4; kills++) {
        *right = 0;
        gpu_scene_await(&p->gpu, EA_GPU_READY);
        for (unsigned i = 0; i < requests; i++)
            send(p->gpu.a, question);
        while (ea_pending(p->gpu.a)) {
            cr_assert_eq(ea_pump(p->gpu.a, -1), EA_OK);
            pid_t gpu = gpu_process_of(p->gpu.daemon.pid);
            if (*right >= 3 && *right < 6 && gpu) kill(gpu, SIGKILL);
        }
        cr_assert_eq(*right, requests);
    }
}
