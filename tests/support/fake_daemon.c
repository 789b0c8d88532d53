#include "daemon/ops/operation.h"
#include "tests/support/fake_daemon.h"
#include "tests/support/fake_inside.h"
#include "tests/support/fake_reports.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_BYTES_MAX = 1 << 20 };

static void die(const char *what)
{
    perror(what);
    abort();
}

static void *run(void *argument)
{
    struct fake_daemon *d = argument;
    while (!atomic_load(&d->stopping)) {
        struct pollfd p = {.fd = d->listener, .events = POLLIN};
        if (poll(&p, 1, 20) <= 0) continue;
        int fd = accept(d->listener, NULL, NULL);
        if (fd < 0) continue;
        atomic_fetch_add(&d->connections, 1);
        d->script(d, fd);
        close(fd);
    }
    return NULL;
}

void fake_restart(struct fake_daemon *d)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, d->path);
    unlink(d->path);
    d->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (d->listener < 0 || bind(d->listener, (struct sockaddr *)&address, sizeof address) ||
        listen(d->listener, 8))
        die("fake daemon");
    atomic_store(&d->stopping, false);
    if (pthread_create(&d->thread, NULL, run, d)) die("fake daemon's thread");
}

void fake_start(struct fake_daemon *d, void (*script)(struct fake_daemon *d, int fd))
{
    static atomic_uint number;
    snprintf(d->path, sizeof d->path, "/tmp/engram-fake-%d-%u.sock", (int)getpid(),
             atomic_fetch_add(&number, 1));
    d->script = script;
    if (!d->instance) d->instance = 1;
    if (!d->body_bytes_max) d->body_bytes_max = 64 << 20;
    if (!d->in_flight_max) d->in_flight_max = 1024;
    fake_restart(d);
}

void fake_stop(struct fake_daemon *d)
{
    atomic_store(&d->stopping, true);
    pthread_join(d->thread, NULL);
    close(d->listener);
    unlink(d->path);
}

static bool read_all(int fd, void *bytes, size_t count)
{
    for (size_t at = 0; at < count;) {
        ssize_t n = read(fd, (char *)bytes + at, count - at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += (size_t)n;
    }
    return true;
}

bool fake_write(int fd, const void *bytes, size_t count)
{
    for (size_t at = 0; at < count;) {
        ssize_t n = send(fd, (const char *)bytes + at, count - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += (size_t)n;
    }
    return true;
}

bool fake_read(int fd, struct fake_request *r)
{
    uint8_t head[FRAME_HEADER_BYTES];
    struct failure f;
    free(r->body);
    r->body = NULL;
    if (!read_all(fd, head, sizeof head)) return false;
    if (frame_parse(head, UINT64_MAX, &r->header, &f)) {
        fprintf(stderr, "fake daemon: %s\n", f.text);
        abort();
    }
    if (!read_all(fd, r->message, frame_body_offset(&r->header) - FRAME_HEADER_BYTES)) return false;
    if (!r->header.body_bytes) return true;
    r->body = aligned_alloc(64, r->header.body_bytes);
    if (!r->body) die("fake daemon: body");
    return read_all(fd, r->body, r->header.body_bytes);
}

bool fake_hello(struct fake_daemon *d, int fd)
{
    struct fake_request *r = calloc(1, sizeof *r);
    uint8_t reply[ENCODE_BYTES_MAX];
    bool good = fake_read(fd, r) && r->header.kind == OPERATION_HELLO;
    struct wire_hello h = {.version = 1,
                           .features = d->features,
                           .instance = d->instance,
                           .server_version = "fake",
                           .space = "default",
                           .limits = {d->body_bytes_max, 64 << 20, 16384, 16384, d->in_flight_max}};
    if (good) good = fake_write(fd, reply, encode_hello(r->header.request_id, &h, reply));
    free(r->body);
    free(r);
    return good;
}

/* ---- answers ---- */

void fake_add(struct job *j, uint8_t *body, size_t slot, enum dtype dtype, uint64_t rows,
              uint64_t columns)
{
    uint64_t elements = rows * columns;
    uint8_t *at = body + j->result.body_bytes;
    for (uint64_t i = 0; i < elements; i++) {
        if (dtype == DTYPE_FLOAT32) memcpy(at + i * 4, &(float){0.5F}, 4);
        if (dtype == DTYPE_UINT32) memcpy(at + i * 4, &(uint32_t){1}, 4);
        if (dtype == DTYPE_UINT64) memcpy(at + i * 8, &i, 8);
        if (dtype == DTYPE_UINT8) at[i] = 1;
    }
    j->result.tensors[slot] = (struct tensor){.dtype = dtype, .rows = rows, .columns = columns};
    j->result.body_bytes += frame_align(elements * dtype_bytes(dtype));
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t at_least(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void add_hits(struct job *j, uint8_t *body, uint64_t n, uint64_t m)
{
    fake_add(j, body, 0, DTYPE_UINT64, n, m);
    fake_add(j, body, 1, DTYPE_FLOAT32, n, m);
    fake_add(j, body, 2, DTYPE_UINT32, n, 1);
}

static void answer_hits(struct job *j, uint8_t *body, uint64_t m)
{
    add_hits(j, body, j->request.queries.rows, m);
}

static void answer_similarity(struct job *j, uint8_t *body)
{
    const struct job_request *q = &j->request;
    bool in_line = q->rows.dtype != DTYPE_NONE;
    uint64_t n = in_line                             ? q->rows.rows
                 : q->filter_ids.dtype != DTYPE_NONE ? at_most(q->filter_ids.rows, 3)
                                                     : 3;
    if (!q->has_threshold) {
        if (!in_line) fake_add(j, body, 0, DTYPE_UINT64, n, 1);
        fake_add(j, body, 1, DTYPE_FLOAT32, q->queries.rows, n);
        return;
    }
    fake_add(j, body, 0, DTYPE_UINT64, q->queries.rows, 1); /* one match each */
    fake_add(j, body, 1, DTYPE_FLOAT32, q->queries.rows, 1);
    fake_add(j, body, 2, DTYPE_UINT64, q->queries.rows + 1, 1);
}

static void answer_fetch(struct job *j, uint8_t *body)
{
    bool by_ids = j->request.ids.dtype != DTYPE_NONE;
    uint64_t n = by_ids ? j->request.ids.rows : at_most(j->request.limit, 3);
    fake_add(j, body, 0, DTYPE_UINT64, n, 1);
    if (by_ids) fake_add(j, body, 1, DTYPE_UINT8, n, 1);
    fake_add(j, body, 2, DTYPE_FLOAT32, n, 4);
}

/* One node of each set, which is its seed. */
static void answer_spread(struct job *j, uint8_t *body)
{
    const struct job_request *q = &j->request;
    uint64_t sets = q->offsets.dtype == DTYPE_NONE ? 1 : q->offsets.rows - 1, n = sets;
    fake_add(j, body, 0, DTYPE_UINT64, sets + 1, 1);
    fake_add(j, body, 1, DTYPE_UINT64, n, 1);
    fake_add(j, body, 2, DTYPE_FLOAT32, n, 1);
    fake_add(j, body, 3, DTYPE_FLOAT32, n, 1);
    fake_add(j, body, 4, DTYPE_UINT32, n, 1);
    fake_add(j, body, 5, DTYPE_UINT32, n, 1);
    fake_add(j, body, 6, DTYPE_UINT64, sets, 1);
    fake_add(j, body, 7, DTYPE_UINT64, sets, 1);
    fake_add(j, body, 8, DTYPE_UINT8, sets, 1);
    fake_add(j, body, 9, DTYPE_FLOAT32, sets, 3);
    if (!q->spread.paths) return;
    fake_add(j, body, 10, DTYPE_UINT64, n + 1, 1);
    fake_add(j, body, 11, DTYPE_UINT64, n, 1);
}

/* Each with one edge. */
static void answer_nodes(struct job *j, uint8_t *body)
{
    uint64_t n = j->request.ids.rows;
    j->result.counts[0] = 2;
    fake_add(j, body, 0, DTYPE_UINT8, n, 1);
    fake_add(j, body, 1, DTYPE_UINT8, n, 1);
    fake_add(j, body, 2, DTYPE_FLOAT32, n, 1);
    fake_add(j, body, 3, DTYPE_UINT32, n, 1);
    fake_add(j, body, 4, DTYPE_UINT32, n, 1);
    if (!j->request.edges) return;
    fake_add(j, body, 5, DTYPE_UINT64, n + 1, 1);
    fake_add(j, body, 6, DTYPE_UINT64, n, 1);
    fake_add(j, body, 7, DTYPE_FLOAT32, n, 1);
}

static void answer_change(struct job *j)
{
    uint64_t n = j->request.ids.rows;
    switch (j->operation) {
    case OPERATION_GRAPH_ADD_EDGES: j->result.counts[0] = n; break;
    case OPERATION_GRAPH_ADD_CSR: j->result.counts[0] = j->request.targets.rows; break;
    case OPERATION_GRAPH_REMOVE_EDGES: j->result.counts[1] = n; break;
    case OPERATION_GRAPH_SET_NODES: j->result.counts[2] = n; break;
    default: j->result.counts[3] = n; break;
    }
    j->result.counts[1] += j->request.replace;
    j->result.counts[4] = 1;
    j->result.rows = 70;
    j->result.nodes = 30;
}

/* Results, or three rows of them new in a collection that has nine then. */
static void answer_holographic(struct job *j, uint8_t *body)
{
    const struct job_request *q = &j->request;
    uint64_t a = q->rows.rows + q->ids.rows, b = q->other_rows.rows + q->other_ids.rows;
    uint64_t n = at_least(a, b);
    if (j->operation == OPERATION_BIND_MANY || j->operation == OPERATION_SUPERPOSE)
        n = q->offsets.rows ? q->offsets.rows - 1 : 1;
    if (j->operation == OPERATION_RANDOM) n = q->limit;
    if (q->names[0][0]) j->result.versions[0] = 5;
    if (q->names[1][0]) j->result.versions[1] = 6;
    if (!q->names[2][0]) {
        fake_add(j, body, RESULT_HOLOGRAPHIC_ROWS, DTYPE_FLOAT32, n, 4);
        return;
    }
    j->result.versions[2] = 7;
    j->result.counts[0] = 3;
    j->result.counts[1] = 1;
    j->result.rows = 9;
}

static void answer_tensors(struct job *j, uint8_t *body)
{
    const struct job_request *q = &j->request;
    switch (j->operation) {
    case OPERATION_KNN: answer_hits(j, body, at_most(q->k, 3)); break;
    case OPERATION_CLEANUP:
        j->result.versions[0] = 7;
        if (q->names[1][0]) j->result.versions[1] = 5;
        if (q->names[2][0]) j->result.versions[2] = 6;
        add_hits(j, body,
                 at_least(q->rows.rows + q->ids.rows, q->other_rows.rows + q->other_ids.rows),
                 at_most(q->k, 3));
        break;
    case OPERATION_SCORE_CANDIDATES:
        if (q->k)
            answer_hits(j, body, at_most(q->k, 3));
        else
            fake_add(j, body, 1, DTYPE_FLOAT32, q->ids.rows + q->rows.rows, 1);
        break;
    case OPERATION_SIMILARITY: answer_similarity(j, body); break;
    case OPERATION_FETCH: answer_fetch(j, body); break;
    case OPERATION_NORMS: fake_add(j, body, 0, DTYPE_FLOAT32, q->rows.rows, 1); break;
    case OPERATION_WEIGHTED_AVERAGE:
        fake_add(j, body, 0, DTYPE_FLOAT32, 1, q->rows.dtype ? q->rows.columns : 4);
        break;
    case OPERATION_BIND:
    case OPERATION_UNBIND:
    case OPERATION_BIND_MANY:
    case OPERATION_SUPERPOSE:
    case OPERATION_PERMUTE:
    case OPERATION_RANDOM: answer_holographic(j, body); break;
    case OPERATION_COMPLETE: fake_completed(j, body); break;
    case OPERATION_COMPLETE_ENGINE:
    case OPERATION_ATTRACTOR_LEARN:
    case OPERATION_ATTRACTOR_FETCH:
    case OPERATION_ATTRACTOR_SET: fake_engine(j, body); break;
    case OPERATION_RECALL: fake_recalled(j, body); break;
    case OPERATION_COVARIANCE: fake_covariance(j, body); break;
    case OPERATION_CLUSTER: fake_clusters(j, body); break;
    case OPERATION_UPSERT: j->result.counts[0] = j->result.rows = q->ids.rows; break;
    case OPERATION_DELETE:
        j->result.counts[0] = q->ids.rows;
        j->result.counts[1] = 1;
        break;
    case OPERATION_SPREAD: answer_spread(j, body); break;
    case OPERATION_GRAPH_FETCH_NODES: answer_nodes(j, body); break;
    case OPERATION_GRAPH_ADD_WEIGHTS:
        answer_change(j);
        fake_add(j, body, 0, DTYPE_FLOAT32, q->ids.rows, 1);
        break;
    case OPERATION_GRAPH_ADD_EDGES:
    case OPERATION_GRAPH_ADD_CSR:
    case OPERATION_GRAPH_REMOVE_EDGES:
    case OPERATION_GRAPH_SET_NODES:
    case OPERATION_GRAPH_SCALE:
    case OPERATION_GRAPH_PRUNE:
    case OPERATION_GRAPH_REMOVE_NODES: answer_change(j); break;
    default: break;
    }
}

/* 150 names in three pages. */
static size_t answer_list(uint64_t id, enum operation operation, const char *after, void *head)
{
    struct collection_info infos[64];
    struct graph_info graphs[64];
    struct attractor_info attractors[64];
    char names[64][16];
    size_t count = 0;
    int first = after[0] ? atoi(after + 1) + 1 : 0;
    while (count < 64 && first + (int)count < 150) {
        snprintf(names[count], sizeof names[count], "c%03d", first + (int)count);
        infos[count] = (struct collection_info){.name = names[count], .dimension = 4};
        graphs[count] = (struct graph_info){.name = names[count], .nodes = count};
        attractors[count] = (struct attractor_info){.name = names[count], .patterns = count};
        count++;
    }
    bool more = first + (int)count < 150;
    if (operation == OPERATION_ATTRACTOR_LIST)
        return encode_attractor_list(id, attractors, count, more, head);
    return operation == OPERATION_GRAPH_LIST ? encode_graph_list(id, graphs, count, more, head)
                                             : encode_collection_list(id, infos, count, more, head);
}

static const struct attractor_info fake_attractor = {.name = "traces",
                                                     .dimension = 4,
                                                     .kept = 2,
                                                     .sparsity = 0.5F,
                                                     .rate = 0.25F,
                                                     .version = 5,
                                                     .patterns = 6,
                                                     .weight_bytes = 64,
                                                     .dentate_bytes = 640};

size_t fake_answer(const struct fake_request *r, uint8_t *frame, size_t size)
{
    static _Thread_local struct job j;
    memset(&j, 0, sizeof j);
    uint64_t id = j.key.request_id = r->header.request_id;
    enum status st = decode_request(&r->header, r->message, r->body, operation_check, &j);
    if (st) return encode_error(r->header.kind, id, &j.failure, frame);
    const struct collection_info info = {.name = "rows",
                                         .dimension = 4,
                                         .metric = METRIC_DOT,
                                         .vram_bytes = 4096,
                                         .vram_version = 6,
                                         .shadow = {.rows = 9,
                                                    .bytes = 780,
                                                    .lost = 0.0075,
                                                    .age_ns = 5000000,
                                                    .screened = 900,
                                                    .passed = 12}};
    const struct graph_info graph = {.name = "links",
                                     .nodes = 30,
                                     .edges = 70,
                                     .version = 5,
                                     .edge_bytes = 1120,
                                     .node_bytes = 1920,
                                     .work_bytes = 9,
                                     .out_count_max = 8,
                                     .in_count_max = 6,
                                     .kinds = {25, 3, 2},
                                     .vram_bytes = 4096,
                                     .vram_version = 4};
    switch (j.operation) {
    case OPERATION_PING: return encode_ping(id, frame);
    case OPERATION_INFO: return encode_info(id, &fake_info, frame);
    case OPERATION_STATS: return encode_stats(id, &fake_stats, frame);
    case OPERATION_EXPLAIN: return encode_explain(id, &fake_explain, frame);
    case OPERATION_CANCEL: return encode_cancel(id, true, frame);
    case OPERATION_COLLECTION_CREATE:
    case OPERATION_COLLECTION_DESCRIBE: return encode_collection(j.operation, id, &j, &info, frame);
    case OPERATION_GRAPH_CREATE:
    case OPERATION_GRAPH_DESCRIBE: return encode_graph(j.operation, id, &j, &graph, frame);
    case OPERATION_ATTRACTOR_CREATE:
    case OPERATION_ATTRACTOR_DESCRIBE:
        return encode_attractor(j.operation, id, &j, &fake_attractor, frame);
    case OPERATION_COLLECTION_LIST:
    case OPERATION_ATTRACTOR_LIST:
    case OPERATION_GRAPH_LIST: return answer_list(id, j.operation, j.request.names[0], frame);
    default: break;
    }
    uint8_t *body = calloc(1, ANSWER_BYTES_MAX);
    j.backend = BACKEND_CPU;
    j.reason = REASON_GPU_ABSENT;
    j.result.version = 7;
    answer_tensors(&j, body);
    size_t head_bytes = encode_result(&j, frame);
    if (head_bytes + j.result.body_bytes > size) abort();
    memcpy(frame + head_bytes, body, j.result.body_bytes);
    free(body);
    return head_bytes + j.result.body_bytes;
}

void fake_serve(struct fake_daemon *d, int fd)
{
    struct fake_request *r = calloc(1, sizeof *r);
    uint8_t *frame = malloc(ANSWER_BYTES_MAX);
    if (fake_hello(d, fd))
        while (fake_read(fd, r))
            if (!fake_write(fd, frame, fake_answer(r, frame, ANSWER_BYTES_MAX))) break;
    free(frame);
    free(r->body);
    free(r);
}

void fake_serve_backwards(struct fake_daemon *d, int fd)
{
    struct fake_request *r = calloc(3, sizeof *r);
    uint8_t *frame = malloc(ANSWER_BYTES_MAX);
    if (fake_hello(d, fd) && fake_read(fd, &r[0]) && fake_read(fd, &r[1]) && fake_read(fd, &r[2]))
        for (int i = 2; i >= 0; i--)
            fake_write(fd, frame, fake_answer(&r[i], frame, ANSWER_BYTES_MAX));
    while (fake_read(fd, &r[0])) {
    }
    for (int i = 0; i < 3; i++)
        free(r[i].body);
    free(frame);
    free(r);
}

void fake_serve_split(struct fake_daemon *d, int fd)
{
    struct fake_request *r = calloc(1, sizeof *r);
    uint8_t *frame = malloc(ANSWER_BYTES_MAX);
    size_t cut = 1;
    if (fake_hello(d, fd))
        while (fake_read(fd, r)) {
            size_t n = fake_answer(r, frame, ANSWER_BYTES_MAX);
            size_t first = cut++ % n;
            if (!fake_write(fd, frame, first)) break;
            nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
            if (!fake_write(fd, frame + first, n - first)) break;
        }
    free(r->body);
    free(frame);
    free(r);
}
