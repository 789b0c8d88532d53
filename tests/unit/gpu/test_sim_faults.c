/* What the simulated device does to those who misuse it, and the faults that it makes. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "tests/unit/gpu/sim_rig.h"

/* ---- misuse: a child that does it ends, and says why ---- */

static void past_the_end(struct rig *r)
{
    char *a = rig_allocate(r, 100), *host = rig_pinned(r, 200);
    device_sim.copy_in(r->d, a, host, 101, r->stream);
}

static void past_pinned(struct rig *r)
{
    char *a = rig_allocate(r, 200), *host = rig_pinned(r, 100);
    device_sim.copy_out(r->d, host + 50, a, 51, r->stream);
}

static void not_pinned(struct rig *r)
{
    char here[64];
    device_sim.copy_in(r->d, rig_allocate(r, 64), here, 64, r->stream);
}

static void not_on_the_device(struct rig *r)
{
    char *host = rig_pinned(r, 64);
    device_sim.copy_in(r->d, host, host, 64, r->stream);
}

static void released_before_it_was_done(struct rig *r)
{
    char *a = rig_allocate(r, 64), *host = rig_pinned(r, 64);
    device_sim.copy_in(r->d, a, host, 64, r->stream);
    device_sim.release(r->d, a);
    rig_wait(r);
}

static void unpinned_before_it_was_done(struct rig *r)
{
    char *a = rig_allocate(r, 64), *host = rig_pinned(r, 64);
    device_sim.copy_out(r->d, host, a, 64, r->stream);
    device_sim.host_release(r->d, host);
    rig_wait(r);
}

static void moved_before_it_was_done(struct rig *r)
{
    struct device_range range = {0};
    device_sim.range_reserve(r->d, MIB, &range);
    device_sim.range_resize(r->d, &range, 65536);
    device_sim.clear(r->d, range.base, 65536, r->stream);
    device_sim.range_resize(r->d, &range, 2 * 65536);
    rig_wait(r);
}

static void released_twice(struct rig *r)
{
    char *a = rig_allocate(r, 64);
    device_sim.release(r->d, a);
    device_sim.release(r->d, a);
}

static void rows_not_aligned(struct rig *r)
{
    float *rows = rig_allocate(r, 4096);
    struct cuda_rows odd = {8, rows + 1, NULL, 1};
    device_sim.launch(r->d, CALL(.kernel = KERNEL_NORMS, .rows = odd, .norms.out = rows),
                      r->stream);
}

static void norms_missing(struct rig *r)
{
    float *rows = rig_allocate(r, 4096);
    struct cuda_rows bare = {8, rows, NULL, 1};
    struct cuda_queries query = {rows, rows, 1};
    device_sim.launch(r->d,
                      CALL(.kernel = KERNEL_SCAN, .metric = METRIC_COSINE, .queries = query,
                           .rows = bare, .scores.out = rows),
                      r->stream);
}

static void scratch_too_small(struct rig *r)
{
    char *a = rig_allocate(r, 65536);
    struct cuda_rows rows = {8, (float *)a, NULL, 10};
    struct cuda_queries query = {(float *)a, NULL, 1};
    struct cuda_topk t = {.k = 3,
                          .scratch = a + 8192,
                          .scratch_bytes = device_sim.topk_scratch_min(1, 3, 10) - 1,
                          .out_ids = (uint64_t *)(a + 4096),
                          .out_scores = (float *)(a + 4096),
                          .out_counts = (uint32_t *)(a + 4096)};
    device_sim.launch(r->d,
                      CALL(.kernel = KERNEL_TOPK, .metric = METRIC_DOT, .queries = query,
                           .rows = rows, .topk = t),
                      r->stream);
}

static void no_such_row(struct rig *r)
{
    char *a = rig_allocate(r, 65536);
    uint32_t position = 10;
    struct cuda_rows rows = {8, (float *)a, NULL, 10};
    void *where = rig_upload(r, &position, 4), *how = rig_upload(r, &position, 4);
    device_sim.launch(r->d,
                      CALL(.kernel = KERNEL_AVERAGE, .rows = rows,
                           .average = {where, how, 1, 1.0f, (float *)(a + 8192)}),
                      r->stream);
    rig_wait(r);
}

static void lists_past_the_end(struct rig *r)
{
    char *a = rig_allocate(r, 65536);
    uint32_t position = 0;
    uint64_t offsets[2] = {0, 2};
    struct cuda_rows rows = {8, (float *)a, NULL, 10};
    struct cuda_queries query = {(float *)a, NULL, 1};
    void *where = rig_upload(r, &position, 4), *ends = rig_upload(r, offsets, sizeof offsets);
    device_sim.launch(r->d,
                      CALL(.kernel = KERNEL_GATHER_LISTS, .metric = METRIC_DOT, .queries = query,
                           .rows = rows, .lists = {where, ends, 1, (float *)(a + 8192)}),
                      r->stream);
    rig_wait(r);
}

/* Over two nodes: one edge from the first, perhaps to `target`. */
static struct cuda_spread spread_over(struct rig *r, struct spread_list list, uint32_t target)
{
    struct spread_list out[2] = {list}, in[2] = {{0}, {.count = 1, .room = 2}};
    struct spread_edge there[2] = {{target, 1.0f}}, back[2] = {{0, 1.0f}};
    uint64_t ids[2] = {7, 8}, offsets[2] = {0, 1};
    uint32_t order[2] = {0, 1};
    struct spread_seed seed = {0, 1.0f};
    float decay[2] = {1.0f, 1.0f};
    struct cuda_spread s = {.graph = {.nodes = 2,
                                      .edges = 1,
                                      .out = rig_upload(r, out, sizeof out),
                                      .in = rig_upload(r, in, sizeof in),
                                      .out_edges = rig_upload(r, there, sizeof there),
                                      .in_edges = rig_upload(r, back, sizeof back),
                                      .ids = rig_upload(r, ids, sizeof ids),
                                      .order = rig_upload(r, order, sizeof order),
                                      .grid = spread_grid_of(0, 0, 1)},
                            .question = {.mode = SPREAD_LINEAR,
                                         .hops = 1,
                                         .decay = rig_upload(r, decay, sizeof decay),
                                         .touched_max = 2,
                                         .seeds = rig_upload(r, &seed, sizeof seed),
                                         .seed_count = 1},
                            .set_offsets = rig_upload(r, offsets, sizeof offsets),
                            .set_count = 1,
                            .record_room = 2,
                            .out_records = rig_allocate(r, 2 * sizeof(struct spread_record)),
                            .out_sets = rig_allocate(r, sizeof(struct cuda_spread_set)),
                            .scratch_bytes = device_sim.spread_scratch_min(SPREAD_LINEAR, 2, 1, 1)};
    s.scratch = rig_allocate(r, s.scratch_bytes);
    return s;
}

static void spread_in_too_little(struct rig *r)
{
    struct cuda_spread s = spread_over(r, (struct spread_list){.count = 1}, 1);
    s.scratch_bytes--;
    device_sim.launch(r->d, CALL(.kernel = KERNEL_SPREAD, .spread = s), r->stream);
}

static void spread_without_room(struct rig *r)
{
    struct cuda_spread s = spread_over(r, (struct spread_list){.count = 1}, 1);
    s.record_room = 1;
    device_sim.launch(r->d, CALL(.kernel = KERNEL_SPREAD, .spread = s), r->stream);
}

static void spread_to_nobody(struct rig *r)
{
    struct cuda_spread s = spread_over(r, (struct spread_list){.count = 1}, 2);
    device_sim.launch(r->d, CALL(.kernel = KERNEL_SPREAD, .spread = s), r->stream);
    rig_wait(r);
}

static void spread_past_the_edges(struct rig *r)
{
    struct cuda_spread s = spread_over(r, (struct spread_list){.first = 1 << 20, .count = 1}, 1);
    device_sim.launch(r->d, CALL(.kernel = KERNEL_SPREAD, .spread = s), r->stream);
    rig_wait(r);
}

static void not_a_stream(struct rig *r)
{
    uint64_t nothing[8] = {0};
    device_sim.event_record(r->d, r->event, (device_stream)nothing);
}

static void *ask_memory(void *device)
{
    uint64_t now, total;
    device_sim.memory(device, &now, &total);
    return NULL;
}

static void from_another_thread(struct rig *r)
{
    pthread_t thread;
    pthread_create(&thread, NULL, ask_memory, r->d);
    pthread_join(thread, NULL);
}

static void left_behind(struct rig *r)
{
    device_sim.close(r->d);
}

static const struct misuse {
    void (*does)(struct rig *r);
    const char *text;
} misuses[] = {
    {past_the_end, "copy_in: 101 bytes at "},
    {past_pinned, "copy_out: 51 bytes at "},
    {not_pinned, "is not pinned memory"},
    {not_on_the_device, "is not device memory"},
    {released_before_it_was_done, "is device memory that is not, or no longer, allocated"},
    {unpinned_before_it_was_done, "copy_out: "},
    {moved_before_it_was_done, "clear: "},
    {released_twice, "release: "},
    {rows_not_aligned, "not aligned to 64 bytes"},
    {norms_missing, "scan: "},
    {scratch_too_small, "bytes of scratch"},
    {no_such_row, "average: position 10 of 10 rows"},
    {lists_past_the_end, "gather_lists: list 0 is positions 0 to 2 of 1"},
    {spread_in_too_little, "spread: "},
    {spread_without_room, "spread: room for 1 records"},
    {spread_to_nobody, "spread: an edge to node 2 of 2"},
    {spread_past_the_edges, "spread: 8388616 bytes at "},
    {not_a_stream, "event_record: "},
    {from_another_thread, "memory: called by another thread"},
    {left_behind, "close: a stream has not been given back"},
};

/* Runs it in a child; its wait status, and what it printed. */
static int in_child(void (*does)(struct rig *r), const char *settings, char *text, size_t size)
{
    int ends[2], status;
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) {
        struct rig r;
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        signal(SIGABRT, SIG_DFL);
        rig_open(&r, settings);
        does(&r);
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t n; length < size - 1 && (n = read(ends[0], text + length, size - 1 - length)) > 0;)
        length += (size_t)n;
    text[length] = '\0';
    close(ends[0]);
    cr_assert_eq(waitpid(child, &status, 0), child);
    return status;
}

Test(sim_faults, misuse_ends_the_process_with_a_reason)
{
    for (size_t i = 0; i < sizeof misuses / sizeof *misuses; i++) {
        char text[4000];
        int status =
            in_child(misuses[i].does, "vmm=0 vram_mib=8 strict=1 latency_us=0", text, sizeof text);
        cr_assert_not_null(strstr(text, misuses[i].text), "%d: '%s'", (int)i, text);
        cr_assert_eq(strncmp(text, "device_sim: ", 12), 0);
        cr_assert_neq(status, 0);
    }
}

/* ---- faults ---- */

static enum device_result fails_at(const char *settings, uint64_t calls)
{
    struct device *d = NULL;
    char why[SHARE_WHY] = "";
    enum device_result result = rig_try(settings, &d, why);
    cr_assert(result == DEVICE_OK || why[0]);
    for (uint64_t call = 2; !result && call <= calls; call++) {
        uint64_t now, total;
        result = device_sim.memory(d, &now, &total);
        if (result) cr_assert_eq(strncmp(device_sim.last_error(d), "memory: ", 8), 0);
    }
    device_sim.close(d);
    return result;
}

Test(sim_faults, come_at_their_call)
{
    cr_assert_eq(fails_at("fail=5:error", 4), DEVICE_OK);
    cr_assert_eq(fails_at("fail=5:error", 5), DEVICE_ERROR);
    cr_assert_eq(fails_at("fail=5:memory", 5), DEVICE_ERROR, "memory cannot say NO_MEMORY");
    cr_assert_eq(fails_at("fail=5:absent", 5), DEVICE_ERROR, "open alone can");
    cr_assert_eq(fails_at("fail=5:sticky", 5), DEVICE_STICKY);
    cr_assert_eq(fails_at("fail=1:absent", 1), DEVICE_ABSENT);
    cr_assert_eq(fails_at("fail=1:memory", 1), DEVICE_NO_MEMORY);
    cr_assert_eq(fails_at("fail=1:error", 1), DEVICE_ERROR);
    cr_assert_eq(fails_at("fail=1:sticky", 1), DEVICE_STICKY);
}

Test(sim_faults, come_at_calls_of_a_name)
{
    cr_assert_eq(fails_at("fail=3:error@memory", 3), DEVICE_OK);
    cr_assert_eq(fails_at("fail=3:error@memory", 4), DEVICE_ERROR, "open is another");
    cr_assert_eq(fails_at("fail=1:error@topk", 9), DEVICE_OK);
    cr_assert_eq(fails_at("fail=1:absent@open", 1), DEVICE_ABSENT);
    cr_assert_eq(fails_at("fail=2+:sticky@memory", 3), DEVICE_STICKY);
}

Test(sim_faults, pass_or_stay)
{
    struct device *d = NULL;
    uint64_t now, total;
    void *a = NULL;
    char why[SHARE_WHY];
    cr_assert_eq(rig_try("fail=3:memory", &d, why), DEVICE_OK);
    cr_assert_eq(device_sim.memory(d, &now, &total), DEVICE_OK);
    cr_assert_eq(device_sim.allocate(d, 64, &a), DEVICE_NO_MEMORY);
    cr_assert_null(a, "a failed call has done nothing");
    cr_assert_eq(device_sim.allocate(d, 64, &a), DEVICE_OK);
    device_sim.close(d);
    cr_assert_eq(rig_try("fail=3:sticky", &d, why), DEVICE_OK);
    cr_assert_eq(device_sim.memory(d, &now, &total), DEVICE_OK);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(device_sim.allocate(d, 64, &a), DEVICE_STICKY);
    device_sim.close(d);
    cr_assert_eq(rig_try("fail=3+:error", &d, why), DEVICE_OK);
    cr_assert_eq(device_sim.memory(d, &now, &total), DEVICE_OK);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(device_sim.memory(d, &now, &total), DEVICE_ERROR);
    device_sim.close(d);
}

/* A sticky device answers a query at once: nobody waits for work that will not end. */
Test(sim_faults, sticky_is_told_by_events)
{
    struct rig r;
    uint64_t now, total;
    rig_open(&r, "latency_us=10000000 fail=5:sticky");
    cr_assert_eq(device_sim.event_record(r.d, r.event, r.stream), DEVICE_OK);
    cr_assert_eq(device_sim.event_query(r.d, r.event), DEVICE_BUSY);
    cr_assert_eq(device_sim.memory(r.d, &now, &total), DEVICE_STICKY);
    cr_assert_eq(device_sim.event_query(r.d, r.event), DEVICE_STICKY);
    device_sim.close(r.d);
}

static void two_calls(struct rig *r)
{
    uint64_t now, total;
    device_sim.memory(r->d, &now, &total);
    device_sim.memory(r->d, &now, &total);
}

static void hangs(struct rig *r)
{
    alarm(1);
    two_calls(r);
}

Test(sim_faults, slow_hang_crash)
{
    char text[1000];
    uint64_t before_ns = clock_now_ns();
    cr_assert_eq(in_child(two_calls, "fail=4:slow", text, sizeof text), 0);
    uint64_t took_ns = clock_now_ns() - before_ns;
    cr_assert(took_ns >= 300000000); /* a busy machine makes it longer, never shorter */
    int status = in_child(two_calls, "fail=5:crash", text, sizeof text);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    status = in_child(hangs, "fail=4:hang", text, sizeof text);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
    cr_assert_eq(in_child(two_calls, "fail=6:hang", text, sizeof text), 0, "it is never called");
}

/* ---- a script in which every call fails in turn ---- */

struct script {
    struct device *d;
    void *a, *host;
    device_stream stream;
    device_event event;
    struct device_range range;
};

static enum device_result script_work(struct script *s)
{
    const struct device_ops *o = &device_sim;
    enum device_result result;
    uint64_t now, total;
    if ((result = o->memory(s->d, &now, &total)) || (result = o->allocate(s->d, MIB, &s->a)) ||
        (result = o->host_allocate(s->d, 4096, &s->host)) ||
        (result = o->range_reserve(s->d, MIB, &s->range)) ||
        (result = o->range_resize(s->d, &s->range, 4096)) ||
        (result = o->stream_create(s->d, &s->stream)) ||
        (result = o->event_create(s->d, &s->event)) ||
        (result = o->clear(s->d, s->a, 4096, s->stream)) ||
        (result = o->copy_out(s->d, s->host, s->a, 4096, s->stream)) ||
        (result = o->event_record(s->d, s->event, s->stream)))
        return result;
    while ((result = o->event_query(s->d, s->event)) == DEVICE_BUSY)
        continue;
    return result;
}

static enum device_result script_run(const char *settings)
{
    const struct device_ops *o = &device_sim;
    struct script s = {0};
    char why[SHARE_WHY] = "";
    enum device_result result = rig_try(settings, &s.d, why);
    if (result) return result;
    result = script_work(&s);
    o->event_destroy(s.d, s.event);
    o->stream_destroy(s.d, s.stream);
    o->range_release(s.d, &s.range);
    o->host_release(s.d, s.host);
    o->release(s.d, s.a);
    o->close(s.d); /* strict: aborts if anything is left */
    return result;
}

static uint64_t counted(const char *path)
{
    uint64_t calls = 0;
    FILE *f = fopen(path, "rb");
    cr_assert(f && fread(&calls, sizeof calls, 1, f) == 1);
    fclose(f);
    return calls;
}

Test(sim_faults, every_call_can_fail)
{
    enum { CALLS = 12 };
    static const enum device_result expected[] = {DEVICE_NO_MEMORY, DEVICE_ERROR, DEVICE_STICKY};
    static const char *const kinds[] = {"memory", "error", "sticky"};
    for (int kind = 0; kind < 3; kind++) {
        for (unsigned nth = 1;; nth++) {
            char settings[100];
            snprintf(settings, sizeof settings, "latency_us=200 strict=1 fail=%u:%s", nth,
                     kinds[kind]);
            enum device_result result = script_run(settings);
            cr_assert_eq(result == DEVICE_OK, nth > CALLS, "%s", settings);
            if (!result) break;
            bool is_memory = kind > 0 || (nth != 2 && nth < 11);
            cr_assert_eq(result, is_memory ? expected[kind] : DEVICE_ERROR, "%s", settings);
        }
    }
}

/* The file says how many calls a script makes, and goes on counting in the next process. */
Test(sim_faults, are_counted_in_a_file)
{
    char path[] = "/tmp/sim_count_XXXXXX", settings[200];
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    close(fd);
    snprintf(settings, sizeof settings, "latency_us=3000 strict=1 count=%s fail=20:error", path);
    cr_assert_eq(script_run(settings), DEVICE_OK);
    cr_assert_eq(counted(path), 12, "however often it asked too early");
    cr_assert_eq(script_run(settings), DEVICE_ERROR);
    cr_assert_eq(counted(path), 20);
    cr_assert_eq(script_run(settings), DEVICE_OK);
    cr_assert_eq(counted(path), 32);
    unlink(path);
}
