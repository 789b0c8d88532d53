#include "daemon/report/slow_log.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { TALLIES = 1024 };

/* How many there are of each key. */
struct slow_tally {
    uint64_t keys[TALLIES]; /* 0: none */
    uint16_t counts[TALLIES];
};

static uint16_t *tally_of(struct slow_tally *t, uint64_t key)
{
    size_t at = key % TALLIES;
    while (t->keys[at] && t->keys[at] != key)
        at = (at + 1) % TALLIES;
    t->keys[at] = key;
    return &t->counts[at];
}

static uint64_t key_of(const char *name)
{
    return XXH3_64bits(name, strlen(name)) | 1;
}

static const struct slow_owner *owner_at(const struct slow_log *l, uint32_t i)
{
    return &l->owners[l->order[i]];
}

/* Of which peer one has to go for another of `fresh`: of the one with most, and of these of the one
 * whose oldest is the oldest. */
static uint64_t peer_with_most(const struct slow_log *l, const struct slow_owner *fresh)
{
    struct slow_tally peers = {0};
    uint64_t found = 0;
    uint16_t most = 0;
    *tally_of(&peers, fresh->peer) = 1;
    for (uint32_t i = 0; i < l->kept_count; i++)
        ++*tally_of(&peers, owner_at(l, i)->peer);
    for (uint32_t i = 0; i < l->kept_count; i++) {
        uint16_t here = *tally_of(&peers, owner_at(l, i)->peer);
        if (here > most) found = owner_at(l, i)->peer;
        if (here > most) most = here;
    }
    return found;
}

/* Of that peer, the oldest of the space with most; an index of l->order. */
static uint32_t find_oldest_of_most(const struct slow_log *l, const struct slow_owner *fresh,
                                    uint64_t peer)
{
    struct slow_tally spaces = {0};
    uint32_t found = 0;
    uint16_t most = 0;
    if (fresh->peer == peer) *tally_of(&spaces, fresh->space) = 1;
    for (uint32_t i = 0; i < l->kept_count; i++)
        if (owner_at(l, i)->peer == peer) ++*tally_of(&spaces, owner_at(l, i)->space);
    for (uint32_t i = 0; i < l->kept_count; i++) {
        if (owner_at(l, i)->peer != peer) continue;
        uint16_t here = *tally_of(&spaces, owner_at(l, i)->space);
        if (here > most) found = i;
        if (here > most) most = here;
    }
    return found;
}

/* Returns the place for one more, which becomes the newest. */
static uint16_t take_place(struct slow_log *l, const struct slow_owner *fresh)
{
    uint16_t place = (uint16_t)l->kept_count;
    if (l->kept_count == SLOW_KEPT) {
        uint32_t i = find_oldest_of_most(l, fresh, peer_with_most(l, fresh));
        place = l->order[i];
        l->kept_count--;
        memmove(&l->order[i], &l->order[i + 1], (l->kept_count - i) * sizeof *l->order);
    }
    l->order[l->kept_count++] = place;
    l->owners[place] = *fresh;
    return place;
}

static uint64_t between(uint64_t from_ns, uint64_t to_ns)
{
    return from_ns && to_ns > from_ns ? to_ns - from_ns : 0;
}

const struct wire_slow *slow_log_add(struct slow_log *l, const struct job *j, const char *peer,
                                     uint64_t now_ns)
{
    const struct slow_owner owner = {key_of(peer), key_of(j->space->name)};
    struct wire_slow *s = &l->kept[take_place(l, &owner)];
    const struct ticket *t = &j->ticket;
    bool on_cpu = j->backend == BACKEND_CPU;
    *s = (struct wire_slow){
        .number = ++l->count,
        .answered_ns = now_ns,
        .request_id = j->key.request_id,
        .operation = j->operation,
        .code = j->failure.code,
        .detail = j->failure.code ? j->failure.detail : DETAIL_NONE,
        .backend = j->backend,
        .reason = j->reason,
        .total_ns = between(j->received_ns, now_ns),
        .queue_ns = between(j->received_ns, j->started_ns),
        .run_ns = between(j->started_ns, j->finished_ns),
        .copy_ns = j->copy_ns,
        .predicted_ns = on_cpu ? t->cpu_ns : t->gpu_ns,
        .other_ns = on_cpu ? t->gpu_ns : t->cpu_ns,
        .wait_ns = t->wait_ns,
        .version = j->result.version,
        .screen = j->screen,
        .batch = j->batch,
        .dimension = t->work.stride,
        .k = t->work.k,
        .queries = t->work.queries,
        .rows = t->work.rows,
        .request_bytes = j->body_bytes,
        .reply_bytes = j->failure.code ? 0 : j->result.body_bytes,
    };
    snprintf(s->space, sizeof s->space, "%s", j->space->name);
    snprintf(s->name, sizeof s->name, "%s", j->request.names[0]);
    snprintf(s->peer, sizeof s->peer, "%s", peer);
    return s;
}

void slow_log_page(const struct slow_log *l, const struct slow_log_view *view, uint64_t before,
                   struct wire_slowlog *out)
{
    out->count = 0;
    out->next = 0;
    out->total = l->count;
    for (uint32_t i = l->kept_count; i-- > 0;) {
        const struct wire_slow *s = &l->kept[l->order[i]];
        if (before && s->number >= before) continue;
        if (!view->all && strcmp(s->space, view->space) != 0) continue;
        if (out->count == ENCODE_SLOW_MAX) {
            out->next = s->number + 1;
            return;
        }
        out->tells_peer[out->count] = view->all || strcmp(s->peer, view->peer) == 0;
        out->requests[out->count++] = s;
    }
}

void slow_log_copy(const struct slow_log *l, uint64_t now_ns, struct slow_copy *out)
{
    out->now_ns = now_ns;
    out->total = l->count;
    out->count = l->kept_count;
    for (uint32_t i = 0; i < out->count; i++)
        out->requests[i] = l->kept[l->order[l->kept_count - 1 - i]];
}
