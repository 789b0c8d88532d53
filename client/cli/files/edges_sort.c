#include "client/cli/files/edges_sort.h"

#include <stdlib.h>

struct edge {
    uint64_t source, target;
    float weight;
};

/* So many are sorted or merged between two looks, in some 10 ms. */
enum { STEP = 1 << 16 };

struct sorting {
    struct edge *from, *to;
    uint64_t count, done, of;
    bool (*looks)(void *user, uint64_t done, uint64_t of);
    void *user;
    bool stopped;
};

static bool is_behind(const struct edge *a, const struct edge *b)
{
    return a->source != b->source ? a->source > b->source : a->target > b->target;
}

static bool look(struct sorting *s, uint64_t more)
{
    uint64_t before = s->done / STEP;
    s->done += more;
    if (s->done / STEP != before) s->stopped = !s->looks(s->user, s->done, s->of);
    return !s->stopped;
}

/* Merges runs [first, middle) and [middle, end) of `from` into `to`. */
static bool merge(struct sorting *s, uint64_t first, uint64_t middle, uint64_t end)
{
    uint64_t a = first, b = middle, at = first;
    while (at < end) {
        uint64_t until = end - at > STEP ? at + STEP : end, begun = at;
        while (at < until) {
            bool left = b == end || (a < middle && !is_behind(&s->from[a], &s->from[b]));
            s->to[at++] = s->from[left ? a++ : b++];
        }
        if (!look(s, at - begun)) return false;
    }
    return true;
}

/* Runs of `width` become runs of twice that. */
static bool merge_all(struct sorting *s, uint64_t width)
{
    for (uint64_t first = 0; first < s->count; first += 2 * width) {
        uint64_t left = s->count - first;
        uint64_t middle = first + (left < width ? left : width);
        uint64_t end = first + (left < 2 * width ? left : 2 * width);
        if (!merge(s, first, middle, end)) return false;
    }
    struct edge *was = s->from;
    s->from = s->to;
    s->to = was;
    return true;
}

static bool sort(struct sorting *s)
{
    uint64_t passes = 0;
    for (uint64_t width = 1; width < s->count; width *= 2)
        passes++;
    s->of = passes * s->count;
    for (uint64_t width = 1; width < s->count; width *= 2)
        if (!merge_all(s, width)) return false;
    return true;
}

enum edges_sorted edges_sort(const struct edge_list *edges,
                             bool (*looks)(void *user, uint64_t done, uint64_t of), void *user)
{
    struct sorting s = {.count = edges->count, .looks = looks, .user = user};
    struct edge *list = reallocarray(NULL, edges->count + 1, sizeof *list);
    struct edge *other = reallocarray(NULL, edges->count + 1, sizeof *other);
    enum edges_sorted end = EDGES_NO_MEMORY;
    if (list && other) {
        for (uint64_t i = 0; i < edges->count; i++)
            list[i] = (struct edge){edges->sources[i], edges->targets[i], edges->weights[i]};
        s.from = list;
        s.to = other;
        end = sort(&s) ? EDGES_SORTED : EDGES_STOPPED;
    }
    for (uint64_t i = 0; end == EDGES_SORTED && i < edges->count; i++) {
        edges->sources[i] = s.from[i].source;
        edges->targets[i] = s.from[i].target;
        edges->weights[i] = s.from[i].weight;
    }
    free(list);
    free(other);
    return end;
}
