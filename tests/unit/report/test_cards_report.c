/* What info and stats say of cards as the test has them seen; the processes of some write nonsense
 * into the memory that they share. */
#include "daemon/report/cards_report.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "daemon/report/stats_report.h"

#define NOW_NS UINT64_C(5000)

static struct cards_seen seen;
static struct wire_info info;
static struct wire_stats stats;

static void begin(uint32_t count)
{
    memset(&seen, 0, sizeof seen);
    memset(&info, 0xff, sizeof info);
    memset(&stats, 0xff, sizeof stats);
    seen.backend = true;
    seen.count = count;
}

static struct card_seen card(enum gpu_state state, const char *text)
{
    struct card_seen c = {.state = state};
    strcpy(c.text, text);
    return c;
}

static void report(const struct job *in_flight)
{
    cards_report_info(&seen, NOW_NS, &info);
    cards_report_stats(&seen, in_flight, NOW_NS, &stats);
}

static struct share *new_share(int byte)
{
    struct share *s = aligned_alloc(_Alignof(struct share), sizeof *s);
    memset(s, byte, sizeof *s);
    return s;
}

Test(cards_report, without)
{
    cards_look(NULL, &seen);
    report(NULL);
    cr_assert(info.gpu_count == 0 && stats.gpu_count == 0);
    cr_assert_str_eq(info.gpu, "absent: this daemon runs without GPUs");
    begin(0);
    report(NULL);
    cr_assert_str_eq(info.gpu, "absent: gpu.devices is none");
}

Test(cards_report, absent_starting_ready)
{
    begin(1);
    seen.cards[0] = card(GPU_ABSENT, "absent: no driver");
    report(NULL);
    cr_assert_eq(info.gpu_count, 1);
    cr_assert_eq(info.gpus[0].state, WIRE_GPU_ABSENT);
    cr_assert_str_eq(info.gpus[0].why, "absent: no driver");
    cr_assert_str_eq(info.gpu, "absent: no driver");
    cr_assert_str_eq(info.gpus[0].name, "");

    struct share *s = new_share(0);
    strcpy(s->device.name, "Card");
    s->device.budget_bytes = 75;
    s->device.ecc = 2; /* any number but 0 */
    atomic_store(&s->usage.replica_bytes, 50);
    atomic_store(&s->usage.shrunk, 51);
    atomic_store(&s->usage.split, 52);
    seen.cards[0] = card(GPU_READY, "Card, and so on");
    seen.cards[0].share = s;
    seen.cards[0].ready_ns = NOW_NS - 1000;
    seen.cards[0].restarts = 4;
    seen.jobs = 9;
    report(NULL);
    cr_assert_str_eq(info.gpu, "Card, and so on");
    cr_assert_str_eq(info.gpus[0].name, "Card");
    cr_assert_str_eq(info.gpus[0].why, "");
    cr_assert(info.gpus[0].ecc && !info.gpus[0].managed);
    cr_assert(info.gpus[0].uptime_ns == 1000 && info.gpus[0].restarts == 4);
    cr_assert_eq(stats.gpus[0].replica_bytes, 50);
    cr_assert_eq(stats.gpus[0].budget_bytes, 75);
    cr_assert(stats.gpus[0].shrunk == 51 && stats.gpus[0].split == 52);
    cr_assert_eq(stats.gpus[0].jobs_in_flight, 9);

    seen.cards[0].state = GPU_DOWN; /* its VRAM is the system's again; what the card is stays */
    seen.cards[0].ready_ns = 0;
    strcpy(seen.cards[0].text, "down: killed");
    report(NULL);
    cr_assert_str_eq(info.gpus[0].name, "Card");
    cr_assert_str_eq(info.gpus[0].why, "down: killed");
    cr_assert(stats.gpus[0].replica_bytes == 0 && stats.gpus[0].uptime_ns == 0);
    cr_assert_eq(stats.gpus[0].restarts, 4);
    free(s);
}

Test(cards_report, scribbled)
{
    begin(WIRE_GPUS_MAX);
    struct share *shares[2] = {new_share(7), new_share(0xff)};
    for (uint32_t i = 0; i < seen.count; i++) {
        seen.cards[i] = card(GPU_READY, "");
        seen.cards[i].share = shares[i % 2];
    }
    report(NULL);
    cr_assert(info.gpu_count == WIRE_GPUS_MAX && stats.gpu_count == WIRE_GPUS_MAX);
    cr_assert_eq(strlen(info.gpus[0].name), SHARE_TEXT);
    cr_assert_eq(info.gpus[0].name[0], '?');
    cr_assert_eq(info.gpus[1].name[0], '?', "bytes that are no UTF-8 do not travel");
    cr_assert_eq(stats.gpus[1].uploads, UINT64_MAX);
    free(shares[0]);
    free(shares[1]);
}

Test(cards_report, several)
{
    begin(3);
    seen.cards[0] = card(GPU_BREAKER, "breaker open: it crashes");
    seen.cards[1] = card(GPU_READY, "Second");
    seen.cards[2] = card(GPU_READY, "Third");
    seen.jobs = 3;
    struct job jobs[3], *in_flight = NULL;
    memset(jobs, 0, sizeof jobs);
    for (int i = 0; i < 3; i++) {
        jobs[i].key.request_id = (uint64_t)i;
        jobs[i].state = JOB_RUNNING;
        jobs[i].backend = i ? BACKEND_GPU : BACKEND_CPU;
        jobs[i].gpu.device = i == 2 ? 77 : 1; /* 77: none of ours */
        HASH_ADD(hh, in_flight, key, sizeof jobs[i].key, &jobs[i]);
    }
    report(in_flight);
    cr_assert_str_eq(info.gpu, "2 of 3 GPUs ready: Second");
    cr_assert_eq(info.gpus[0].state, WIRE_GPU_BREAKER);
    cr_assert_eq(stats.gpus[1].jobs_in_flight, 1);
    cr_assert_eq(stats.gpus[2].jobs_in_flight, 0);
    HASH_CLEAR(hh, in_flight);
}

Test(stats_report, routes_that_were_taken)
{
    static struct stats counted;
    memset(&stats, 0xff, sizeof stats);
    stats_report_routes(&counted, &stats);
    cr_assert_eq(stats.route_count, 0);
    counted.routes[BACKEND_GPU][REASON_CHOSEN_FASTER] = 8;
    counted.routes[BACKEND_CPU][REASON_BELOW_MIN_BATCH] = 7;
    stats_report_routes(&counted, &stats);
    cr_assert_eq(stats.route_count, 2);
    cr_assert_eq(stats.routes[1].backend, BACKEND_GPU);
    cr_assert_eq(stats.routes[1].requests, 8);
}
