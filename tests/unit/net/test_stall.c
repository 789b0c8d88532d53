/* limits.stall_ms over a real socket, on a clock that is set: who reads its replies slowly stays,
 * who does not read them goes, and a request that the daemon leaves unread is not late. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/net/connection.h"
#include "daemon/net/net.h"

#define MIB (UINT64_C(1) << 20)
#define MS  UINT64_C(1000000)

enum { STALL_MS = 3000, REST_MS = 2900, REPLY_MIB = 8, BODY_BYTES = 256 << 10 };

static struct net net;
static struct config config;
static struct heap *heap;
static uv_loop_t loop;
static uint64_t now_ns = 1000 * MS;
static struct transport carried;
static struct connection *c; /* NULL once it is closed */
static int far_end;          /* the client's, which never blocks */
static uint32_t taken;       /* requests */
static uint32_t told;        /* errors */
static struct job replied;
static unsigned char reply[REPLY_MIB * MIB];

static uint64_t read_now(void *owner)
{
    return now_ns;
}

static const struct clock clock_set = {read_now, NULL};

static void on_frame(void *owner, struct connection *of, const struct frame *f)
{
    taken++;
}

static void on_bad_frame(void *owner, struct connection *of, const struct frame_header *h,
                         const struct failure *why)
{
    cr_assert(h->kind == 0 && h->request_id == 0, "it answers no request");
    cr_assert_eq(why->detail, DETAIL_DEADLINE, "%s", why->text);
    told++;
}

static void on_written(void *owner, struct job *j) {}

static void on_close(void *owner, struct connection *of)
{
    c = NULL;
}

/* The first start finds no stream yet: connection_attach makes none. */
static bool opens_and_starts(struct connection *of)
{
    if (!of->uv.handle.loop) {
        int fds[2];
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
        far_end = fds[1];
        cr_assert_eq(uv_pipe_init(&loop, &of->uv.pipe, 0), 0);
        cr_assert_eq(uv_pipe_open(&of->uv.pipe, fds[0]), 0);
        of->uv.handle.data = of;
    }
    return transport_stream.start_reading(of);
}

static void turn(void)
{
    net_turn(&net);
    uv_run(&loop, UV_RUN_NOWAIT);
    net_flush(&net);
}

static void pass(uint64_t ms)
{
    for (uint64_t past = 0; past < ms && c; past += SWEEP_MS) {
        now_ns += SWEEP_MS * MS;
        net_sweep(&net);
        turn();
    }
}

/* Half a request was too much: its client is told, and then closed. */
static void expect_given_up(void)
{
    cr_expect(!c || c->finishing, "never dropped");
    cr_expect_eq(told, 1);
    pass(CONNECTION_LINGER_MS + 2 * SWEEP_MS);
    cr_expect(!c, "never closed");
    cr_expect_eq(net.counters.dropped, 1);
}

static void open_net(void)
{
    const struct net_events events = {.on_frame = on_frame,
                                      .on_bad_frame = on_bad_frame,
                                      .on_written = on_written,
                                      .on_close = on_close};
    const struct peer_key who = peer_key_of_user(77000);
    carried = transport_stream;
    carried.start_reading = opens_and_starts;
    config_defaults(&config);
    config.stall_ms_max = STALL_MS;
    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(heap_create(64 * MIB, &heap), STATUS_OK);
    cr_assert_eq(net_init(&net, NULL, &clock_set, heap, &config, &events), STATUS_OK);
    c = connection_attach(&net, &who, &carried, NULL);
    cr_assert(c);
    c->greeted = true;
}

static void close_net(void)
{
    net_close(&net);
    uv_run(&loop, UV_RUN_DEFAULT);
    net_finish(&net);
    cr_assert_eq(heap_usage(heap).bytes_used, 0);
    heap_destroy(heap);
    cr_assert_eq(uv_loop_close(&loop), 0);
    close(far_end);
}

static void answer(void)
{
    connection_send_body(c, &replied, reply, sizeof reply);
    turn();
    cr_assert(c && c->write_busy, "a socket took all of it");
}

/* Reads until the socket is empty. Returns how much that was. */
static uint64_t read_what_came(void)
{
    static unsigned char bytes[65536];
    uint64_t all = 0;
    for (ssize_t n; (n = read(far_end, bytes, sizeof bytes)) > 0;)
        all += (uint64_t)n;
    return all;
}

/* The reply is one write, which takes many times limits.stall_ms; some of it is read in each. */
Test(stall, a_slow_reader_gets_everything)
{
    open_net();
    answer();
    uint64_t got = 0;
    unsigned rests = 0;
    while (got < sizeof reply) {
        pass(REST_MS);
        cr_assert(c, "dropped after %llu bytes", (unsigned long long)got);
        uint64_t n = read_what_came();
        cr_assert_gt(n, 0);
        got += n;
        rests++;
        turn();
    }
    cr_expect_gt(rests, 2, "it did not take longer than limits.stall_ms");
    cr_expect_eq(got, sizeof reply);
    pass(10 * STALL_MS);
    cr_expect(c, "dropped, though nothing waits for it");
    cr_expect_eq(net.counters.dropped, 0);
    close_net();
}

Test(stall, who_stops_reading_is_dropped_then_and_not_before)
{
    open_net();
    answer();
    pass(REST_MS);
    cr_assert_gt(read_what_came(), 0);
    turn();
    pass(STALL_MS);
    cr_expect(c, "limits.stall_ms counts from what was read last");
    pass(SWEEP_QUIET_MS + 2 * SWEEP_MS);
    cr_expect(!c, "never dropped");
    cr_expect_eq(net.counters.dropped, 1);
    close_net();
}

/* Half a request is read, and the rest not, because much output waits. */
static void begin_request(uint64_t sent)
{
    static unsigned char frame[FRAME_HEADER_BYTES * 2 + BODY_BYTES];
    struct frame_header h = {.kind = OPERATION_NORMS, .request_id = 2, .body_bytes = BODY_BYTES};
    frame_write(&h, frame);
    cr_assert_lt(sent, frame_body_offset(&h) + BODY_BYTES);
    cr_assert_eq(write(far_end, frame, sent), (ssize_t)sent);
    turn();
}

static void send_rest(uint64_t sent)
{
    static const unsigned char zeros[65536];
    struct frame_header h = {.body_bytes = BODY_BYTES};
    uint64_t whole = frame_body_offset(&h) + BODY_BYTES;
    while (sent < whole) {
        uint64_t part = whole - sent < sizeof zeros ? whole - sent : sizeof zeros;
        ssize_t n = write(far_end, zeros, part);
        if (n > 0) sent += (uint64_t)n;
        turn();
        cr_assert(c, "the daemon closed");
    }
}

Test(stall, waiting_for_the_daemon_is_no_stalling)
{
    enum { SENT = 4096 };
    open_net();
    answer();
    begin_request(SENT);
    cr_assert(c->paused && !c->reading, "it is read, though much output waits");
    uint64_t got = 0, waited_ms = 0;
    while (c->output_bytes >= OUTPUT_HIGH_WATER) {
        cr_assert(!c->reading);
        pass(REST_MS);
        waited_ms += REST_MS;
        cr_assert(c, "dropped after %llu bytes", (unsigned long long)got);
        got += read_what_came();
        turn();
    }
    cr_expect_gt(waited_ms, 2 * STALL_MS);
    pass(STALL_MS); /* the client's time begins anew when the daemon reads again */
    cr_assert(c, "dropped for the daemon's own waiting");
    send_rest(SENT);
    cr_expect_eq(taken, 1);
    cr_expect_eq(net.counters.dropped, 0);
    close_net();
}

Test(stall, half_a_request_and_no_more_is_dropped)
{
    open_net();
    begin_request(4096);
    pass(STALL_MS + BODY_BYTES / 1024); /* a body has a second more for each MiB */
    cr_expect(c, "dropped early");
    pass(SWEEP_QUIET_MS + 2 * SWEEP_MS);
    expect_given_up();
    close_net();
}

/* Of a quiet daemon the last sweep may be nearly two old when something comes. */
Test(stall, what_begins_just_before_a_sweep_has_all_its_time)
{
    open_net();
    net_sweep(&net);
    now_ns += (SWEEP_QUIET_MS - 1) * MS;
    begin_request(4096);
    pass(STALL_MS);
    now_ns += (BODY_BYTES / 1024 - 1) * MS;
    net_sweep(&net);
    turn();
    cr_expect(c, "dropped early");
    pass(SWEEP_QUIET_MS + 2 * SWEEP_MS);
    expect_given_up();
    close_net();
}

static uint64_t due_ms; /* of the timer, when it has been told its pace */
static bool is_quiet;

static void on_timer(uv_timer_t *timer)
{
    net_pace(timer, is_quiet);
    due_ms = uv_timer_get_due_in(timer);
}

/* The next sweep is that much later at once: libuv has set it by the old pace already. */
Test(stall, sweeps_change_their_pace_at_once)
{
    static const bool quiet[] = {true, true, false, false, true, false};
    uv_timer_t timer;
    open_net();
    cr_assert_eq(uv_timer_init(&loop, &timer), 0);
    for (size_t i = 0; i < sizeof quiet / sizeof *quiet; i++) {
        is_quiet = quiet[i];
        due_ms = 0;
        uint64_t pace_ms = i ? uv_timer_get_repeat(&timer) : SWEEP_MS;
        cr_assert_eq(uv_timer_start(&timer, on_timer, 0, pace_ms), 0);
        while (!due_ms)
            uv_run(&loop, UV_RUN_NOWAIT);
        cr_assert_eq(due_ms, is_quiet ? SWEEP_QUIET_MS : SWEEP_MS, "%zu", i);
        cr_assert_eq(uv_timer_get_repeat(&timer), due_ms, "%zu", i);
    }
    uv_close((uv_handle_t *)&timer, NULL);
    close_net();
}

/* A byte now and then does not begin the time anew. */
Test(stall, a_header_in_drips_is_dropped)
{
    open_net();
    begin_request(8);
    for (int i = 0; i < 5; i++) {
        pass(STALL_MS / 5);
        cr_assert(c, "dropped early");
        cr_assert_eq(write(far_end, "", 1), 1);
        turn();
    }
    pass(SWEEP_QUIET_MS + 2 * SWEEP_MS);
    expect_given_up();
    close_net();
}

/* The daemon, or all of the machine, stands still for a while: nobody could send or read. */
static void stand_still(void)
{
    now_ns += 20 * STALL_MS * MS;
    net_sweep(&net);
    turn();
}

Test(stall, a_standstill_is_not_the_readers_fault)
{
    open_net();
    answer();
    pass(REST_MS);
    stand_still();
    cr_assert(c, "dropped though it had no time to read");
    cr_assert_gt(read_what_came(), 0);
    turn();
    pass(STALL_MS);
    cr_expect(c, "limits.stall_ms counts from what was read last");
    pass(SWEEP_QUIET_MS + 2 * SWEEP_MS);
    cr_expect(!c, "never dropped");
    close_net();
}

Test(stall, a_standstill_is_not_the_senders_fault)
{
    enum { SENT = 4096 };
    open_net();
    begin_request(SENT);
    pass(REST_MS);
    stand_still();
    cr_assert(c, "dropped though it had no time to send");
    send_rest(SENT);
    cr_expect_eq(taken, 1);
    begin_request(SENT);
    stand_still();
    pass(STALL_MS + BODY_BYTES / 1024 + SWEEP_QUIET_MS + 2 * SWEEP_MS);
    expect_given_up();
    close_net();
}
