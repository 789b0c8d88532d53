#include "tests/support/journal_house.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

static void nobody(void *owner) {}

void journal_house_open(struct journal_house *h, const char *path)
{
    struct failure f;
    memset(h, 0, sizeof *h);
    strcpy(h->path, path);
    persist_house_open(&h->in, path);
    cr_assert_eq(folder_open(path, &h->folder, &f), STATUS_OK, "%s", f.text);
}

void journal_house_close(struct journal_house *h)
{
    folder_close(&h->folder);
    persist_house_close(&h->in);
}

enum status journal_house_start(struct journal_house *h, bool always, struct failure *f)
{
    struct journal_options options = {
        .folder = h->folder.fd,
        .head = {.number = 1, .instance = 77, .generation = 1, .sequence = 1, .always = always},
        .wake = nobody,
    };
    return journal_create(&options, &h->journal, f);
}

void journal_house_give(void *owner, struct journal_entry *e)
{
    struct journal_house *h = owner;
    h->given++;
    free(e);
}

static void give_all(struct journal_house *h, struct journal_entry *e)
{
    for (struct journal_entry *next; e; e = next) {
        next = e->next;
        journal_house_give(h, e);
    }
}

void journal_house_stop(struct journal_house *h)
{
    struct journal_counters counters;
    journal_destroy(h->journal, journal_house_give, &counters, &h->place, h);
    h->journal = NULL;
}

void journal_house_wait(struct journal_house *h, uint64_t number, struct journal_counters *out)
{
    do {
        give_all(h, journal_poll(h->journal, out));
        if (out->synced >= number || out->health != JOURNAL_SOUND) return;
        poll(NULL, 0, 1);
    } while (true);
}

void journal_house_wait_sound(struct journal_house *h, struct journal_counters *out)
{
    do {
        give_all(h, journal_poll(h->journal, out));
        if (out->health == JOURNAL_SOUND) return;
        poll(NULL, 0, 1);
    } while (true);
}

/* ---------------------------------------------------------------- writes */

static const uint64_t ids[] = {5, 6, 7, 8};
static const uint64_t others[] = {6, 7, 8, 5};
static const uint64_t offsets[] = {0, 1, 2, 3, 4};
static const uint64_t columns[] = {1, 2, 3, 0};
static const float numbers[] = {0.5f,  1.5f,  2.5f,  3.5f,  4.5f,  5.5f,  6.5f,  7.5f,
                                0.25f, 1.25f, 2.25f, 3.25f, 4.25f, 5.25f, 6.25f, 7.25f};
static const float small[] = {0.01f, 0.02f, 0.03f, 0.04f, 0.01f, 0.02f, 0.03f, 0.04f,
                              0.01f, 0.02f, 0.03f, 0.04f, 0.01f, 0.02f, 0.03f, 0.04f};
static const uint8_t kinds[] = {0, 1, 2, 0};
static const float factors[] = {1, 0.5f, 2, 1};

static struct tensor tensor(enum dtype dtype, uint64_t rows, uint64_t n, const void *data)
{
    return (struct tensor){dtype, rows, n, (void *)(uintptr_t)data};
}

static void set(struct journal_write *w, enum journal_kind kind, enum resident_kind object,
                const char *name)
{
    w->kind = kind;
    w->object = object;
    strcpy(w->space, "alpha");
    strcpy(w->name, name);
}

static void set_tensors(struct journal_write *w, bool targets, bool weights)
{
    w->tensors[JOURNAL_IDS] = tensor(DTYPE_UINT64, 4, 1, ids);
    if (targets) w->tensors[JOURNAL_TARGETS] = tensor(DTYPE_UINT64, 4, 1, others);
    if (weights) w->tensors[JOURNAL_WEIGHTS] = tensor(DTYPE_FLOAT32, 4, 1, numbers);
}

static void set_rows(struct journal_write *w, uint64_t count, const float *rows)
{
    w->tensors[JOURNAL_MATRIX] = tensor(DTYPE_FLOAT32, count, 4, rows);
}

static void describe_graph(struct journal_write *w, uint32_t nth)
{
    set(w, JOURNAL_KINDS, RESIDENT_GRAPH, "web");
    switch (nth) {
    case 4: w->kind = JOURNAL_CREATE; break;
    case 5:
        w->kind = JOURNAL_EDGES;
        w->flags = JOURNAL_COUNTED;
        set_tensors(w, true, true);
        break;
    case 6:
        w->kind = JOURNAL_CSR;
        w->flags = JOURNAL_REPLACES;
        w->tensors[JOURNAL_OFFSETS] = tensor(DTYPE_UINT64, 5, 1, offsets);
        set_tensors(w, true, true);
        w->tensors[JOURNAL_TARGETS] = tensor(DTYPE_UINT64, 4, 1, columns);
        break;
    case 7:
        w->kind = JOURNAL_NODES;
        set_tensors(w, false, false);
        w->tensors[JOURNAL_NODE_KINDS] = tensor(DTYPE_UINT8, 4, 1, kinds);
        w->tensors[JOURNAL_FACTORS] = tensor(DTYPE_FLOAT32, 4, 1, factors);
        break;
    case 8:
        w->kind = JOURNAL_REMOVE_EDGES;
        set_tensors(w, true, false);
        w->tensors[JOURNAL_IDS].rows = w->tensors[JOURNAL_TARGETS].rows = 1;
        break;
    case 9:
        w->kind = JOURNAL_ADD_WEIGHTS;
        w->flags = JOURNAL_CREATES;
        w->numbers[0] = -2;
        w->numbers[1] = 2;
        w->token.token[0] = 9;
        w->token.operation = OPERATION_GRAPH_ADD_WEIGHTS;
        set_tensors(w, true, true);
        break;
    case 10:
        w->kind = JOURNAL_SCALE;
        w->numbers[0] = 0.75f;
        break;
    case 11:
        w->kind = JOURNAL_PRUNE;
        w->numbers[0] = 0.1f;
        break;
    case 12:
        w->kind = JOURNAL_REMOVE_NODES;
        set_tensors(w, false, false);
        w->tensors[JOURNAL_IDS].rows = 1;
        break;
    default: break;
    }
}

static void describe(struct journal_write *w, uint32_t nth)
{
    memset(w, 0, sizeof *w);
    w->version = nth + 1;
    if (nth >= 4 && nth <= 12) describe_graph(w, nth);
    switch (nth) {
    case 0:
    case 16:
    case 19:
        set(w, JOURNAL_CREATE, RESIDENT_COLLECTION, nth == 0 ? "rows" : nth == 16 ? "~new" : "~no");
        w->dimension = 4;
        w->metric = METRIC_DOT;
        break;
    case 1:
    case 17:
        set(w, JOURNAL_ROWS, RESIDENT_COLLECTION, nth == 1 ? "rows" : "~new");
        set_tensors(w, false, false);
        set_rows(w, 4, numbers);
        w->token.token[1] = nth;
        w->token.operation = OPERATION_UPSERT;
        break;
    case 2:
        set(w, JOURNAL_DELETE, RESIDENT_COLLECTION, "rows");
        set_tensors(w, false, false);
        w->tensors[JOURNAL_IDS].rows = 2;
        break;
    case 3: set(w, JOURNAL_TOKEN, RESIDENT_COLLECTION, "rows"); break;
    case 13:
        set(w, JOURNAL_CREATE, RESIDENT_ATTRACTOR, "mind");
        w->dimension = 4;
        w->numbers[0] = 0.5f;
        w->numbers[1] = 0.01f;
        break;
    case 14:
        set(w, JOURNAL_SET_WEIGHTS, RESIDENT_ATTRACTOR, "mind");
        set_rows(w, 4, small);
        break;
    case 15:
        set(w, JOURNAL_LEARN, RESIDENT_ATTRACTOR, "mind");
        set_rows(w, 2, numbers);
        break;
    case 18:
        set(w, JOURNAL_SWAP, RESIDENT_COLLECTION, "rows");
        strcpy(w->other, "~new");
        break;
    case 20: set(w, JOURNAL_DROP, RESIDENT_COLLECTION, "~no"); break;
    default: break;
    }
}

void journal_house_do(struct journal_house *h, uint32_t nth)
{
    struct failure f = {0};
    struct replay r = {.store = h->in.store, .heap = h->in.heap, .kernels = vectors_variant(0)};
    struct journal_write w;
    describe(&w, nth);
    cr_assert_eq(replay_write(&r, &w, &f), STATUS_OK, "%u: %s", nth, f.text);
}

uint64_t journal_house_add(struct journal_house *h, uint32_t nth)
{
    struct journal_entry *e = calloc(1, sizeof *e);
    describe(&e->write, nth);
    return journal_add(h->journal, e);
}

uint64_t journal_house_write(struct journal_house *h, uint32_t nth)
{
    journal_house_do(h, nth);
    return journal_house_add(h, nth);
}

enum status journal_house_replay(const char *path, const struct journal_base *base, bool salvage,
                                 const struct journal_house *h, struct journal_end *end,
                                 struct failure *f)
{
    struct journal_house again;
    journal_house_open(&again, path);
    struct replay r = {
        .store = again.in.store, .heap = again.in.heap, .kernels = vectors_variant(0)};
    enum status st = journal_chain_replay(&again.folder, base, &r, salvage, end, f);
    if (!st && h) persist_house_compare(&h->in, &again.in);
    journal_house_close(&again);
    return st;
}
