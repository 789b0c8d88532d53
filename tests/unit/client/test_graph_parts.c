/* Edges that are more than a request may hold: in parts, one after the other. */
#include <poll.h>
#include <stdlib.h>

#include "daemon/ops/operation.h"
#include "tests/unit/client/client_rig.h"

TestSuite(graph_parts, .timeout = 900);

enum { PARTS_MAX = 4096, EDGES = 2000, BOUND = 4096, PART_EDGES = (BOUND - 192) / 20 };

static struct {
    uint32_t parts, sizes[PARTS_MAX];
    uint32_t part_of[EDGES]; /* of the pair whose source that is; parts count from 1 */
    bool torn, early, replace;
} seen;

static void note_part(const struct job *j)
{
    const uint64_t *sources = j->request.ids.data;
    seen.sizes[seen.parts++ % PARTS_MAX] = (uint32_t)j->request.ids.rows;
    seen.replace = j->request.replace;
    for (uint64_t i = 0; i < j->request.ids.rows; i++) {
        uint32_t *part = &seen.part_of[sources[i] % EDGES];
        seen.torn |= *part && *part != seen.parts;
        *part = seen.parts;
    }
}

/* Takes parts, and sees that none comes before the last is answered. argument 1: refuses the third.
 * argument 2: goes away after the second, and is another daemon then; 3: and is the same. */
static void take_parts(struct fake_daemon *d, int fd)
{
    static struct fake_request r;
    static uint8_t frame[1 << 16];
    static struct job j;
    if (!fake_hello(d, fd)) return;
    while (fake_read(fd, &r)) {
        seen.early |= poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 2) > 0;
        if (decode_request(&r.header, r.message, r.body, operation_check, &j)) abort();
        note_part(&j);
        struct failure f;
        failure_set(&f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_WEIGHT, "weights: number 5 is nan");
        size_t n = d->argument == 1 && seen.parts == 3
                       ? encode_error(r.header.kind, r.header.request_id, &f, frame)
                       : fake_answer(&r, frame, sizeof frame);
        if (!fake_write(fd, frame, n)) return;
        if (d->argument >= 2 && seen.parts == 2) {
            d->instance += d->argument == 2;
            return;
        }
    }
}

static uint64_t sources[EDGES], targets[EDGES];
static float edge_weights[EDGES];

static void begin_parts(unsigned argument)
{
    memset(&seen, 0, sizeof seen);
    daemon_.argument = argument;
    daemon_.body_bytes_max = BOUND;
    begin(take_parts);
    for (uint64_t i = 0; i < EDGES; i++)
        sources[i] = i;
}

static uint64_t progress_at;
static bool note_progress(uint64_t done, uint64_t total, void *user)
{
    cr_assert(done > progress_at && done <= total);
    progress_at = done;
    return !user || done < *(uint64_t *)user;
}

#define ADD(again, told, out)                                       \
    ea_graph_add_edges(client, "links",                             \
                       &(ea_graph_edges){.sources = sources,        \
                                         .targets = targets,        \
                                         .weights = edge_weights,   \
                                         .count = EDGES,            \
                                         .replace = (again),        \
                                         .progress = note_progress, \
                                         .user = (told)},           \
                       (out))

Test(graph_parts, edges_in_parts)
{
    ea_graph_counts n;
    begin_parts(0);
    progress_at = 0;
    OK(ADD(false, NULL, &n));
    cr_assert_eq(seen.parts, (EDGES + PART_EDGES - 1) / PART_EDGES);
    cr_assert_eq(seen.sizes[0], PART_EDGES);
    cr_assert(!seen.early, "one after the other");
    cr_assert(n.edges_added == EDGES && n.nodes == 30 && n.version == 7);
    cr_assert_eq(n.missing, seen.parts);
    cr_assert_eq(progress_at, EDGES);
    for (size_t i = 0; i < EDGES; i++)
        cr_assert(seen.part_of[i]);
    end();

    begin_parts(0);
    progress_at = 0;
    uint64_t enough = PART_EDGES + 1;
    cr_assert_eq(ADD(false, &enough, &n), EA_CANCELLED);
    cr_assert_eq(n.edges_added, 2 * PART_EDGES);
    cr_assert_eq(seen.parts, 2);
    end();
}

Test(graph_parts, duplicates_stay_together)
{
    for (uint64_t run = 2; run <= PART_EDGES; run += 1 + run / 4) {
        ea_graph_counts n;
        begin_parts(0);
        progress_at = 0;
        for (uint64_t i = 0; i < EDGES; i++)
            sources[i] = i / run;
        OK(ADD(true, NULL, &n));
        cr_assert(seen.replace);
        cr_assert(!seen.torn, "runs of %zu", (size_t)run);
        cr_assert_eq(n.edges_added, EDGES);
        end();
        begin_parts(0); /* without replace they need not */
        progress_at = 0;
        for (uint64_t i = 0; i < EDGES; i++)
            sources[i] = i / run;
        OK(ADD(false, NULL, &n));
        cr_assert_eq(seen.sizes[0], PART_EDGES);
        end();
    }
    /* More duplicates than a request holds: those before them are there. */
    ea_graph_counts n;
    begin_parts(0);
    progress_at = 0;
    for (uint64_t i = 100; i < 100 + PART_EDGES + 20; i++)
        sources[i] = 100;
    cr_assert_eq(ADD(true, NULL, &n), EA_RESOURCE_EXHAUSTED);
    cr_assert_eq(ea_error_detail(client), DETAIL_BODY_TOO_LARGE);
    cr_assert_eq(n.edges_added, 100);
    end();
}

Test(graph_parts, a_part_that_fails)
{
    ea_graph_counts n;
    begin_parts(1);
    progress_at = 0;
    BAD(ADD(false, NULL, &n));
    cr_assert_eq(ea_error_detail(client), DETAIL_BAD_WEIGHT);
    cr_assert_eq(n.edges_added, 2 * PART_EDGES, "those before it are there");
    cr_assert_eq(seen.parts, 3, "and none after it");
    end();
    for (int replace = 0; replace < 2; replace++) {
        begin_parts(2);
        progress_at = 0;
        cr_assert_eq(ADD(replace, NULL, &n), EA_UNAVAILABLE);
        /* Without replace the loss itself may be what is told: it depends on when it shows. */
        cr_assert(strstr(ea_error_text(client), replace ? "restarted" : ""), "%s",
                  ea_error_text(client));
        cr_assert_eq(n.edges_added, 2 * PART_EDGES);
        cr_assert_eq(seen.parts, 2, "another daemon gets none of it");
        end();
    }
    begin_parts(3); /* with replace, the same daemon gets the lost part again */
    progress_at = 0;
    OK(ADD(true, NULL, &n));
    cr_assert_eq(n.edges_added, EDGES);
    end();
}

Test(graph_parts, a_bound_that_holds_nothing)
{
    daemon_.body_bytes_max = 64;
    begin(fake_serve);
    ea_graph_counts n;
    cr_assert_eq(ADD(false, NULL, &n), EA_RESOURCE_EXHAUSTED);
    cr_assert_eq(n.edges_added, 0);
    end();
}
