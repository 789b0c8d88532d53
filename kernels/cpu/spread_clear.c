/* spread_clear: after a run its workspace is made zero again. What is long is cut into pieces of
 * the same length, which any threads clear; the places of few nodes come before that, one by one,
 * since the lists that name them are cleared with the rest. */
#include "kernels/cpu/spread_inside.h"

#include <string.h>

enum {
    PIECE_BYTES = 256 << 10,
    PIECE_NODES = 4096,
    DENSE_SHARE = 16 /* above this part of the nodes, clearing all places is cheaper */
};

void spread_clear(const struct spread_run *r, void *data, uint64_t bytes)
{
    char *at = data;
    for (uint64_t n; bytes; at += n, bytes -= n) {
        n = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
        memset(at, 0, n);
        spread_give_way(r);
    }
}

/* ---- what is soiled ---- */

static void soil_front(const struct spread_run *r, struct spread_state *s,
                       struct spread_front *front)
{
    uint32_t gains = r->question->mode == SPREAD_LINEAR ? 1 : SPREAD_GAINS;
    uint32_t count = front->sent_full ? 0 : front->count;
    if (count < front->count_max) count = front->count_max;
    if (front->sent_soiled) spread_soil(s, front->sent, r->graph->nodes * sizeof *front->sent);
    spread_soil(s, front->nodes, count * sizeof *front->nodes);
    for (uint32_t i = 0; i < gains; i++)
        spread_soil(s, front->gains[i], count * sizeof *front->gains[i]);
}

static bool clears_all_places(const struct spread_run *r, const struct spread_state *s)
{
    return !s->dense && s->records_max > r->graph->nodes / DENSE_SHARE;
}

void spread_run_close(struct spread_run *r)
{
    struct spread_state *s = spread_state_of(r);
    if (!s->places || s->step >= SPREAD_STEP_CLOSED) return;
    if (s->record_count > s->records_max) s->records_max = s->record_count;
    if (s->dense) spread_dense_soil(r);
    if (clears_all_places(r, s)) spread_soil(s, s->places, r->graph->nodes * sizeof *s->places);
    spread_soil(s, s->records, s->records_max * sizeof *s->records);
    uint32_t targets = s->target_count > s->targets_max ? s->target_count : s->targets_max;
    spread_soil(s, s->targets, targets * sizeof *s->targets);
    for (uint32_t f = 0; f < 2; f++)
        soil_front(r, s, &s->fronts[f]);
    if (s->scratch_soiled) spread_soil(s, s->scratch, SPREAD_SCRATCH * sizeof *s->scratch);
    if (s->pull_parts) spread_soil(s, s->starts, (s->pull_parts + 1) * sizeof *s->starts);
    spread_soil(s, s->similar, s->similar_max * sizeof *s->similar);
    if (s->scatter_parts) spread_soil(s, s->starts, (s->scatter_parts + 1) * sizeof *s->starts);
    if (s->scatter_parts)
        spread_soil(s, s->start_edges, (s->scatter_parts + 1) * sizeof *s->start_edges);
    s->step = SPREAD_STEP_CLOSED;
}

/* ---- steps ---- */

static uint32_t parts_of(uint64_t count, uint64_t each)
{
    return (uint32_t)((count + each - 1) / each);
}

/* Nodes whose places are cleared one by one: those with records, then the targets. In a dense run,
 * all places are clear. */
static uint64_t places_to_clear(const struct spread_run *r, const struct spread_state *s)
{
    if (s->dense || clears_all_places(r, s)) return 0;
    return (uint64_t)s->records_max + s->target_count;
}

static uint64_t bytes_to_clear(const struct spread_state *s)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < s->soiled_count; i++)
        bytes += s->soiled[i].bytes;
    return bytes;
}

uint32_t spread_clear_next(struct spread_run *r)
{
    struct spread_state *s = spread_state_of(r);
    if (s->step == SPREAD_STEP_CLOSED) {
        s->step = SPREAD_STEP_CLEAR_PLACES;
        s->parts = parts_of(places_to_clear(r, s), PIECE_NODES);
        if (s->parts) return s->parts;
    }
    if (s->step == SPREAD_STEP_CLEAR_PLACES) {
        s->step = SPREAD_STEP_CLEAR;
        s->parts = parts_of(bytes_to_clear(s), PIECE_BYTES);
        if (s->parts) return s->parts;
    }
    memset(s, 0, sizeof *s);
    return 0;
}

static void clear_places(struct spread_state *s, uint64_t first, uint64_t end)
{
    for (uint64_t i = first; i < end; i++) {
        uint32_t node = i < s->records_max ? s->records[i].node : s->targets[i - s->records_max];
        memset(&s->places[node], 0, sizeof s->places[node]);
    }
}

/* Clears bytes first .. end - 1 of the soiled areas, one behind the other. */
static void clear_bytes(const struct spread_state *s, uint64_t first, uint64_t end)
{
    for (uint32_t i = 0; i < s->soiled_count && end; i++) {
        struct spread_soiled area = s->soiled[i];
        uint64_t last = end < area.bytes ? end : area.bytes;
        if (first < last) memset(area.at + first, 0, last - first);
        first -= first < area.bytes ? first : area.bytes;
        end -= last;
    }
}

void spread_clear_part(struct spread_run *r, uint32_t part)
{
    struct spread_state *s = spread_state_of(r);
    bool places = s->step == SPREAD_STEP_CLEAR_PLACES;
    uint64_t each = places ? PIECE_NODES : PIECE_BYTES, first = part * each, end = first + each;
    uint64_t most = places ? places_to_clear(r, s) : bytes_to_clear(s);
    if (end > most) end = most;
    if (places)
        clear_places(s, first, end);
    else
        clear_bytes(s, first, end);
    spread_give_way(r);
}

void spread_run_end(struct spread_run *r)
{
    const struct spread_state *s = spread_state_of(r);
    if (!s->places) return; /* it is clear, state and all */
    spread_run_close(r);
    uint32_t parts = s->step == SPREAD_STEP_CLOSED ? spread_clear_next(r) : s->parts;
    for (; parts; parts = spread_clear_next(r))
        for (uint32_t part = 0; part < parts; part++)
            spread_clear_part(r, part);
}
