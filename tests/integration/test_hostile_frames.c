/* Requests of every kind with bits flipped, over Unix and TCP by turns, to the CPU and to a
 * simulated card: whatever they get is a whole reply to a request that was sent and not answered
 * yet, a witness's bits stay, and memory, descriptors, threads and the card's process are as
 * before. HOSTILE_FRAMES: how many, to each of the two; HOSTILE_SEED repeats a run, but for the
 * daemon's own timing. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/gpu_scene.h"

enum {
    FRAMES = 3000,
    IN_A_ROW = 24,
    CHECK_EVERY = 16, /* connections */
};

static unsigned long asked(const char *name, unsigned long otherwise)
{
    const char *text = getenv(name);
    return text ? strtoul(text, NULL, 0) : otherwise;
}

static uint16_t port_of(const struct daemon_process *d)
{
    static const char listening[] = "listening on 127.0.0.1 port ";
    char line[512];
    unsigned long port = 0;
    wait_logged(d, listening);
    FILE *in = fopen(d->log_path, "r");
    cr_assert(in);
    while (fgets(line, sizeof line, in)) {
        const char *at = strstr(line, listening);
        if (at) port = strtoul(at + sizeof listening - 1, NULL, 10);
    }
    fclose(in);
    return (uint16_t)port;
}

static int connect_tcp(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    raw_hello(fd, "hostile");
    return fd;
}

static size_t thread_count(pid_t pid)
{
    char path[64];
    size_t count = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    cr_assert(tasks);
    for (struct dirent *e; (e = readdir(tasks));)
        count += e->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* ---------------------------------------------------------------- what is sent */

static void flip(unsigned *seed, uint8_t *bytes, size_t first, size_t count)
{
    for (int flips = 1 + rand_r(seed) % 4; flips && first < count; flips--) {
        size_t span = rand_r(seed) % 4 && count - first > 64 ? 64 : count - first;
        bytes[first + (size_t)rand_r(seed) % span] ^= (uint8_t)(1 << rand_r(seed) % 8);
    }
}

/* One frame in eight is as it should be, so that there is something for the others to meet. The
 * last one is bent in its header or cut short, which ends what can be read of a connection. */
static size_t draw_frame(unsigned *seed, uint64_t id, bool last, uint8_t *bytes)
{
    struct sample sample;
    sample_get((size_t)rand_r(seed) % sample_count(), &sample);
    size_t count = sample_frame(&sample, id, bytes);
    if (last && rand_r(seed) % 4 == 0) return 1 + (size_t)rand_r(seed) % count;
    if (last)
        flip(seed, bytes, 0, FRAME_HEADER_BYTES);
    else if (rand_r(seed) % 8)
        flip(seed, bytes, FRAME_HEADER_BYTES, count);
    return count;
}

/* Reads to the end. Ids of requests are 1 .. sent; the last one's may be bent, to another's as
 * well, and an error about the connection has none. */
static void read_replies(int fd, uint64_t sent)
{
    static uint8_t message[FRAME_MESSAGE_BYTES_MAX];
    bool answered[IN_A_ROW + 1] = {false};
    struct frame_header h;
    void *body;
    uint64_t odd = 0;
    while (raw_receive_frame(fd, &h, message, &body)) {
        free(body);
        cr_assert(h.flags == FRAME_FLAG_REPLY || h.flags == (FRAME_FLAG_REPLY | FRAME_FLAG_ERROR),
                  "flags %u", h.flags);
        cr_assert_leq(h.message_bytes, FRAME_MESSAGE_BYTES_MAX);
        bool is_known = h.request_id > 0 && h.request_id < sent && !answered[h.request_id];
        if (is_known)
            answered[h.request_id] = true;
        else
            cr_assert_leq(++odd, 2, "request %llu is answered, again or without being sent",
                          (unsigned long long)h.request_id);
    }
}

/* Sends some, says no more, and reads what there is until the daemon closes. */
static unsigned long send_some(int fd, unsigned *seed)
{
    static uint8_t bytes[SAMPLE_BYTES_MAX];
    uint64_t count = 1 + (uint64_t)rand_r(seed) % IN_A_ROW, sent = 0;
    while (sent < count) {
        size_t length = draw_frame(seed, sent + 1, sent + 1 == count, bytes);
        sent++;
        if (!raw_send(fd, bytes, length)) break;
    }
    shutdown(fd, SHUT_WR);
    read_replies(fd, sent);
    close(fd);
    return sent;
}

/* ---------------------------------------------------------------- what must be as before */

static void drop_all(ea_client *c)
{
    ea_collection_info *collections;
    ea_graph_info *graphs;
    ea_attractor_info *attractors;
    size_t count;
    cr_assert_eq(ea_collection_list(c, &collections, &count), EA_OK, "%s", ea_error_text(c));
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(ea_collection_drop(c, collections[i].name), EA_OK, "%s", ea_error_text(c));
    ea_collection_list_free(collections);
    cr_assert_eq(ea_graph_list(c, &graphs, &count), EA_OK, "%s", ea_error_text(c));
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(ea_graph_drop(c, graphs[i].name), EA_OK, "%s", ea_error_text(c));
    ea_graph_list_free(graphs);
    cr_assert_eq(ea_attractor_list(c, &attractors, &count), EA_OK, "%s", ea_error_text(c));
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(ea_attractor_drop(c, attractors[i].name), EA_OK, "%s", ea_error_text(c));
    ea_attractor_list_free(attractors);
}

/* What the hostile ones made, in their space and in those whose names came of flipped bits. */
static void drop_spaces(struct scene *s)
{
    ea_space_info *spaces;
    size_t count;
    cr_assert_eq(ea_get_spaces(s->witness, &spaces, &count), EA_OK, "%s",
                 ea_error_text(s->witness));
    for (size_t i = 0; i < count; i++) {
        ea_client *c = NULL;
        if (!strcmp(spaces[i].name, "witness")) continue;
        ea_options options = {.socket_path = s->daemon.socket_path, .space = spaces[i].name};
        cr_assert_eq(ea_open(&options, &c), EA_OK);
        drop_all(c);
        ea_close(c);
    }
    ea_spaces_free(spaces);
}

struct before {
    size_t threads;
    pid_t gpu;
};

static struct before look(const struct scene *s)
{
    return (struct before){.threads = thread_count(s->daemon.pid),
                           .gpu = gpu_process_of(s->daemon.pid)};
}

static void expect_as_before(struct scene *s, struct before before)
{
    int64_t until = give_up_ms();
    drop_spaces(s);
    while (thread_count(s->daemon.pid) != before.threads) {
        cr_assert_lt(now_ms(), until, "%zu threads, not %zu", thread_count(s->daemon.pid),
                     before.threads);
        wait_ms(5);
    }
    cr_assert_eq(gpu_process_of(s->daemon.pid), before.gpu, "the GPU process ended");
    fprintf(stderr, "resident: %zu KiB, before %zu\n", process_resident_kib(s->daemon.pid),
            s->resident_kib);
}

static void run_campaign(struct scene *s)
{
    unsigned long frames = asked("HOSTILE_FRAMES", FRAMES), sent = 0, connections = 0;
    unsigned seed = (unsigned)asked("HOSTILE_SEED", (unsigned long)now_ms());
    uint16_t port = port_of(&s->daemon);
    struct before before = look(s);
    fprintf(stderr, "HOSTILE_SEED=%u\n", seed);
    while (sent < frames) {
        int fd = connections % 2 ? connect_tcp(port) : scene_connect(s);
        sent += send_some(fd, &seed);
        if (++connections % CHECK_EVERY == 0) scene_check(s);
    }
    expect_as_before(s, before);
    fprintf(stderr, "%lu frames, %lu connections\n", sent, connections);
}

#define TO_ALL                                                                    \
    "tcp.enabled=true", "tcp.port=0", "tcp.host=127.0.0.1", "peers.log_lines=10", \
        "memory.max_mib=512"

Test(hostile_frames, to_the_cpu)
{
    struct scene s;
    scene_open(&s, (const char *[]){TO_ALL, "gpu.devices=none", NULL});
    run_campaign(&s);
    scene_close(&s);
}

Test(hostile_frames, to_a_simulated_card)
{
    struct scene s;
    scene_open(&s, (const char *[]){TO_ALL, "gpu.devices=sim", "gpu.min_pairs=1", "gpu.force=gpu",
                                    "gpu.heartbeat_ms=60000", "gpu.job_ms=300000", NULL});
    wait_logged(&s.daemon, "; ready after");
    run_campaign(&s);
    cr_assert(!daemon_logged(&s.daemon, "device_sim: "), "the device was misused");
    scene_close(&s);
}
