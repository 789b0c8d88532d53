/* spread_graphs: see there. */
#include "tests/support/spread_graphs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    if (!memory) abort();
    return memory;
}

static uint64_t random_of(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double unit_of(uint64_t *state)
{
    return (double)(random_of(state) >> 11) * 0x1p-53;
}

/* ---------------------------------------------------------------- graphs */

/* Lists by source, in the order of numbers, or by target, in the graph's order; some room is left
 * behind each. */
static void fill_lists(struct spread_sample *s, const struct spread_sample_edge *edges,
                       uint64_t count, bool by_source)
{
    uint32_t nodes = s->graph.nodes;
    struct spread_list *lists = by_source ? s->out : s->in;
    uint64_t used = 0;
    for (uint32_t i = 0; i < nodes; i++) {
        struct spread_list *list = &lists[by_source ? i : s->order[i]];
        list->first = used;
        list->room = list->count + list->count % 2;
        list->count = 0;
        used += list->room;
    }
    struct spread_edge *all = allocate(used, sizeof *all);
    for (uint64_t i = 0; i < count; i++) {
        struct spread_list *list = &lists[by_source ? edges[i].source : edges[i].target];
        uint32_t other = by_source ? edges[i].target : edges[i].source;
        all[list->first + list->count++] = (struct spread_edge){other, edges[i].weight};
    }
    /* What lies behind a list is nobody's business. */
    for (uint32_t n = 0; n < nodes; n++)
        for (uint32_t e = lists[n].count; e < lists[n].room; e++)
            all[lists[n].first + e] = (struct spread_edge){SPREAD_NO_NODE, NAN};
    *(by_source ? &s->out_edges : &s->in_edges) = all;
}

static void count_lists(struct spread_sample *s, const struct spread_sample_edge *edges,
                        uint64_t count)
{
    s->out = allocate(s->graph.nodes, sizeof *s->out);
    s->in = allocate(s->graph.nodes, sizeof *s->in);
    for (uint64_t i = 0; i < count; i++) {
        uint32_t in = ++s->in[edges[i].target].count;
        s->out[edges[i].source].count++;
        if (in > s->in_count_max) s->in_count_max = in;
    }
}

static const struct spread_list *order_lists;

static int by_falling_count(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    uint32_t of_x = order_lists[x].count, of_y = order_lists[y].count;
    return of_x != of_y ? (of_x < of_y) - (of_x > of_y) : (x > y) - (x < y);
}

static void make_order(struct spread_sample *s)
{
    uint32_t nodes = s->graph.nodes;
    s->order = allocate(nodes, sizeof *s->order);
    for (uint32_t n = 0; n < nodes; n++)
        s->order[n] = n;
    order_lists = s->in;
    for (uint32_t first = 0; first < nodes; first += SPREAD_WINDOW) {
        uint32_t count = nodes - first < SPREAD_WINDOW ? nodes - first : SPREAD_WINDOW;
        qsort(s->order + first, count, sizeof *s->order, by_falling_count);
    }
}

static int exponent_of(float value)
{
    int exponent;
    if (value == 0.0f) return -149;
    (void)frexpf(value, &exponent);
    return exponent;
}

static struct spread_grid make_grid(const struct spread_sample *s,
                                    const struct spread_sample_edge *edges, uint64_t count)
{
    int weight = -149, factor = -149;
    for (uint64_t i = 0; i < count; i++)
        if (exponent_of(edges[i].weight) > weight) weight = exponent_of(edges[i].weight);
    for (uint32_t n = 0; s->factors && n < s->graph.nodes; n++)
        if (exponent_of(s->factors[n]) > factor) factor = exponent_of(s->factors[n]);
    return spread_grid_of(weight, s->factors ? factor : 1, s->in_count_max);
}

struct spread_sample spread_sample_of(uint32_t nodes, const struct spread_sample_edge *edges,
                                      uint64_t count, const uint8_t *kinds, const float *factors,
                                      bool plain_ids)
{
    struct spread_sample s = {.graph = {.nodes = nodes, .edges = count}};
    count_lists(&s, edges, count);
    make_order(&s);
    fill_lists(&s, edges, count, true);
    fill_lists(&s, edges, count, false);
    s.ids = allocate(nodes, sizeof *s.ids);
    for (uint32_t n = 0; n < nodes; n++) {
        uint64_t scrambled = (n + 1) * 0x9e3779b97f4a7c15u; /* odd: all different */
        s.ids[n] = plain_ids ? n : scrambled ^ scrambled >> 32;
    }
    if (kinds) s.kinds = memcpy(allocate(nodes, 1), kinds, nodes);
    if (factors) s.factors = memcpy(allocate(nodes, sizeof *factors), factors, nodes * 4ul);
    s.graph.out = s.out, s.graph.in = s.in;
    s.graph.out_edges = s.out_edges, s.graph.in_edges = s.in_edges;
    s.graph.ids = s.ids, s.graph.order = s.order;
    s.graph.kinds = s.kinds, s.graph.factors = s.factors;
    s.graph.grid = make_grid(&s, edges, count);
    return s;
}

static void shuffle_list(struct spread_edge *edges, uint32_t count, uint64_t *seed)
{
    for (uint32_t e = count; e > 1; e--) {
        uint32_t other = (uint32_t)(random_of(seed) % e);
        struct spread_edge kept = edges[e - 1];
        edges[e - 1] = edges[other];
        edges[other] = kept;
    }
}

void spread_sample_shuffle(struct spread_sample *s, uint64_t *seed)
{
    for (uint32_t n = 0; n < s->graph.nodes; n++) {
        shuffle_list(s->out_edges + s->out[n].first, s->out[n].count, seed);
        shuffle_list(s->in_edges + s->in[n].first, s->in[n].count, seed);
    }
}

void spread_sample_free(struct spread_sample *s)
{
    free(s->out), free(s->in), free(s->out_edges), free(s->in_edges);
    free(s->ids), free(s->kinds), free(s->factors), free(s->order);
    *s = (struct spread_sample){.graph = {.nodes = 0}};
}

struct spread_sample_edge *spread_uniform_edges(uint32_t nodes, uint64_t count, uint64_t *seed)
{
    struct spread_sample_edge *edges = allocate(count, sizeof *edges);
    for (uint64_t i = 0; i < count; i++)
        edges[i] = (struct spread_sample_edge){(uint32_t)(random_of(seed) % nodes),
                                               (uint32_t)(random_of(seed) % nodes),
                                               1.0f - (float)unit_of(seed)};
    return edges;
}

/* Of rank r with a chance of about r^-power, power < 1; ranks are scattered over the numbers. */
static uint32_t ranked(uint32_t nodes, double power, uint64_t *seed, uint64_t stride)
{
    uint64_t rank = (uint64_t)(pow(unit_of(seed), 1 / (1 - power)) * nodes);
    return (uint32_t)((rank * stride + stride) % nodes);
}

/* Coprime to nodes, so that a multiple hits every number. */
static uint64_t stride_for(uint32_t nodes, uint64_t near)
{
    for (uint64_t stride = near % nodes + 1;; stride++) {
        uint64_t a = nodes, b = stride;
        while (b) {
            uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1) return stride;
    }
}

struct spread_sample_edge *spread_power_edges(uint32_t nodes, uint64_t count, double power,
                                              uint64_t *seed)
{
    struct spread_sample_edge *edges = allocate(count, sizeof *edges);
    uint64_t from = stride_for(nodes, 2654435761u), to = stride_for(nodes, 2246822519u);
    for (uint64_t i = 0; i < count; i++)
        edges[i] = (struct spread_sample_edge){ranked(nodes, power, seed, from),
                                               ranked(nodes, power, seed, to),
                                               1.0f - (float)unit_of(seed)};
    return edges;
}

static uint32_t class_of(uint32_t out_count)
{
    return out_count ? 32 - (uint32_t)__builtin_clz(out_count) : 0;
}

uint32_t *spread_number_edges(uint32_t nodes, struct spread_sample_edge *edges, uint64_t count)
{
    enum { CLASSES = 33 };
    uint32_t *numbers = allocate(nodes, sizeof *numbers), firsts[CLASSES] = {0}, first = 0;
    uint32_t *out_counts = allocate(nodes, sizeof *out_counts);
    for (uint64_t i = 0; i < count; i++)
        out_counts[edges[i].source]++;
    for (uint32_t n = 0; n < nodes; n++)
        firsts[class_of(out_counts[n])]++;
    for (uint32_t c = CLASSES; c-- > 0;) {
        uint32_t of_class = firsts[c];
        firsts[c] = first;
        first += of_class;
    }
    for (uint32_t n = 0; n < nodes; n++)
        numbers[n] = firsts[class_of(out_counts[n])]++;
    for (uint64_t i = 0; i < count; i++) {
        edges[i].source = numbers[edges[i].source];
        edges[i].target = numbers[edges[i].target];
    }
    free(out_counts);
    return numbers;
}

/* ---------------------------------------------------------------- runs */

enum { TAKEN_MAX = 64, THREADS_MAX = 8 };

struct owner {
    void *taken[TAKEN_MAX];
    uint32_t count;
    uint64_t bytes, bytes_max;
    _Atomic(uint64_t) gave_way;
};

static void *take(void *memory, uint64_t bytes)
{
    struct owner *o = memory;
    if (o->count == TAKEN_MAX || (o->bytes_max && o->bytes + bytes > o->bytes_max)) return NULL;
    void *taken = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!taken) abort();
    memset(taken, 0xa5, bytes);
    o->bytes += bytes;
    return o->taken[o->count++] = taken;
}

static void give_way(void *memory)
{
    struct owner *o = memory;
    atomic_fetch_add_explicit(&o->gave_way, 1, memory_order_relaxed);
}

struct step {
    struct spread_run *run;
    _Atomic(uint32_t) next;
    uint32_t parts;
};

static void *help(void *argument)
{
    struct step *step = argument;
    for (uint32_t part; (part = atomic_fetch_add(&step->next, 1)) < step->parts;)
        spread_run_part(step->run, part);
    return NULL;
}

static void on_threads(struct spread_run *r, uint32_t parts, uint32_t threads)
{
    pthread_t started[THREADS_MAX];
    struct step step = {.run = r, .parts = parts};
    for (uint32_t i = 0; i < threads; i++)
        if (pthread_create(&started[i], NULL, help, &step)) abort();
    for (uint32_t i = 0; i < threads; i++)
        pthread_join(started[i], NULL);
}

/* So many of the parts. */
static void in_shuffled_order(struct spread_run *r, uint32_t parts, uint32_t count, uint64_t *seed)
{
    uint64_t stride = stride_for(parts, random_of(seed)), first = random_of(seed) % parts;
    for (uint32_t i = 0; i < count; i++)
        spread_run_part(r, (uint32_t)((first + i * stride) % parts));
}

static bool all_zero(const uint64_t *memory, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes / sizeof *memory; i++)
        if (memory[i]) return false;
    return true;
}

/* The next step's parts. */
static uint32_t next_parts(struct spread_run *r, const struct spread_way *way, uint64_t steps)
{
    enum spread_hop hop = way->hop;
    if (way->changing) hop = way->pulls >> steps % 64 & 1 ? SPREAD_HOP_PULL : SPREAD_HOP_PUSH;
    spread_run_force(r, hop);
    return spread_run_next(r);
}

/* Clears the workspace by itself or, if that is cut, in parts, half of which are then run again. */
static void end(struct spread_run *r, const struct spread_way *way, uint64_t *seed)
{
    bool cut = !way->alone && way->seed % 2 == 0;
    if (cut) spread_run_close(r);
    for (uint32_t parts; cut && (parts = spread_run_next(r));) {
        in_shuffled_order(r, parts, parts / 2, seed);
        if (way->seed % 8 == 2) break;
        if (way->threads)
            on_threads(r, parts, way->threads);
        else
            in_shuffled_order(r, parts, parts, seed);
    }
    spread_run_end(r);
}

struct spread_ran spread_sample_run(const struct spread_graph *g, const struct spread_question *q,
                                    const struct spread_way *way)
{
    struct spread_ran ran = {.clean = false};
    struct owner owner = {.bytes_max = way->memory_max};
    uint64_t bytes = spread_workspace_bytes(g->nodes), seed = way->seed;
    void *memory = aligned_alloc(64, bytes);
    if (!memory) abort();
    memset(memory, 0, bytes);
    struct spread_run r = {.graph = g,
                           .question = q,
                           .kernels = way->kernels,
                           .workspace = {memory, g->nodes},
                           .memory = {take, &owner},
                           .now_ns = way->now_ns,
                           .cancelled = way->cancelled,
                           .give_way = give_way,
                           .way_owner = &owner,
                           .alone = way->alone};
    spread_run_begin(&r);
    for (uint32_t parts; (parts = next_parts(&r, way, ran.steps)); ran.parts += parts) {
        bool last = ++ran.steps == way->steps_max;
        if (way->threads)
            on_threads(&r, parts, way->threads);
        else
            in_shuffled_order(&r, parts, last ? parts / 2 : parts, &seed);
        if (last) break;
    }
    struct spread_answer *a = &ran.answer;
    a->records = allocate(r.record_count, sizeof *a->records);
    if (r.record_count) memcpy(a->records, r.records, r.record_count * sizeof *a->records);
    a->count = r.record_count, a->cycles = r.cycles;
    a->hops_done = r.hops_done, a->truncated = r.truncated;
    spread_answer_sort(a);
    ran.no_memory = r.no_memory;
    ran.taken_bytes = owner.bytes;
    end(&r, way, &seed);
    ran.gave_way = owner.gave_way;
    ran.clean = all_zero(memory, bytes);
    for (uint32_t i = 0; i < owner.count; i++)
        free(owner.taken[i]);
    free(memory);
    return ran;
}
