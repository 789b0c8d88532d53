#include "tests/support/asks.h"

#include <criterion/criterion.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POOL = 64, QUERIES_MAX = 8, CLIENTS_MAX = 64 };

/* ---------------------------------------------------------------- made */

void asks_set(struct set *t, uint32_t dimension, int metric, size_t count)
{
    set_make(t, dimension, metric, count, POOL);
    for (size_t i = 0; i < count; i++)
        t->ids[i] = 2 * i + 5;
}

static uint64_t roll(uint64_t *state, uint64_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % below;
}

/* Some of the rows, and ids that there are not. */
static void give_filter(struct ask *q, const struct set *t, uint64_t *state)
{
    uint64_t ids = 2 * t->all.count + 20, kind = roll(state, 4);
    if (kind > 1) return;
    uint64_t in_ten = 1 + roll(state, 9), count = 0;
    uint64_t *list = malloc(ids * sizeof *list);
    uint8_t *bitmap = calloc(ids / 8 + 1, 1);
    for (uint64_t id = 0; id < ids; id++) {
        if (roll(state, 10) >= in_ten) continue;
        list[count++] = id;
        bitmap[id / 8] |= (uint8_t)(1 << id % 8);
    }
    q->filter_memory = kind ? (void *)bitmap : list;
    if (kind)
        q->filter = (ea_filter){.bitmap = bitmap, .bitmap_bytes = ids / 8 + 1};
    else
        q->filter = (ea_filter){.ids = list, .id_count = count};
    free(kind ? (void *)list : bitmap);
}

static uint32_t random_k(uint64_t *state)
{
    static const uint32_t below[] = {2, 12, 12, 40, 100, 1000};
    return 1 + (uint32_t)roll(state, below[roll(state, 6)]);
}

static struct asks *make(const struct set *t, size_t count)
{
    struct asks *a = calloc(1, sizeof *a);
    a->set = t;
    a->count = count;
    a->list = calloc(count, sizeof *a->list);
    return a;
}

struct asks *asks_make(const struct set *t, size_t count, uint64_t seed)
{
    struct asks *a = make(t, count);
    uint64_t state = seed;
    for (size_t i = 0; i < count; i++) {
        struct ask *q = &a->list[i];
        q->query_count = 1 + roll(&state, QUERIES_MAX);
        q->queries = t->queries + roll(&state, POOL - QUERIES_MAX) * t->all.dimension;
        q->k = random_k(&state);
        q->has_threshold = roll(&state, 4) == 0;
        q->threshold = ((float)roll(&state, 100) - 50) / 100;
        give_filter(q, t, &state);
    }
    return a;
}

struct asks *asks_make_plain(const struct set *t, size_t count, uint64_t queries, uint32_t k)
{
    struct asks *a = make(t, count);
    for (size_t i = 0; i < count; i++)
        a->list[i] = (struct ask){
            .queries = t->queries + i % (t->query_count - queries + 1) * t->all.dimension,
            .query_count = queries,
            .k = k,
        };
    return a;
}

void asks_spoil(struct asks *a, size_t i, uint64_t number)
{
    struct ask *q = &a->list[i];
    uint64_t floats = q->query_count * a->set->all.dimension;
    float *own = malloc(floats * sizeof *own);
    cr_assert(!q->bad && number < q->query_count);
    memcpy(own, q->queries, floats * sizeof *own);
    own[number * a->set->all.dimension] = NAN;
    q->queries = own;
    q->bad = true;
}

void asks_free(struct asks *a)
{
    for (size_t i = 0; i < a->count; i++) {
        if (a->list[i].bad) free(a->list[i].queries);
        free(a->list[i].filter_memory);
        ea_result_free(&a->list[i].want);
    }
    free(a->list);
    free(a);
}

/* ---------------------------------------------------------------- alone */

static const ea_filter *filter_of(const struct ask *q)
{
    return q->filter.ids || q->filter.bitmap ? &q->filter : NULL;
}

static const float *threshold_of(const struct ask *q)
{
    return q->has_threshold ? &q->threshold : NULL;
}

static bool allows(const ea_filter *f, uint64_t id)
{
    if (f->bitmap) return id / 8 < f->bitmap_bytes && f->bitmap[id / 8] >> id % 8 & 1;
    for (uint64_t i = 0; i < f->id_count; i++)
        if (f->ids[i] == id) return true;
    return false;
}

/* Checks a reply against the arithmetic of docs/arithmetic.md. */
static void expect_reference(const struct set *t, const struct ask *q)
{
    uint64_t n = t->all.count, dimension = t->all.dimension, allowed_count = 0;
    bool *allowed = malloc(n * sizeof *allowed);
    uint64_t *ids = malloc(n * sizeof *ids);
    float *scores = malloc(n * sizeof *scores);
    for (uint64_t i = 0; i < n; i++) {
        allowed[i] = !filter_of(q) || allows(&q->filter, t->ids[i]);
        allowed_count += allowed[i];
    }
    cr_assert_eq(q->want.columns, q->k < allowed_count ? q->k : allowed_count);
    for (uint64_t i = 0; i < q->query_count; i++) {
        size_t hits = reference_knn(&t->all, q->queries + i * dimension, q->k, allowed,
                                    threshold_of(q), ids, scores);
        cr_assert_eq(q->want.counts[i], hits);
        cr_assert_arr_eq(q->want.ids + i * q->want.columns, ids, hits * sizeof *ids);
        cr_assert_arr_eq(q->want.scores + i * q->want.columns, scores, hits * sizeof *scores);
    }
    free(allowed);
    free(ids);
    free(scores);
}

void asks_alone(struct asks *a, ea_client *c, size_t step)
{
    const struct set *t = a->set;
    for (size_t i = 0; i < a->count; i++) {
        struct ask *q = &a->list[i];
        q->want_status = ea_knn(c,
                                &(ea_knn_question){.collection = t->name,
                                                   .queries = q->queries,
                                                   .query_count = q->query_count,
                                                   .dimension = t->all.dimension,
                                                   .k = q->k,
                                                   .filter = filter_of(q),
                                                   .threshold = threshold_of(q)},
                                &q->want);
        cr_assert_eq(q->want_status, q->bad ? EA_INVALID_ARGUMENT : EA_OK, "%s", ea_error_text(c));
        if (q->bad) {
            snprintf(q->want_text, sizeof q->want_text, "%s", ea_error_text(c));
            continue;
        }
        cr_assert_leq(q->want.meta->batch, 1);
        if (step && i % step == 0) expect_reference(t, q);
    }
}

void asks_again(struct asks *a)
{
    for (size_t i = 0; i < a->count; i++) {
        struct ask *q = &a->list[i];
        q->times = 0;
        q->right = false;
        q->text[0] = 0;
        q->meta = (ea_meta){0};
    }
}

/* ---------------------------------------------------------------- all at once */

static bool same(const ea_result *got, const ea_result *want)
{
    uint64_t n = want->rows * want->columns;
    return got->rows == want->rows && got->columns == want->columns &&
           memcmp(got->counts, want->counts, want->rows * sizeof *want->counts) == 0 &&
           memcmp(got->ids, want->ids, n * sizeof *want->ids) == 0 &&
           memcmp(got->scores, want->scores, n * sizeof *want->scores) == 0;
}

static void take(ea_client *c, const ea_answer *answer, void *user)
{
    struct ask *q = user;
    q->times++;
    q->status = answer->status;
    q->right = !q->status && !q->want_status && same(answer->result, &q->want);
    if (!q->status) {
        q->meta = *answer->result->meta;
        return;
    }
    snprintf(q->text, sizeof q->text, "%s", ea_error_text(c));
    q->detail = ea_error_detail(c);
    q->retry_after_ms = ea_error_retry_after_ms(c);
}

void asks_send(struct asks *a, ea_client *const *clients, size_t count)
{
    const struct set *t = a->set;
    for (size_t i = 0; i < a->count; i++) {
        struct ask *q = &a->list[i];
        q->client = clients[i % count];
        cr_assert_eq(ea_knn_send(q->client,
                                 &(ea_knn_question){.collection = t->name,
                                                    .queries = q->queries,
                                                    .query_count = q->query_count,
                                                    .dimension = t->all.dimension,
                                                    .k = q->k,
                                                    .filter = filter_of(q),
                                                    .threshold = threshold_of(q)},
                                 &(ea_send_options){.callback = take,
                                                    .user = q,
                                                    .timeout_us = q->timeout_ms * UINT64_C(1000)},
                                 &q->id),
                     EA_OK, "%s", ea_error_text(q->client));
    }
    for (size_t i = 0; i < count; i++)
        ea_pump(clients[i], 0);
}

void asks_send_at_once(struct asks *a, const struct daemon_process *d, ea_client *const *clients,
                       size_t count)
{
    kill(d->pid, SIGSTOP);
    asks_send(a, clients, count);
    kill(d->pid, SIGCONT);
}

size_t asks_pump(ea_client *const *clients, size_t count, int for_ms)
{
    int64_t until = now_ms() + for_ms;
    for (;;) {
        struct pollfd fds[CLIENTS_MAX];
        size_t left = 0, open = 0;
        for (size_t i = 0; i < count; i++) {
            if (!clients[i] || !ea_pending(clients[i])) continue;
            left += ea_pending(clients[i]);
            fds[open++] = (struct pollfd){.fd = ea_fd(clients[i]), .events = ea_events(clients[i])};
        }
        int64_t wait = until - now_ms();
        if (!left || wait <= 0) return left;
        poll(fds, open, (int)wait);
        for (size_t i = 0; i < count; i++)
            if (clients[i] && ea_pending(clients[i]))
                cr_assert_eq(ea_pump(clients[i], 0), EA_OK, "%s", ea_error_text(clients[i]));
    }
}

void asks_collect(ea_client *const *clients, size_t count)
{
    size_t left = asks_pump(clients, count, scaled_ms(300000));
    cr_assert_eq(left, 0, "%zu requests have no answer", left);
}

/* ---------------------------------------------------------------- looked at */

void asks_expect(const struct asks *a, const char *context)
{
    for (size_t i = 0; i < a->count; i++) {
        const struct ask *q = &a->list[i];
        cr_assert_eq(q->times, 1, "%s: %zu was answered %u times", context, i, q->times);
        cr_assert_eq(q->status, q->want_status, "%s: %zu: %s", context, i, q->text);
        cr_assert_str_eq(q->text, q->want_text, "%s: %zu", context, i);
        cr_assert(q->right || q->status, "%s: %zu differs (%s, batch of %u)", context, i,
                  ea_backend_name(q->meta.backend), q->meta.batch);
    }
}

size_t asks_batched(const struct asks *a)
{
    size_t n = 0;
    for (size_t i = 0; i < a->count; i++)
        n += a->list[i].meta.batch > 1;
    return n;
}

size_t asks_on(const struct asks *a, ea_backend backend)
{
    size_t n = 0;
    for (size_t i = 0; i < a->count; i++)
        n += a->list[i].meta.backend == backend;
    return n;
}

size_t asks_with(const struct asks *a, ea_status status)
{
    size_t n = 0;
    for (size_t i = 0; i < a->count; i++)
        n += a->list[i].times && a->list[i].status == status;
    return n;
}

void asks_connect(struct daemon_process *d, const char *space, ea_client **clients, size_t count)
{
    cr_assert_leq(count, CLIENTS_MAX);
    for (size_t i = 0; i < count; i++) {
        ea_options options = {.socket_path = d->socket_path,
                              .space = space,
                              .timeout_us = GIVE_UP_MS * UINT64_C(1000)};
        cr_assert_eq(ea_open(&options, &clients[i]), EA_OK);
        cr_assert_eq(ea_connect(clients[i]), EA_OK, "%s", ea_error_text(clients[i]));
    }
}

void asks_disconnect(ea_client **clients, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ea_close(clients[i]);
}
