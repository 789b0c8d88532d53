/* spread_bench: see there. */
#include "tests/support/spread_bench.h"
#include "tests/bench/bench.h"

#include <string.h>

static void *allocate(uint64_t count, uint64_t size)
{
    void *memory = aligned_alloc(64, (count * size + 127) / 64 * 64);
    if (!memory) bench_fail("spread_bench", "no memory");
    return memset(memory, 0, count * size);
}

/* As a store lays it out, whatever its user's numbers are. */
static void make_sample(struct spread_bench *b, uint32_t nodes, struct spread_sample_edge *edges,
                        uint64_t count)
{
    b->numbers = spread_number_edges(nodes, edges, count);
    b->sample = spread_sample_of(nodes, edges, count, NULL, NULL, false);
}

/* ---------------------------------------------------------------- WordNet */

enum { PARTS = 4, SYNSETS_MAX = 200000, POINTERS_MAX = 1000000 };

struct wordnet {
    uint32_t *ids[PARTS]; /* offsets of a part's synsets, rising */
    uint32_t counts[PARTS], firsts[PARTS];
    struct spread_sample_edge *edges;
    uint64_t edge_count;
};

/* noun n, verb v, adjective a (and s), adverb r */
static uint32_t part_of(char letter)
{
    return letter == 'n' ? 0 : letter == 'v' ? 1 : letter == 'r' ? 3 : 2;
}

static uint32_t number_of(const struct wordnet *w, uint32_t part, uint32_t offset)
{
    uint32_t low = 0, high = w->counts[part];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (w->ids[part][middle] < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return w->firsts[part] + low;
}

/* "offset file type words {word id} pointers {symbol offset part ends} ... | gloss". */
static void read_pointers(struct wordnet *w, uint32_t part, char *line)
{
    char *rest, *field = strtok_r(line, " ", &rest);
    uint32_t source = number_of(w, part, (uint32_t)strtoul(field, NULL, 10));
    strtok_r(NULL, " ", &rest), strtok_r(NULL, " ", &rest);
    unsigned long words = strtoul(strtok_r(NULL, " ", &rest), NULL, 16);
    for (unsigned long i = 0; i < 2 * words; i++)
        strtok_r(NULL, " ", &rest);
    unsigned long pointers = strtoul(strtok_r(NULL, " ", &rest), NULL, 10);
    for (unsigned long i = 0; i < pointers && w->edge_count < POINTERS_MAX; i++) {
        strtok_r(NULL, " ", &rest);
        uint32_t offset = (uint32_t)strtoul(strtok_r(NULL, " ", &rest), NULL, 10);
        uint32_t target = number_of(w, part_of(*strtok_r(NULL, " ", &rest)), offset);
        strtok_r(NULL, " ", &rest);
        w->edges[w->edge_count++] =
            (struct spread_sample_edge){source, target, 0.25f + (float)(offset % 7) / 10};
    }
}

static bool read_part(struct wordnet *w, uint32_t part, bool pointers)
{
    static const char *const names[PARTS] = {"noun", "verb", "adj", "adv"};
    char path[64], line[20000];
    snprintf(path, sizeof path, "/usr/share/wordnet/data.%s", names[part]);
    FILE *file = fopen(path, "r");
    if (!file) return false;
    while (fgets(line, sizeof line, file)) {
        if (line[0] == ' ') continue;
        if (pointers)
            read_pointers(w, part, line);
        else if (w->counts[part] < SYNSETS_MAX)
            w->ids[part][w->counts[part]++] = (uint32_t)strtoul(line, NULL, 10);
    }
    fclose(file);
    return true;
}

static bool open_wordnet(struct spread_bench *b)
{
    struct wordnet w = {.edges = allocate(POINTERS_MAX, sizeof *w.edges)};
    uint32_t nodes = 0;
    bool here = true;
    for (uint32_t part = 0; part < PARTS; part++) {
        w.ids[part] = allocate(SYNSETS_MAX, sizeof *w.ids[part]);
        here = here && read_part(&w, part, false);
        w.firsts[part] = nodes;
        nodes += w.counts[part];
    }
    for (uint32_t part = 0; here && part < PARTS; part++)
        read_part(&w, part, true);
    if (here) make_sample(b, nodes, w.edges, w.edge_count);
    for (uint32_t part = 0; part < PARTS; part++)
        free(w.ids[part]);
    free(w.edges);
    return here;
}

/* ---------------------------------------------------------------- graphs */

bool spread_bench_open(struct spread_bench *b, const char *name)
{
    uint64_t seed = 11;
    bool here = true;
    memset(b, 0, sizeof *b);
    b->name = name;
    struct spread_sample_edge *edges = NULL;
    if (!strcmp(name, "uniform")) {
        edges = spread_uniform_edges(1000000, 8000000, &seed);
        make_sample(b, 1000000, edges, 8000000);
    } else if (!strcmp(name, "power")) {
        edges = spread_power_edges(1000000, 10000000, 0.6, &seed);
        make_sample(b, 1000000, edges, 10000000);
    } else {
        here = !strcmp(name, "wordnet") && open_wordnet(b);
    }
    free(edges);
    if (!here) return false;
    b->memory = allocate(1, spread_workspace_bytes(b->sample.graph.nodes));
    b->more_bytes = 64 * b->sample.graph.edges + (1 << 20);
    b->more = allocate(1, b->more_bytes);
    return true;
}

void spread_bench_close(struct spread_bench *b)
{
    spread_sample_free(&b->sample);
    free(b->numbers), free(b->memory), free(b->more);
}

static void write_array(const char *folder, const char *name, const void *data, uint64_t bytes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file))
        bench_fail("spread_bench", path);
}

void spread_bench_write(const struct spread_bench *b, const char *folder)
{
    const struct spread_graph *g = &b->sample.graph;
    uint64_t *offsets = allocate(g->nodes + 1ul, sizeof *offsets), count = 0;
    uint32_t *columns = allocate(g->edges, sizeof *columns);
    uint32_t *users = allocate(g->nodes, sizeof *users);
    float *weights = allocate(g->edges, sizeof *weights);
    for (uint32_t n = 0; n < g->nodes; n++)
        users[b->numbers[n]] = n;
    for (uint32_t n = 0; n < g->nodes; n++) {
        struct spread_list list = g->in[b->numbers[n]];
        for (uint32_t e = 0; e < list.count; e++, count++) {
            columns[count] = users[g->in_edges[list.first + e].node];
            weights[count] = g->in_edges[list.first + e].weight;
        }
        offsets[n + 1] = count;
    }
    write_array(folder, "offsets", offsets, (g->nodes + 1ul) * sizeof *offsets);
    write_array(folder, "columns", columns, count * sizeof *columns);
    write_array(folder, "weights", weights, count * sizeof *weights);
    free(offsets), free(columns), free(users), free(weights);
}

/* ---------------------------------------------------------------- hops over everything */

enum { SEEDS_APART = 100, FIRST_HOPS = 10 };

static void sums_part(struct spread_bench *b, uint32_t part)
{
    const uint32_t *starts = spread_state_of(&b->run)->starts;
    b->run.kernels->pull(&b->run, b->sample.order + starts[part], starts[part + 1] - starts[part],
                         b->sent, b->decay[0], b->received);
}

static void share_parts(struct spread_bench *b)
{
    for (uint32_t part; (part = atomic_fetch_add(&b->next_part, 1)) < b->parts;) {
        if (b->work == SPREAD_BENCH_SUMS)
            sums_part(b, part);
        else
            spread_run_part(&b->run, part);
    }
}

static void *help(void *argument)
{
    struct spread_bench *b = argument;
    for (uint64_t seen = 0;; seen++) {
        while (atomic_load(&b->ticket) == seen)
            continue;
        if (b->work == SPREAD_BENCH_STOP) return NULL;
        share_parts(b);
        atomic_fetch_add(&b->done, 1);
    }
}

static void run_step(struct spread_bench *b, enum spread_bench_work work, uint32_t parts)
{
    b->work = work;
    b->parts = parts;
    b->done = b->next_part = 0;
    atomic_fetch_add(&b->ticket, 1);
    if (work == SPREAD_BENCH_STOP) return;
    share_parts(b);
    while (atomic_load(&b->done) < b->threads - 1)
        continue;
}

static void *no_more(void *owner, uint64_t bytes)
{
    (void)owner, (void)bytes;
    return NULL;
}

/* The first hops of a new run, from a few nodes to all that can be reached. */
static void begin(struct spread_bench *b)
{
    b->run = (struct spread_run){.graph = &b->sample.graph,
                                 .question = &b->question,
                                 .kernels = b->run.kernels,
                                 .workspace = {b->memory, b->sample.graph.nodes},
                                 .memory = {no_more, NULL},
                                 .alone = b->threads == 1};
    spread_run_begin(&b->run);
    spread_run_force(&b->run, SPREAD_HOP_PULL);
    for (int i = 0; i < FIRST_HOPS; i++)
        run_step(b, SPREAD_BENCH_HOP, spread_run_next(&b->run));
}

void spread_bench_start(struct spread_bench *b, const struct spread_kernels *kernels,
                        uint32_t threads)
{
    uint32_t nodes = b->sample.graph.nodes;
    b->threads = threads;
    b->question.seed_count = 0;
    b->run.kernels = kernels;
    b->seeds = allocate(nodes, sizeof *b->seeds);
    b->sent = allocate(nodes, sizeof *b->sent);
    b->received = allocate(nodes, sizeof *b->received);
    for (uint32_t n = 0; n < nodes; n++) {
        b->sent[n] = 0.5f + (float)(n % 100) / 200;
        if (n % SEEDS_APART == 0)
            b->seeds[b->question.seed_count++] = (struct spread_seed){n, b->sent[n]};
    }
    for (uint32_t d = 0; d <= SPREAD_HOPS_MAX; d++)
        b->decay[d] = 0.9f;
    b->question.mode = SPREAD_LINEAR;
    b->question.hops = SPREAD_HOPS_MAX;
    b->question.decay = b->decay;
    b->question.touched_max = UINT64_MAX;
    b->question.seeds = b->seeds;
    b->ticket = 0;
    if (threads > 1 && pthread_create(&b->helper, NULL, help, b))
        bench_fail("spread_bench", "no thread");
    begin(b);
}

void spread_bench_stop(struct spread_bench *b)
{
    spread_run_end(&b->run);
    run_step(b, SPREAD_BENCH_STOP, 0);
    if (b->threads > 1) pthread_join(b->helper, NULL);
    free(b->seeds), free(b->sent), free(b->received);
}

double spread_bench_hop(struct spread_bench *b)
{
    if (spread_state_of(&b->run)->depth == SPREAD_HOPS_MAX - 1) {
        spread_run_end(&b->run);
        begin(b);
    }
    double start = bench_now_s();
    uint32_t parts = spread_run_next(&b->run);
    if (parts == 0) bench_fail("spread_bench", "the spread ended");
    run_step(b, SPREAD_BENCH_HOP, parts);
    return bench_now_s() - start;
}

double spread_bench_pull(struct spread_bench *b)
{
    double start = bench_now_s();
    run_step(b, SPREAD_BENCH_SUMS, spread_state_of(&b->run)->pull_parts);
    return bench_now_s() - start;
}

/* ---------------------------------------------------------------- from one seed */

static void *take(void *owner, uint64_t bytes)
{
    struct spread_bench *b = owner;
    static uint64_t used;
    if (bytes == 0) return (void *)(uintptr_t)(used = 0);
    void *taken = (char *)b->more + used;
    used += (bytes + 63) / 64 * 64;
    return used <= b->more_bytes ? taken : NULL;
}

static uint32_t node_with_edges(const struct spread_graph *g, uint32_t nth)
{
    uint32_t node = (uint32_t)(nth * UINT64_C(2654435761) % g->nodes);
    while (g->out[node].count == 0)
        node = (node + 1) % g->nodes;
    return node;
}

double spread_bench_from(struct spread_bench *b, enum spread_mode mode, uint32_t hops,
                         enum spread_hop how, uint32_t nth, double *touched)
{
    struct spread_seed seed = {node_with_edges(&b->sample.graph, nth), 1.0f};
    float decay[SPREAD_HOPS_MAX + 1];
    for (uint32_t d = 0; d <= hops; d++)
        decay[d] = expf(-0.7f * (float)d);
    struct spread_question q = {.mode = mode,
                                .hops = hops,
                                .decay = decay,
                                .thresholds = {0.01f, 0.05f, 0.1f},
                                .touched_max = UINT64_MAX,
                                .seeds = &seed,
                                .seed_count = 1};
    if (mode == SPREAD_LINEAR) q.thresholds[0] = 0;
    take(b, 0);
    struct spread_run run = {.graph = &b->sample.graph,
                             .question = &q,
                             .kernels = spread_kernels_for(vectors_choose("auto")->name),
                             .workspace = {b->memory, b->sample.graph.nodes},
                             .memory = {take, b},
                             .alone = true};
    double start = bench_now_s();
    spread_run_begin(&run);
    spread_run_force(&run, how);
    spread_run_through(&run);
    *touched = (double)run.record_count;
    spread_run_end(&run);
    return bench_now_s() - start;
}
