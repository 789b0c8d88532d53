/* Spreads with embeddings through the socket, against the slow reference: between writes of graph
 * and rows and beside them, in one pipe with a drop, and what is refused. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/support/graph_twin.h"
#include "tests/support/sets.h"

static void ask(struct twin *t, struct twin_question *q)
{
    twin_ask_randomly(t, q, EA_ENGRAM);
    q->options.embeddings = "embeddings";
}

Test(spread_similar, answers_are_the_reference, .timeout = 900)
{
    struct scene s;
    struct twin t;
    static struct twin_question q;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "asker");
    for (uint64_t seed = 1; seed <= 2; seed++) {
        twin_make(&t, c, "g", 100 * (uint32_t)seed, seed);
        twin_embed(&t, c, seed == 1 ? 24 : 100);
        twin_add_edges(&t, c, 2500 * seed, seed, false);
        for (uint32_t i = 0; i < 24; i++) { /* none has rows, some have, all have, others ... */
            if (i == 6 || i == 12) twin_set_rows(&t, c, i == 12, 2, i);
            if (i > 12 && i % 3 == 0) twin_set_rows(&t, c, i, 7, i);
            if (i % 4 == 3) twin_add_edges(&t, c, 20, i, true);
            ask(&t, &q);
            twin_expect(&t, c, &q);
        }
        twin_drop(&t, c);
    }
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- beside writers */

enum { READERS = 3, STATES = 2 };

struct party {
    struct scene *scene;
    struct twin twin;
    struct twin_question question;
    uint64_t digests[STATES][STATES]; /* of the answer, by the states of graph and rows */
    atomic_bool stop;
    atomic_uint answers;
};

static uint64_t ask_digest(struct party *p, ea_client *c, uint64_t *graph, uint64_t *rows)
{
    ea_spread_result r = {0};
    cr_assert_eq(twin_spread(&p->twin, c, &p->question, &r), EA_OK, "%s", ea_error_text(c));
    uint64_t sum = r.count;
    for (uint64_t i = 0; i < r.count; i++) {
        uint32_t bits;
        memcpy(&bits, &r.activations[i], sizeof bits);
        sum = (sum ^ r.ids[i]) * UINT64_C(0x9e3779b97f4a7c15) + bits + r.visits[i];
    }
    *graph = r.meta->version;
    *rows = r.embeddings_version;
    ea_spread_result_free(&r);
    return sum;
}

/* What each of two writers does: the second change undoes the first. */
static void change_graph(struct twin *t, ea_client *c, bool there)
{
    if (there)
        twin_remove_edges(t, c, 300, 77);
    else
        twin_add_edges(t, c, 300, 77, false);
}

static void change_rows(struct twin *t, ea_client *c, bool there)
{
    twin_set_rows(t, c, 0, 1, there ? 5 : 6);
}

/* Versions of one counter rise in the order of both writers' changes, so that it is asked which
 * state a version is. */
enum { VERSIONS_MAX = 100000 };
static _Atomic uint8_t state_of[VERSIONS_MAX]; /* 1 + the state */

static void note_version(uint64_t base, uint64_t version, int state)
{
    cr_assert_lt(version - base, VERSIONS_MAX);
    atomic_store(&state_of[version - base], (uint8_t)(1 + state));
}

struct seen {
    uint64_t graph, rows, digest;
};
enum { SEEN_MAX = 20000 };

struct reader {
    struct party *party;
    pthread_t thread;
    struct seen *seen;
    uint32_t count;
};

static void *read_on(void *argument)
{
    struct reader *r = argument;
    ea_client *c = scene_client(r->party->scene, "asker");
    while (!atomic_load(&r->party->stop) && r->count < SEEN_MAX) {
        struct seen *s = &r->seen[r->count++];
        s->digest = ask_digest(r->party, c, &s->graph, &s->rows);
        atomic_fetch_add(&r->party->answers, 1);
    }
    ea_close(c);
    return NULL;
}

static uint64_t graph_version_of(ea_client *c)
{
    ea_graph_info info;
    cr_assert_eq(ea_graph_describe(c, "g", &info), EA_OK);
    return info.version;
}

static uint64_t rows_version_of(ea_client *c)
{
    ea_collection_info info;
    cr_assert_eq(ea_collection_describe(c, "embeddings", &info), EA_OK);
    return info.version;
}

/* Fills in what is answered in each pair of states; leaves the first. */
static void learn_digests(struct party *p, ea_client *c)
{
    for (int i = 0; i < STATES * STATES; i++) {
        uint64_t graph, rows;
        int of_graph = i / 2, of_rows = i / 2 ? !(i % 2) : i % 2;
        if (i == 2) change_graph(&p->twin, c, false);
        if (i % 2) change_rows(&p->twin, c, !of_rows);
        p->digests[of_graph][of_rows] = ask_digest(p, c, &graph, &rows);
    }
    for (int i = 1; i < STATES * STATES; i++)
        for (int k = 0; k < i; k++)
            cr_assert_neq(p->digests[i / 2][i % 2], p->digests[k / 2][k % 2], "%d and %d", i, k);
}

static void expect_seen(const struct party *p, const struct reader *r, uint64_t base)
{
    for (uint32_t i = 0; i < r->count; i++) {
        const struct seen *s = &r->seen[i];
        int graph = atomic_load(&state_of[s->graph - base]) - 1;
        int rows = atomic_load(&state_of[s->rows - base]) - 1;
        cr_assert(graph >= 0 && rows >= 0, "a version that never was");
        cr_assert_eq(s->digest, p->digests[graph][rows], "graph in state %d, rows in %d", graph,
                     rows);
    }
}

/* Each answer is of the two versions that it tells. */
Test(spread_similar, beside_writers, .timeout = 900)
{
    struct scene s;
    static struct party p;
    static struct reader readers[READERS];
    scene_open(&s, NULL);
    p.scene = &s;
    ea_client *c = scene_client(&s, "asker");
    twin_make(&p.twin, c, "g", 500, 3);
    twin_embed(&p.twin, c, 48);
    twin_add_edges(&p.twin, c, 15000, 1, false);
    twin_remove_edges(&p.twin, c, 300, 77);
    twin_set_rows(&p.twin, c, 0, 1, 5);
    ask(&p.twin, &p.question);
    p.question.options = (ea_spread_options){
        .mode = EA_ENGRAM, .hops = 3, .paths = true, .embeddings = "embeddings"};
    p.question.sets = 1, p.question.offsets[1] = p.question.seed_count = 2;
    p.question.has_activations = false;
    p.question.seeds[0] = p.twin.ids[3], p.question.seeds[1] = p.twin.ids[9];
    learn_digests(&p, c);
    int graph = 1, rows = 0;
    uint64_t base =
        rows_version_of(c) < graph_version_of(c) ? rows_version_of(c) : graph_version_of(c);
    note_version(base, graph_version_of(c), graph);
    note_version(base, rows_version_of(c), rows);
    for (int i = 0; i < READERS; i++) {
        readers[i].party = &p;
        readers[i].seen = calloc(SEEN_MAX, sizeof *readers[i].seen);
        pthread_create(&readers[i].thread, NULL, read_on, &readers[i]);
    }
    for (uint32_t i = 0; i < 300 || atomic_load(&p.answers) < 60; i++) {
        if (i % 3) {
            change_rows(&p.twin, c, rows);
            rows = !rows;
            note_version(base, rows_version_of(c), rows);
        } else {
            change_graph(&p.twin, c, graph);
            graph = !graph;
            note_version(base, graph_version_of(c), graph);
        }
    }
    atomic_store(&p.stop, true);
    for (int i = 0; i < READERS; i++) {
        pthread_join(readers[i].thread, NULL);
        expect_seen(&p, &readers[i], base);
        free(readers[i].seen);
    }
    twin_drop(&p.twin, c);
    ea_close(c);
    scene_close(&s);
}

/* ---------------------------------------------------------------- refused */

static void refused(ea_client *c, const struct twin *t, ea_spread_options o, ea_status status,
                    ea_detail detail, const char *word)
{
    ea_spread_result r = {0};
    ea_status st = ea_spread(c, "g", &o, &(ea_seeds){.sets = 1, .ids = t->ids, .count = 2}, &r);
    cr_assert_eq(st, status, "%s", ea_error_text(c));
    cr_assert_eq(ea_error_detail(c), detail, "%s", ea_error_text(c));
    cr_assert(strstr(ea_error_text(c), word), "%s", ea_error_text(c));
    ea_spread_result_free(&r);
}

Test(spread_similar, names_what_is_wrong)
{
    struct scene s;
    struct twin t;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "asker");
    twin_make(&t, c, "g", 50, 3);
    twin_add_edges(&t, c, 500, 1, false);
    refused(c, &t, (ea_spread_options){.mode = EA_ENGRAM, .embeddings = "none"}, EA_NOT_FOUND,
            EA_DETAIL_UNKNOWN_COLLECTION, "'none'");
    refused(c, &t, (ea_spread_options){.mode = EA_ENGRAM, .embeddings = "a b"}, EA_INVALID_ARGUMENT,
            EA_DETAIL_BAD_NAME, "byte 1 of the collection name");
    refused(c, &t, (ea_spread_options){.mode = EA_ENGRAM, .embeddings = "g"}, EA_NOT_FOUND,
            EA_DETAIL_UNKNOWN_COLLECTION, "'g'"); /* a graph's name */
    twin_embed(&t, c, 3);
    refused(c, &t, (ea_spread_options){.mode = EA_LINEAR, .embeddings = "embeddings"},
            EA_INVALID_ARGUMENT, EA_DETAIL_BAD_MODE, "embeddings: only in mode engram");
    twin_drop(&t, c);
    ea_close(c);
    scene_close(&s);
}

static void count_answer(ea_client *c, const ea_answer *answer, void *user)
{
    cr_assert_eq(answer->status, EA_OK, "%s", ea_error_text(c));
    cr_assert(answer->spread->embeddings_version);
    ++*(int *)user;
}

/* A drop waits for those that came before it. */
Test(spread_similar, those_before_a_drop_are_answered)
{
    struct scene s;
    struct twin t;
    int answers = 0;
    scene_open(&s, NULL);
    ea_client *c = scene_client(&s, "asker"), *other = scene_client(&s, "asker");
    twin_make(&t, c, "g", 300, 3);
    twin_embed(&t, c, 64);
    twin_add_edges(&t, c, 9000, 1, false);
    twin_set_rows(&t, c, 0, 1, 2);
    const ea_spread_options o = {.mode = EA_ENGRAM, .embeddings = "embeddings"};
    const ea_seeds seeds = {.sets = 1, .ids = t.ids, .count = 5};
    for (int i = 0; i < 20; i++)
        cr_assert_eq(ea_spread_send(c, "g", &o, &seeds,
                                    &(ea_send_options){.callback = count_answer, .user = &answers},
                                    NULL),
                     EA_OK);
    cr_assert_eq(ea_collection_drop(c, "embeddings"), EA_OK);
    while (ea_pending(c))
        cr_assert_eq(ea_pump(c, -1), EA_OK);
    cr_assert_eq(answers, 20);
    refused(other, &t, o, EA_NOT_FOUND, EA_DETAIL_UNKNOWN_COLLECTION, "embeddings");
    t.embeddings = NULL;
    twin_drop(&t, c);
    ea_close(c);
    ea_close(other);
    scene_close(&s);
}
