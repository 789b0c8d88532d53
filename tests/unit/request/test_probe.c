/* The daemon's request to itself. */
#include "daemon/request/probe.h"

#include <criterion/criterion.h>

#include "daemon/base/fault.h"
#include "daemon/exec/workers.h"
#include "daemon/request/pipeline_inside.h"
#include "tests/support/request_rig.h"

#define S UINT64_C(1000000000)

static struct request_rig rig;
static struct readiness told;

static void probe_at(uint64_t now_ns)
{
    rig.now_ns = now_ns;
    pipeline_probe(rig.pipeline, &told);
}

static const char *word(void)
{
    const char *said = readiness_word(&told, rig.now_ns);
    return said ? said : "ready";
}

/* A worker runs it now. */
static void answer(void)
{
    cr_assert_eq(rig.taken_count, 1);
    cr_assert_eq(workers_run_now(rig.taken[0]), STATUS_OK);
    request_rig_end(&rig, rig.taken[0], rig.now_ns);
}

static void open_rig(void)
{
    request_rig_open(&rig, NULL);
    atomic_store(&told.phase, LIFE_SERVING);
}

TestSuite(probe, .init = open_rig);

Test(probe, workers_answer_right)
{
    rig.now_ns = 10 * S;
    atomic_store(&told.turned_ns, rig.now_ns);
    cr_assert_str_eq(word(), "probe");
    probe_at(10 * S);
    cr_assert_str_eq(word(), "workers");
    probe_at(10 * S + S / 2);
    answer();
    cr_assert_str_eq(word(), "ready");
    struct pipeline_counts counts = pipeline_count(rig.pipeline);
    cr_assert(counts.jobs + counts.trials == 0);
    cr_assert_eq(rig.pipeline->stats.requests_total, 0, "it is no client's");
    probe_at(10 * S + S - 1);
    cr_assert_eq(rig.taken_total, 1, "not yet");
    probe_at(11 * S);
    cr_assert_eq(rig.taken_total, 2);
    answer();
    cr_assert_str_eq(word(), "ready");
}

Test(probe, workers_do_not_answer)
{
    probe_at(10 * S);
    answer();
    probe_at(11 * S);
    for (uint64_t now_ns = 12 * S; now_ns <= 15 * S; now_ns += S) {
        probe_at(now_ns);
        cr_assert_eq(rig.taken_count, 1, "one at a time");
        cr_assert_str_eq(word(), "ready");
    }
    probe_at(15 * S + 1);
    cr_assert_str_eq(word(), "workers");
    answer();
    cr_assert_str_eq(word(), "ready");
}

Test(probe, a_wrong_answer_is_known)
{
    probe_at(10 * S);
    answer();
    probe_at(11 * S);
    cr_assert_eq(workers_run_now(rig.taken[0]), STATUS_OK);
    ((float *)rig.taken[0]->result.tensors[RESULT_SIMILARITY_SCORES].data)[1] += 1;
    request_rig_end(&rig, rig.taken[0], rig.now_ns);
    cr_assert_str_eq(word(), "probe");
    probe_at(12 * S);
    answer();
    cr_assert_str_eq(word(), "ready");
}

Test(probe, want_of_memory_shows_after_a_while)
{
    fault_arm(1); /* its space */
    probe_at(9 * S);
    fault_arm(0);
    cr_assert_eq(rig.taken_count, 0);
    probe_at(10 * S);
    answer();
    rig.cpu_refuses = true;
    for (uint64_t now_ns = 11 * S; now_ns <= 15 * S; now_ns += S) {
        probe_at(now_ns);
        cr_assert_str_eq(word(), "ready");
    }
    probe_at(16 * S);
    cr_assert_str_eq(word(), "probe");
    rig.cpu_refuses = false;
    probe_at(17 * S);
    answer();
    cr_assert_str_eq(word(), "ready");
    cr_assert_eq(pipeline_count(rig.pipeline).trials, 0);
}

Test(probe, a_daemon_that_stops_asks_no_more)
{
    probe_at(10 * S);
    answer();
    pipeline_drain(rig.pipeline);
    probe_at(12 * S);
    cr_assert_eq(rig.taken_count, 0);
}
