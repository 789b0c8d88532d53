/* fuzz_receive: bytes of several connections through the front's whole receive path: net, wire,
 * pipeline, scheduler, operations on a CPU that is played here, store, live settings, and back. One
 * thread, on a clock that the input moves. The last connection is an operator's; the others are two
 * users'. An input is a list of actions (one byte: what, and on which connection): a greeting, a
 * frame whose header is right, bytes as they are, a client that does not read, one that goes, time
 * that passes. Every frame that comes back is whole and says that it is a reply, and at the end
 * nothing is left of anybody. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/exec/steps.h"
#include "daemon/live_settings.h"
#include "daemon/net/connection.h"
#include "daemon/ops/operation.h"
#include "daemon/request/pipeline.h"

enum {
    CLIENTS = 4,
    JOBS_MAX = 64,
    HEAP_MIB = 24,
    WORKERS = 2,
    TURNS_AT_END = 64,
    FRAME_BODY_UNIT = 64,
    BODY_UNITS_MAX = 16386, /* just more than body_mib_max */
};

#define MS       UINT64_C(1000000)
#define BEGIN_NS (1000000 * MS)

struct fuzz_client {
    struct connection *c; /* NULL: not connected */
    bool greeted, is_deaf;
    uint8_t head[FRAME_HEADER_BYTES]; /* of the frame that is coming back */
    uint64_t head_bytes, body_left;
};

static struct {
    struct config config;
    uint64_t now_ns;
    struct net net;
    struct heap *heap;
    struct store *store;
    struct done done;
    struct backend cpu;
    struct pipeline *pipeline;
    struct live_settings live;
    struct fuzz_client clients[CLIENTS];
    struct connection *closing[2 * CLIENTS];
    uint32_t closing_count;
    struct job *jobs[JOBS_MAX]; /* that the CPU has */
    uint32_t job_count;
    uint64_t next_id;
    const uint8_t *at, *end; /* of the input */
} f;

static void expect(bool holds)
{
    if (!holds) abort();
}

/* ---- the CPU: a job at a time, to its end ---- */

static void run(struct backend *b, struct job *j, void (*step)(struct job *j))
{
    expect(f.job_count < JOBS_MAX);
    j->step = step;
    f.jobs[f.job_count++] = j;
}

static enum status submit(struct backend *b, struct job *j)
{
    enum status st = operation_find(j->operation)->plan(j);
    if (!st) run(b, j, steps_begin_plan);
    return st;
}

static const struct backend_ops played = {.name = "played", .submit = submit, .run = run};

static void run_one(uint32_t which)
{
    struct job *j = f.jobs[which];
    f.jobs[which] = f.jobs[--f.job_count];
    while (steps_run(j))
        for (uint32_t i = 0; i < j->parts.count; i++)
            steps_try_part(j, i, i % WORKERS);
    done_push(&f.done, j);
}

static void nobody(void *owner) {}

/* ---- the clients' end ---- */

static struct fuzz_client *client_of(struct connection *c)
{
    return c->carrier;
}

static void check_head(struct fuzz_client *client)
{
    uint64_t words[4];
    memcpy(words, client->head, sizeof words);
    uint16_t flags = (uint16_t)(words[0] >> 48);
    expect((uint32_t)words[0] == FRAME_MAGIC && (uint8_t)(words[0] >> 32) == FRAME_VERSION);
    expect(flags == FRAME_FLAG_REPLY || flags == (FRAME_FLAG_REPLY | FRAME_FLAG_ERROR) ||
           flags == (FRAME_FLAG_REPLY | FRAME_FLAG_PROGRESS));
    struct frame_header h = {.message_bytes = (uint32_t)words[2], .body_bytes = words[3]};
    expect(h.message_bytes <= FRAME_MESSAGE_BYTES_MAX && h.body_bytes % FRAME_ALIGN == 0);
    expect(flags == FRAME_FLAG_REPLY || !h.body_bytes);
    client->body_left = frame_body_offset(&h) - FRAME_HEADER_BYTES + h.body_bytes;
    client->head_bytes = 0;
}

/* Each byte decides something, so that valgrind tells of one that nobody wrote. */
static void look_at(const char *bytes, uint64_t count)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += (uint8_t)bytes[i];
    expect(sum <= UINT8_MAX * count);
}

static void hear(struct fuzz_client *client, const char *bytes, uint64_t count)
{
    look_at(bytes, count);
    while (count) {
        uint64_t part =
            client->body_left ? client->body_left : FRAME_HEADER_BYTES - client->head_bytes;
        if (part > count) part = count;
        if (client->body_left) {
            client->body_left -= part;
        } else {
            memcpy(client->head + client->head_bytes, bytes, part);
            client->head_bytes += part;
            if (client->head_bytes == FRAME_HEADER_BYTES) check_head(client);
        }
        bytes += part;
        count -= part;
    }
}

static bool start_reading(struct connection *c)
{
    return true;
}

static void stop_reading(struct connection *c) {}

static int try_write(struct connection *c, const uv_buf_t *bufs, unsigned count)
{
    uint64_t bytes = 0;
    if (client_of(c)->is_deaf) return UV_EAGAIN;
    for (unsigned i = 0; i < count; i++) {
        hear(client_of(c), bufs[i].base, bufs[i].len);
        bytes += bufs[i].len;
    }
    return (int)bytes;
}

/* What a deaf client is sent stays unwritten until it goes. */
static bool write_later(struct connection *c, const uv_buf_t *bufs, unsigned count)
{
    return true;
}

static size_t unwritten(const struct connection *c)
{
    return 1;
}

static void close_later(struct connection *c)
{
    f.closing[f.closing_count++] = c;
    expect(f.closing_count <= 2 * CLIENTS);
    *client_of(c) = (struct fuzz_client){0};
}

static const struct transport transport = {
    .start_reading = start_reading,
    .stop_reading = stop_reading,
    .try_write = try_write,
    .write = write_later,
    .unwritten = unwritten,
    .shutdown = start_reading,
    .close = close_later,
};

static void bury(void)
{
    while (f.closing_count)
        connection_closed(f.closing[--f.closing_count]);
}

/* Sends bytes as far as the daemon reads them; the rest waits in no socket and is gone. */
static void send_bytes(struct fuzz_client *client, const uint8_t *bytes, uint64_t count)
{
    while (count && client->c && client->c->reading) {
        uv_buf_t room = receive_buffer(client->c);
        if (!room.len) {
            receive_bytes(client->c, UV_ENOBUFS);
            return;
        }
        uint64_t part = count < room.len ? count : room.len;
        memcpy(room.base, bytes, part);
        bytes += part;
        count -= part;
        receive_bytes(client->c, (ssize_t)part);
    }
}

/* ---- what an input does ---- */

static uint64_t take(uint32_t bytes)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < bytes && f.at < f.end; i++)
        value |= (uint64_t)*f.at++ << (8 * i);
    return value;
}

static uint64_t left(void)
{
    return (uint64_t)(f.end - f.at);
}

static void connect_client(struct fuzz_client *client)
{
    uint32_t number = (uint32_t)(client - f.clients);
    const struct peer_key who =
        peer_key_of_user(number == CLIENTS - 1 ? geteuid() : 1000 + number % 2);
    *client = (struct fuzz_client){0};
    client->c = connection_attach(&f.net, &who, &transport, client);
}

static void send_frame(struct fuzz_client *client, uint8_t kind, const uint8_t *message,
                       uint64_t message_bytes, uint64_t body_bytes)
{
    static uint8_t frame[FRAME_MESSAGE_BYTES_MAX + BODY_UNITS_MAX * FRAME_BODY_UNIT];
    static const uint8_t hello[] = {8, 1, 16, 1, 34, 3, 'f', 'u', 'z', 48, 1};
    if (kind == OPERATION_HELLO && !message_bytes) {
        message = hello;
        message_bytes = sizeof hello;
    }
    struct frame_header h = {.kind = kind,
                             .flags = f.next_id % 4 ? 0 : FRAME_FLAG_PROGRESS,
                             .request_id = f.next_id++,
                             .message_bytes = (uint32_t)message_bytes,
                             .body_bytes = body_bytes};
    uint64_t head = frame_body_offset(&h), have = left() < body_bytes ? left() : body_bytes;
    memset(frame, 0, head + body_bytes);
    frame_write(&h, frame);
    memcpy(frame + FRAME_HEADER_BYTES, message, message_bytes);
    memcpy(frame + head, f.at, have);
    f.at += have;
    send_bytes(client, frame, head + body_bytes);
}

/* A frame whose header and lengths are right: the kind, how long message and body are, and both. */
static void act_frame(struct fuzz_client *client)
{
    uint8_t kind = (uint8_t)take(1);
    uint64_t message_bytes = take(1), body_bytes = take(2) % BODY_UNITS_MAX * FRAME_BODY_UNIT;
    if (message_bytes > left()) message_bytes = left();
    const uint8_t *message = f.at;
    f.at += message_bytes;
    /* what the input has, so that no input is work for minutes */
    if (body_bytes > frame_align(left())) body_bytes = frame_align(left());
    send_frame(client, kind, message, message_bytes, body_bytes);
}

static void act_bytes(struct fuzz_client *client)
{
    uint64_t count = take(1);
    if (count > left()) count = left();
    send_bytes(client, f.at, count);
    f.at += count;
}

static void turn(void)
{
    net_turn(&f.net);
    do {
        pipeline_collect(f.pipeline);
        net_flush(&f.net);
        pipeline_tick(f.pipeline);
        net_flush(&f.net);
    } while (pipeline_has_arrivals(f.pipeline));
    bury();
}

static void pass(uint64_t ms)
{
    f.now_ns += ms * MS;
    net_sweep(&f.net);
    pipeline_expire(f.pipeline, f.now_ns);
    pipeline_keep_memory(f.pipeline);
    turn();
}

static void act(void)
{
    uint8_t what = (uint8_t)take(1);
    struct fuzz_client *client = &f.clients[what % CLIENTS];
    if (!client->c) connect_client(client);
    if (!client->c) return; /* too many of its user, or no memory */
    switch (what / CLIENTS % 8) {
    case 0: send_frame(client, OPERATION_HELLO, NULL, 0, 0); break;
    case 1:
    case 2: act_frame(client); break;
    case 3: act_bytes(client); break;
    case 4:
        if (f.job_count) run_one(f.job_count - 1 - what % f.job_count);
        break;
    case 5: pass(take(2)); break;
    case 6: client->is_deaf = !client->is_deaf && !client->c->write_busy; break;
    case 7: connection_close(client->c); break;
    }
    turn();
}

/* ---- the beginning and the end ---- */

static uint64_t read_now(void *owner)
{
    return f.now_ns;
}

static const struct clock clock_set = {read_now, NULL};

static enum status accept_all(void *owner, const struct config *fresh, struct failure *why)
{
    return STATUS_OK;
}

/* The level of the log stays: its lines are nobody's here. */
static enum status set_setting(void *owner, const char *name, const char *value, const char *who,
                               struct failure *why)
{
    enum status st = live_settings_set(owner, name, value, who, why);
    log_set_level_name("error");
    return st;
}

static void open_all(bool wants_token)
{
    static struct secret token;
    secret_keep(&token, "fuzz", 4);
    const struct pipeline_options options = {.config = &f.config,
                                             .clock = &clock_set,
                                             .heap = f.heap,
                                             .store = f.store,
                                             .net = &f.net,
                                             .kernels = vectors_choose("scalar"),
                                             .done = &f.done,
                                             .cpu = &f.cpu,
                                             .worker_count = WORKERS,
                                             .token = wants_token ? &token : NULL,
                                             .set_setting = set_setting,
                                             .settings_owner = &f.live,
                                             .instance = 1};
    expect(!pipeline_create(&options, &f.pipeline));
    f.live = (struct live_settings){.config = &f.config,
                                    .asked = f.config,
                                    .path = "",
                                    .pipeline = f.pipeline,
                                    .accept = accept_all};
    struct net_events events = pipeline_net_events(f.pipeline);
    expect(!net_init(&f.net, NULL, &clock_set, f.heap, &f.config, &events));
}

static void begin(bool wants_token)
{
    memset(&f, 0, sizeof f);
    f.now_ns = BEGIN_NS;
    f.cpu.ops = &played;
    f.done.wake = nobody;
    log_set_level_name("error");
    config_defaults(&f.config);
    f.config.connection_max = 2 * CLIENTS;
    f.config.job_max = JOBS_MAX / 2;
    f.config.in_flight_max = 8;
    f.config.body_mib_max = 1;
    f.config.reply_mib_max = 1;
    f.config.worker_inline = false;
    expect(!heap_create((uint64_t)HEAP_MIB << 20, &f.heap));
    expect(!store_create(f.heap, vectors_choose("scalar"), &f.store));
    open_all(wants_token);
}

static void finish(void)
{
    pipeline_drain(f.pipeline);
    net_close(&f.net);
    for (int i = 0; i < TURNS_AT_END && f.job_count; i++) {
        while (f.job_count)
            run_one(0);
        turn();
    }
    expect(!f.job_count);
    bury();
    pipeline_abandon(f.pipeline);
    while (f.job_count)
        run_one(0);
    pipeline_tick(f.pipeline);
    expect(f.net.counters.open == 0);
    net_finish(&f.net);
    pipeline_destroy(f.pipeline);
    store_destroy(f.store);
    expect(heap_usage(f.heap).blocks == 0 && heap_usage(f.heap).bytes_used == 0);
    heap_destroy(f.heap);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    begin(data[0] % 16 == 15);
    f.at = data + 1;
    f.end = data + size;
    while (f.at < f.end)
        act();
    finish();
    return 0;
}
