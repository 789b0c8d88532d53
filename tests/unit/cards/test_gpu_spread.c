/* Spreads on the GPU's road: what a process answers, be it right or not. */
#include "daemon/cards/cards_inside.h"
#include "kernels/spread.h"
#include "tests/support/sweep.h"
#include "tests/unit/cards/gpu_graph_house.h"

/* ---- a spread ---- */

static struct job *make_spread(struct house *h, enum spread_mode mode, uint64_t sets)
{
    struct job *j = graph_job(h, OPERATION_SPREAD);
    uint64_t *seeds = h->ids, *offsets = h->ids + 1000;
    for (uint64_t i = 0; i < sets * 2; i++)
        seeds[i] = 10 + i * 97 % NODES;
    for (uint64_t i = 0; i <= sets; i++)
        offsets[i] = i * 2;
    j->request.ids = (struct tensor){DTYPE_UINT64, sets * 2, 1, seeds};
    j->request.offsets = (struct tensor){DTYPE_UINT64, sets + 1, 1, offsets};
    j->request.spread = (struct job_spread){.mode = mode,
                                            .decay = DECAY_CONSTANT,
                                            .hops = 3,
                                            .thresholds = {0.01f, 0.01f, 0.01f},
                                            .paths = true};
    return j;
}

static void *mutable_at(const struct house *h, uint64_t place)
{
    return (void *)at(h, place);
}

struct taken {
    void *pieces[32];
    uint32_t count;
};

static void *take(void *owner, uint64_t bytes)
{
    struct taken *t = owner;
    return t->pieces[t->count++] = aligned_alloc(64, (bytes + 63) / 64 * 64);
}

/* What a process would do. */
static void spread_set(struct house *h, const struct order_spread *s, uint32_t set)
{
    struct spread_graph g = graph_view(graph_now(graph));
    const uint64_t *offsets = at(h, s->set_offsets);
    struct taken taken = {.count = 0};
    struct spread_question q = {.mode = (enum spread_mode)s->mode,
                                .hops = s->hops,
                                .paths = s->flags & ORDER_SPREAD_PATHS,
                                .decay = at(h, s->decay),
                                .touched_max = s->touched_max,
                                .seeds = (const struct spread_seed *)at(h, s->seeds) + offsets[set],
                                .seed_count = offsets[set + 1] - offsets[set]};
    memcpy(q.thresholds, s->thresholds, sizeof q.thresholds);
    struct spread_run r = {.graph = &g,
                           .question = &q,
                           .kernels = &spread_scalar,
                           .memory = {take, &taken},
                           .alone = true};
    cr_assert_eq(graph_take_workspace(graph_now(graph), &r.workspace), STATUS_OK);
    spread_run_begin(&r);
    spread_run_through(&r);
    struct order_spread_set *out = (struct order_spread_set *)mutable_at(h, s->out_sets) + set;
    *out = (struct order_spread_set){.first_record = set * (s->record_room / s->set_count),
                                     .record_count = r.record_count,
                                     .cycles = r.cycles,
                                     .hops_done = r.hops_done,
                                     .truncated = r.truncated};
    memcpy((struct spread_record *)mutable_at(h, s->out_records) + out->first_record, r.records,
           r.record_count * sizeof *r.records);
    spread_run_end(&r);
    graph_give_workspace(graph_now(graph), &r.workspace);
    for (uint32_t i = 0; i < taken.count; i++)
        free(taken.pieces[i]);
}

static struct order expect_spread(struct house *h, const struct job *j)
{
    struct spread_graph g = graph_view(graph_now(graph));
    struct order o = next_order(processes[0]);
    const struct order_spread *s = &o.spread;
    cr_assert_eq(o.kind, ORDER_SPREAD, "%u", o.kind);
    cr_assert(o.space == h->space->number && o.version == resident_version(it()));
    cr_assert(s->nodes == g.nodes && s->edges == g.edges);
    cr_assert_eq(s->record_room, (uint64_t)g.nodes * s->set_count);
    cr_assert(s->grid_high == g.grid.high && s->grid_low == g.grid.low);
    cr_assert_eq(s->set_count, j->request.offsets.rows - 1);
    return o;
}

/* The CPU's answer to the same. */
static void run_on_cpu(struct house *h, struct job *j)
{
    j->backend = BACKEND_CPU;
    cr_assert_eq(h->cpu->ops->submit(h->cpu, j), STATUS_OK);
    for (int i = 0; i < 3000000; i++) {
        struct job *back = done_take(&h->done);
        if (back) {
            cr_assert_eq(back, j);
            return;
        }
        usleep(100);
    }
    cr_assert_fail("the CPU never answered");
}

static void expect_equal(const struct job *a, const struct job *b)
{
    cr_assert(a->result.body_bytes && a->result.body_bytes == b->result.body_bytes);
    cr_assert_eq(memcmp(a->result.block.data, b->result.block.data, a->result.body_bytes), 0);
    cr_assert_eq(a->result.version, b->result.version);
}

/* So many sets, of which a GPU process answers those that found room, and the CPU the others: as if
 * the CPU had answered all. */
static void expect_the_cpus(struct house *h, enum spread_mode mode, uint32_t sets,
                            bool (*has_room)(uint32_t set, int turn), int turn)
{
    struct job *cpu = make_spread(h, mode, sets), *j = make_spread(h, mode, sets);
    run_on_cpu(h, cpu);
    submit(h, j);
    struct order o = expect_spread(h, j);
    cr_assert_eq(o.spread.set_count, sets);
    for (uint32_t set = 0; set < sets; set++) {
        spread_set(h, &o.spread, set);
        if (has_room(set, turn)) continue;
        struct order_spread_set *out = mutable_at(h, o.spread.out_sets);
        out[set] = (struct order_spread_set){.no_room = 1, .cycles = 99};
    }
    answer(processes[0], &o, RESULT_OK, 0);
    expect_back(h, j);
    cr_assert(!cards_gave_up(j) && !j->failure.code);
    expect_equal(j, cpu);
    drop_job(j), drop_job(cpu);
}

static bool all_have_room(uint32_t set, int turn)
{
    (void)set, (void)turn;
    return true;
}

/* In turns 0 to 3 a fifth has none, then nobody. */
static bool most_have_room(uint32_t set, int turn)
{
    return turn < 4 && set % 5 != (uint32_t)turn;
}

Test(gpu_spread, the_reply_is_the_cpus)
{
    struct house h;
    open_with_graph(&h);
    upload_graph(&h, RESULT_OK);
    for (int i = 0; i < 6; i++)
        expect_the_cpus(&h, i % 2 ? SPREAD_ENGRAM : SPREAD_LINEAR, (uint32_t)(1 + i * 7),
                        all_have_room, i);
    close_house(&h);
}

Test(gpu_spread, sets_without_room_are_the_cpus)
{
    enum { SETS = 21 };
    struct house h;
    open_with_graph(&h);
    upload_graph(&h, RESULT_OK);
    for (int i = 0; i < 6; i++)
        expect_the_cpus(&h, i % 2 ? SPREAD_ENGRAM : SPREAD_LINEAR, SETS, most_have_room, i);
    close_house(&h);
}

/* What changed goes before it, in the same job. */
Test(gpu_spread, a_spread_brings_changes_on_its_way)
{
    struct house h;
    open_with_graph(&h);
    uint64_t replica = upload_graph(&h, RESULT_OK).replica, orders = 0;
    add_edges(77, 1);
    struct job *j = make_spread(&h, SPREAD_LINEAR, 1);
    submit(&h, j);
    struct order o;
    for (; (o = next_order(processes[0])).kind == ORDER_UPLOAD_PART; orders++) {
        check_part(&h, &o);
        cr_assert(!o.part.fresh && o.replica == replica);
        answer(processes[0], &o, RESULT_OK, 1);
    }
    cr_assert(orders > 0);
    cr_assert(o.kind == ORDER_SPREAD && o.version == resident_version(it()));
    spread_set(&h, &o.spread, 0);
    answer(processes[0], &o, RESULT_OK, 0);
    expect_back(&h, j);
    cr_assert(!cards_gave_up(j));
    drop_job(j);
    close_house(&h);
}

/* Leaves room for so many orders. */
static void fill_ring(struct house *h, uint32_t room)
{
    struct card *card = &((struct cards *)h->gpu)->cards[0];
    const struct order o = {.kind = ORDER_FORGET, .space = 1, .replica = UINT64_MAX};
    while (card_room(card) > room)
        card_order(card, &o, NULL, NULL, 0);
}

/* Changes in more places than the ring has room for: told all the same, as a whole, unless the ring
 * is merely busy. */
Test(gpu_spread, scattered_changes_are_told_at_once)
{
    enum { WIDE = 500000, PAGE_NODES = GRAPH_PAGE_BYTES / sizeof(struct spread_list) };
    struct house h;
    open_with_graph(&h);
    add_edges(NODES, WIDE);
    upload_graph(&h, RESULT_OK);
    for (uint64_t at = 0; at < WIDE; at += 2 * PAGE_NODES)
        add_edges(at, 1);
    uint64_t runs = graph_dirty_runs(graph), whole = resident_bytes(it());
    cr_assert(runs > 65 && resident_dirty_bytes(it()) < whole, "%llu", (unsigned long long)runs);
    for (uint32_t room = 30; room <= 66; room += 36) {
        fill_ring(&h, room);
        struct job *j = make_spread(&h, SPREAD_LINEAR, 1);
        j->reason = REASON_FORCED;
        uint64_t told = 0;
        bool taken = h.gpu->ops->submit(h.gpu, j) == STATUS_OK;
        cr_assert_eq(taken, room > 64);
        cr_assert(taken || j->gpu.gave_up == REASON_QUEUE_FULL);
        for (struct order o; (o = next_order(processes[0])).kind;) {
            if (o.kind == ORDER_UPLOAD_PART) check_part(&h, &o);
            told += o.kind == ORDER_UPLOAD_PART ? o.part.count : 0;
            answer(processes[0], &o, o.kind == ORDER_SPREAD ? RESULT_ERROR : RESULT_OK, 1);
        }
        cr_assert_eq(told, taken ? whole : 0);
        if (taken) expect_back(&h, j);
        cards_poll(h.gpu);
        drop_job(j);
    }
    cr_assert_eq(resident_dirty_bytes(it()), 0);
    close_house(&h);
}

static void spoil_count(struct house *h, const struct order_spread *s)
{
    ((struct order_spread_set *)mutable_at(h, s->out_sets))->record_count = s->record_room + 1;
}

static void spoil_first(struct house *h, const struct order_spread *s)
{
    ((struct order_spread_set *)mutable_at(h, s->out_sets))->first_record = s->record_room;
}

static void spoil_first_far(struct house *h, const struct order_spread *s)
{
    struct order_spread_set *set = mutable_at(h, s->out_sets);
    set->first_record = UINT64_MAX - set->record_count + 1;
}

static void spoil_node(struct house *h, const struct order_spread *s)
{
    ((struct spread_record *)mutable_at(h, s->out_records))->node = s->nodes;
}

static void spoil_parent(struct house *h, const struct order_spread *s)
{
    ((struct spread_record *)mutable_at(h, s->out_records))->parent = UINT32_MAX - 1;
}

/* There is room for them, and each by itself is sound. */
static void spoil_many(struct house *h, const struct order_spread *s)
{
    struct order_spread_set *set = mutable_at(h, s->out_sets);
    *set = (struct order_spread_set){.record_count = s->nodes + 1};
    memset(mutable_at(h, s->out_records), 0, set->record_count * sizeof(struct spread_record));
}

/* Mad numbers never lead anywhere: the CPU answers. */
Test(gpu_spread, believes_no_number)
{
    static void (*const spoils[])(struct house * h, const struct order_spread *s) = {
        spoil_count, spoil_first, spoil_first_far, spoil_node, spoil_parent, spoil_many};
    struct house h;
    open_with_graph(&h);
    upload_graph(&h, RESULT_OK);
    for (size_t i = 0; i < sizeof spoils / sizeof *spoils; i++) {
        struct job *j = make_spread(&h, SPREAD_LINEAR, 3);
        submit(&h, j);
        struct order o = expect_spread(&h, j);
        for (uint32_t set = 0; set < 3; set++)
            spread_set(&h, &o.spread, set);
        spoils[i](&h, &o.spread);
        answer(processes[0], &o, RESULT_OK, 0);
        expect_gave_up(&h, j, REASON_FALLBACK_AFTER_ERROR);
    }
    close_house(&h);
}

/* Of sets that all claim the same records, those that fill the room are believed, no more. */
Test(gpu_spread, believes_no_record_twice)
{
    enum { SETS = 450 };
    struct house h;
    open_with_graph(&h);
    upload_graph(&h, RESULT_OK);
    for (uint64_t least = 0; least < 2; least++) {
        struct job *j = make_spread(&h, SPREAD_LINEAR, SETS);
        j->request.k = 1;
        j->request.spread.paths = !sweep_is_quick();
        submit(&h, j);
        struct order o = next_order(processes[0]);
        cr_assert_lt(o.spread.record_room, (uint64_t)NODES * SETS);
        uint64_t each = o.spread.record_room / SETS + least;
        memset(mutable_at(&h, o.spread.out_records), 0, each * sizeof(struct spread_record));
        struct order_spread_set *sets = mutable_at(&h, o.spread.out_sets);
        for (uint32_t set = 0; set < SETS; set++)
            sets[set] = (struct order_spread_set){.record_count = each};
        answer(processes[0], &o, RESULT_OK, 0);
        if (least) {
            expect_gave_up(&h, j, REASON_FALLBACK_AFTER_ERROR);
        } else {
            expect_back(&h, j);
            drop_job(j);
        }
    }
    close_house(&h);
}

Test(gpu_spread, gives_up_and_lets_go)
{
    static const struct {
        enum order_result result;
        enum reason why;
    } ends[] = {{RESULT_NO_MEMORY, REASON_VRAM_PRESSURE},
                {RESULT_ERROR, REASON_FALLBACK_AFTER_ERROR},
                {RESULT_REFUSED, REASON_FALLBACK_AFTER_ERROR},
                {RESULT_BAD_QUERY, REASON_FALLBACK_AFTER_ERROR},
                {RESULT_NO_REPLICA, REASON_FALLBACK_AFTER_ERROR}};
    struct house h;
    open_with_graph(&h);
    upload_graph(&h, RESULT_OK);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct job *j = make_spread(&h, SPREAD_ENGRAM, 3);
        submit(&h, j);
        struct order o = expect_spread(&h, j);
        answer(processes[0], &o, ends[i].result, 0);
        expect_gave_up(&h, j, ends[i].why);
    }
    cr_assert_not(replica_is_ready(h.gpu, it()), "it was gone");
    for (int i = 0; i < 30000 && !replica_wants_upload(h.gpu, it()); i++)
        usleep(10000);
    while (next_order(processes[0]).kind) /* FORGET */
        continue;
    upload_graph(&h, RESULT_OK);
    struct job *j = make_spread(&h, SPREAD_LINEAR, 2);
    submit(&h, j);
    struct order o = expect_spread(&h, j);
    atomic_store(&j->cancelled, true);
    for (uint32_t set = 0; set < 2; set++)
        spread_set(&h, &o.spread, set);
    answer(processes[0], &o, RESULT_OK, 0);
    expect_back(&h, j);
    cr_assert(atomic_load(&j->skipped) && !j->result.block.data && !j->plan.scratch.data);
    drop_job(j);
    close_house(&h);
}

/* Unknown seeds, and what asks too much: the CPU says why. */
Test(gpu_spread, what_is_odd_is_the_cpus)
{
    struct house h;
    open_with_graph(&h);
    upload_graph(&h, RESULT_OK);
    struct job *j = make_spread(&h, SPREAD_LINEAR, 1);
    h.ids[1] = 5;
    cr_assert_eq(h.gpu->ops->submit(h.gpu, j), STATUS_UNAVAILABLE);
    cr_assert(j->gpu.gave_up == REASON_CHOSEN_FASTER && !j->failure.code);
    cr_assert_null(j->plan.scratch.data);
    drop_job(j);
    atomic_store(&processes[0]->share->usage.slab_bytes, NODES * sizeof(struct spread_record));
    j = make_spread(&h, SPREAD_LINEAR, 1);
    cr_assert_eq(h.gpu->ops->submit(h.gpu, j), STATUS_UNAVAILABLE);
    cr_assert_eq(j->gpu.gave_up, REASON_VRAM_PRESSURE, "records for all nodes, and more");
    drop_job(j);
    j = make_spread(&h, SPREAD_LINEAR, 1);
    j->request.spread.touched_max = 100;
    submit(&h, j);
    struct order o = next_order(processes[0]);
    cr_assert(o.kind == ORDER_SPREAD && o.spread.record_room == 100);
    answer(processes[0], &o, RESULT_ERROR, 0);
    expect_gave_up(&h, j, REASON_FALLBACK_AFTER_ERROR);
    close_house(&h);
}

/* ---- every failure ---- */

/* One spread, whatever comes; whether the GPU's records became its answer. room: for all of its
 * sets. */
static bool spread_once(struct house *h, const struct job *right, bool room)
{
    struct job *j = make_spread(h, SPREAD_LINEAR, 3);
    bool taken = h->gpu->ops->submit(h->gpu, j) == STATUS_OK, answered = false;
    for (struct order o; taken && (o = next_order(processes[0])).kind;) {
        for (uint32_t set = 0; o.kind == ORDER_SPREAD && set < 3; set++)
            spread_set(h, &o.spread, set);
        if (o.kind == ORDER_SPREAD && !room)
            ((struct order_spread_set *)mutable_at(h, o.spread.out_sets))[1].no_room = 1;
        answer(processes[0], &o, RESULT_OK, 1);
    }
    if (taken) expect_back(h, j);
    if (!cards_gave_up(j) && !j->failure.code) {
        expect_equal(j, right);
        answered = true;
    }
    cr_assert(!j->failure.code || j->failure.code == STATUS_RESOURCE_EXHAUSTED);
    cr_assert(answered || !j->result.block.data);
    cr_assert_null(j->plan.scratch.data);
    drop_job(j);
    return answered;
}

/* Memory for the scratch, the arenas, the result: the CPU has it then, and nothing leaks. */
Test(gpu_spread, every_failure_is_survived)
{
    struct house h;
    open_with_graph(&h);
    struct job *right = make_spread(&h, SPREAD_LINEAR, 3);
    run_on_cpu(&h, right);
    upload_graph(&h, RESULT_OK);
    uint32_t sites[2] = {0};
    for (int room = 0; room < 2; room++)
        for (uint32_t nth = 1;; nth++) {
            uint64_t blocks = heap_usage(h.heap).blocks;
            fault_arm(nth);
            bool answered = spread_once(&h, right, room), fired = fault_fired() != NULL;
            fault_arm(0);
            cr_assert_eq(heap_usage(h.heap).blocks, blocks, "site %u", nth);
            cr_assert(answered || fired);
            if (!fired) break;
            sites[room]++;
        }
    cr_assert(sites[0] >= 3 && sites[1] >= 3, "%u, %u", sites[0], sites[1]);
    drop_job(right);
    close_house(&h);
}
