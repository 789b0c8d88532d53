#include "daemon/handover/hand_over.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/fault.h"
#include "daemon/base/memory_file.h"
#include "daemon/handover/message.h"
#include "daemon/handover/peer_end.h"

const char *const hand_over_names[HAND_OVER_STORED] = {"engram-heap", "engram-catalogue",
                                                       "engram-claim"};

enum { CLAIM_BYTES = 4096 };
enum claim { CLAIM_OPEN, CLAIM_SUCCESSOR, CLAIM_KEPT };

enum {
    ANSWER_MS = 10000,    /* until the daemon says whether it begins to stop */
    STOPPING_MS = 600000, /* and until it has */
    ENDING_MS = 10000,    /* for one that was killed: its memory goes before its locks do */
    LATER_MS = -1,        /* one that has claimed serves or ends */
};

/* Of a fixed layout whatever the format is, so that versions tell each other which they have. */
struct ask {
    char magic[16];
    uint32_t format, process;
    uint64_t unused;
};
_Static_assert(sizeof(struct ask) == HAND_OVER_ASK_BYTES, "as long as a frame's header");
static const char magic[16] = "EngramHandOver?";

void hand_over_init(struct hand_over *h)
{
    *h = (struct hand_over){.heap_fd = -1, .catalogue_fd = -1, .claim_fd = -1, .peer_fd = -1};
}

static void close_fd(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

void hand_over_close(struct hand_over *h)
{
    for (uint32_t i = 0; i < h->listeners.count; i++) {
        struct handed_listener *l = &h->listeners.all[i];
        if (l->kind == HANDED_UNIX && h->is_theirs)
            close_fd(&l->file.lock_fd);
        else if (l->kind == HANDED_UNIX)
            socket_file_release(&l->file);
        close_fd(&l->fd);
    }
    catalogue_close(&h->from);
    if (h->claim) munmap(h->claim, CLAIM_BYTES);
    close_fd(&h->heap_fd);
    close_fd(&h->catalogue_fd);
    close_fd(&h->claim_fd);
    close_fd(&h->peer_fd);
    hand_over_init(h);
}

/* ---- the claim ---- */

static bool map_claim(struct hand_over *h)
{
    void *map = fault_here("hand over: claim")
                    ? MAP_FAILED
                    : mmap(NULL, CLAIM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, h->claim_fd, 0);
    if (map == MAP_FAILED) return false;
    h->claim = map;
    return true;
}

/* True if nobody had it. */
static bool take_claim(struct hand_over *h, enum claim who)
{
    uint32_t open = CLAIM_OPEN;
    return __atomic_compare_exchange_n(h->claim, &open, (uint32_t)who, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

enum status hand_over_claim(struct hand_over *h, struct failure *f)
{
    if (h->is_back || take_claim(h, CLAIM_SUCCESSOR)) return STATUS_OK;
    return failure_set(f, STATUS_ABORTED, DETAIL_NONE, "the heap is another daemon's already");
}

enum status hand_over_make(struct hand_over *h, int heap_fd, int catalogue_fd)
{
    h->catalogue_fd = catalogue_fd;
    h->heap_fd = fault_here("hand over: heap") ? -1 : fcntl(heap_fd, F_DUPFD_CLOEXEC, 0);
    h->claim_fd = memory_file_create("engram-claim", CLAIM_BYTES);
    bool ok = h->heap_fd >= 0 && h->claim_fd >= 0 && map_claim(h);
    return ok ? STATUS_OK : STATUS_RESOURCE_EXHAUSTED;
}

/* ---- asking and answering ---- */

bool hand_over_is_asked(const void *bytes)
{
    return memcmp(bytes, magic, sizeof magic) == 0;
}

static bool say(int fd, enum message_kind kind, const char *text)
{
    struct hand_over_message m;
    memset(&m, 0, sizeof m);
    m.kind = kind;
    snprintf(m.text, sizeof m.text, "%s", text);
    return message_send(fd, &m, NULL, 0);
}

static enum status check_asker(int fd, const struct ask *a, struct failure *f)
{
    struct ucred who;
    socklen_t size = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) ||
        (who.uid != 0 && who.uid != geteuid()))
        return failure_set(f, STATUS_PERMISSION_DENIED, DETAIL_NOT_OPERATOR,
                           "only root and the user that runs the daemon may take its place");
    if (a->format != CATALOGUE_FORMAT)
        return failure_set(f, STATUS_FAILED_PRECONDITION, DETAIL_NONE,
                           "the successor reads catalogues of format %u, and this daemon's have %d",
                           a->format, CATALOGUE_FORMAT);
    return STATUS_OK;
}

void hand_over_refuse(int fd, const char *why)
{
    say(fd, MESSAGE_REFUSED, why);
}

bool hand_over_accept(int fd, const void *bytes, struct failure *f)
{
    struct ask a;
    memcpy(&a, bytes, sizeof a);
    if (check_asker(fd, &a, f)) {
        say(fd, MESSAGE_REFUSED, f->text);
        return false;
    }
    if (say(fd, MESSAGE_ACCEPTED, "")) return true;
    failure_set(f, STATUS_UNAVAILABLE, DETAIL_SYSTEM, "the successor is gone");
    return false;
}

/* A socket that nobody listens on, or none: a start as always. What is something else was named by
 * mistake, and one that may not be used may be somebody's. */
static bool nobody_serves(const char *path, int why)
{
    struct stat is;
    if (why == ENOENT) return true;
    return why == ECONNREFUSED && stat(path, &is) == 0 && S_ISSOCK(is.st_mode);
}

static enum status connect_to(const char *path, int *out, struct failure *f)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!path[0])
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_SYSTEM, "no socket is named");
    if (strlen(path) >= sizeof address.sun_path)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_SYSTEM, "%.100s: path too long",
                           path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address)) {
        int why = errno;
        if (fd >= 0) close(fd);
        if (nobody_serves(path, why))
            return failure_set(f, STATUS_UNAVAILABLE, DETAIL_SYSTEM, "%.100s: %s", path,
                               strerror(why));
        return failure_set(f, STATUS_FAILED_PRECONDITION, DETAIL_SYSTEM, "%.100s: %s", path,
                           why == ECONNREFUSED ? "not a socket" : strerror(why));
    }
    *out = fd;
    return STATUS_OK;
}

/* Nothing more comes on the way. One that has ended hands nothing over, and uses nothing. */
static enum status tell_end(const char *path, const struct peer_end *peer, bool accepted,
                            struct failure *f)
{
    bool late = errno == ETIMEDOUT, ended = !late && peer_end_await(peer, ENDING_MS);
    if (late)
        return failure_set(f, STATUS_FAILED_PRECONDITION, DETAIL_SYSTEM,
                           "%.100s: the daemon there does not get on", path);
    if (!accepted && !ended)
        return failure_set(f, STATUS_FAILED_PRECONDITION, DETAIL_SYSTEM,
                           "%.100s: what answers there hands nothing over", path);
    return failure_set(f, STATUS_UNAVAILABLE, DETAIL_SYSTEM,
                       "%.100s: the daemon ended before it handed anything over", path);
}

static bool take_listener(const struct message_listener *from, const int *fds, int *at, int count,
                          struct handed_listener *out)
{
    *out = (struct handed_listener){
        .kind = (enum handed_kind)from->kind, .fd = -1, .file.lock_fd = -1};
    if (from->kind < HANDED_UNIX || from->kind > HANDED_TCP || *at >= count) return false;
    out->fd = fds[(*at)++];
    out->port = from->port;
    memcpy(out->host, from->host, sizeof out->host - 1);
    if (from->kind != HANDED_UNIX) return true;
    if (*at >= count) return false;
    out->file.lock_fd = fds[(*at)++];
    out->file.device = from->device;
    out->file.inode = from->inode;
    memcpy(out->file.path, from->path, sizeof out->file.path - 1);
    return true;
}

/* Every descriptor becomes somebody's, also of a message that is nonsense. */
static bool take_given(const struct hand_over_message *m, const int *fds, int count,
                       struct hand_over *h)
{
    int at = 3;
    bool ok = count >= 3 && m->listener_count <= HANDED_LISTENERS_MAX;
    h->heap_fd = count > 0 ? fds[0] : -1;
    h->catalogue_fd = count > 1 ? fds[1] : -1;
    h->claim_fd = count > 2 ? fds[2] : -1;
    while (ok && h->listeners.count < m->listener_count) {
        uint32_t i = h->listeners.count++;
        ok = take_listener(&m->listeners[i], fds, &at, count, &h->listeners.all[i]);
    }
    for (; at < count; at++)
        close(fds[at]);
    return ok && hand_over_is_whole(h);
}

static enum status await(const char *path, const struct peer_end *peer, struct hand_over *h,
                         struct failure *f)
{
    struct hand_over_message m;
    int fds[MESSAGE_FDS_MAX], count = 0;
    bool accepted = false;
    for (;;) {
        if (!message_receive(h->peer_fd, &m, fds, &count, accepted ? STOPPING_MS : ANSWER_MS)) {
            int why = errno;
            for (int i = 0; i < count; i++)
                close(fds[i]);
            errno = why;
            return tell_end(path, peer, accepted, f);
        }
        if (m.kind == MESSAGE_GIVEN) break;
        for (int i = 0; i < count; i++)
            close(fds[i]);
        if (m.kind == MESSAGE_ACCEPTED && !accepted)
            accepted = true;
        else if (m.kind == MESSAGE_REFUSED)
            return failure_set(f, STATUS_FAILED_PRECONDITION, DETAIL_NONE, "%.80s: %.130s", path,
                               m.text);
        else
            return failure_set(f, STATUS_FAILED_PRECONDITION, DETAIL_SYSTEM,
                               "%.100s: what answers there hands nothing over", path);
    }
    if (take_given(&m, fds, count, h)) return STATUS_OK;
    return failure_set(f, STATUS_FAILED_PRECONDITION, DETAIL_SYSTEM,
                       "%.100s: what was handed over is not whole", path);
}

enum status hand_over_ask(const char *path, struct hand_over *out, struct failure *f)
{
    struct ask a = {.format = CATALOGUE_FORMAT, .process = (uint32_t)getpid()};
    struct hand_over h;
    hand_over_init(&h);
    h.is_theirs = true; /* also if not all of it comes */
    memcpy(a.magic, magic, sizeof magic);
    enum status st = connect_to(path, &h.peer_fd, f);
    if (st) return st;
    struct peer_end peer = peer_end_watch(h.peer_fd);
    if (send(h.peer_fd, &a, sizeof a, MSG_NOSIGNAL) != sizeof a) {
        errno = 0;
        st = tell_end(path, &peer, false, f);
    } else {
        st = await(path, &peer, &h, f);
    }
    peer_end_close(&peer);
    if (!st) {
        *out = h;
        return STATUS_OK;
    }
    struct failure why = *f;
    hand_over_gives_up(&h, &why);
    hand_over_close(&h);
    return st;
}

/* ---- giving ---- */

static void fill_listener(const struct handed_listener *l, struct message_listener *out, int *fds,
                          int *count)
{
    out->kind = l->kind;
    out->port = l->port;
    out->device = l->file.device;
    out->inode = l->file.inode;
    memcpy(out->path, l->file.path, sizeof out->path);
    memcpy(out->host, l->host, sizeof out->host);
    fds[(*count)++] = l->fd;
    if (l->kind == HANDED_UNIX) fds[(*count)++] = l->file.lock_fd;
}

static bool send_all(struct hand_over *h)
{
    struct hand_over_message m;
    int fds[MESSAGE_FDS_MAX] = {h->heap_fd, h->catalogue_fd, h->claim_fd}, count = 3;
    memset(&m, 0, sizeof m);
    m.kind = MESSAGE_GIVEN;
    m.listener_count = h->listeners.count;
    for (uint32_t i = 0; i < h->listeners.count; i++)
        fill_listener(&h->listeners.all[i], &m.listeners[i], fds, &count);
    return message_send(h->peer_fd, &m, fds, count);
}

/* What the successor does. One that has claimed and is not heard of any more has ended, and nobody
 * was served: nothing of what is stored has changed. */
static bool await_successor(struct hand_over *h, int timeout_ms, struct failure *f)
{
    struct hand_over_message m;
    int fds[MESSAGE_FDS_MAX], count = 0;
    for (;;) {
        bool heard = message_receive(h->peer_fd, &m, fds, &count, timeout_ms);
        int why = errno;
        for (int i = 0; i < count; i++)
            close(fds[i]);
        if (heard && m.kind == MESSAGE_SERVES) return true;
        if (heard) {
            failure_set(f, STATUS_ABORTED, DETAIL_NONE, "the successor gave up: %.180s",
                        m.kind == MESSAGE_GIVES_UP ? m.text : "it talks nonsense");
            return false;
        }
        if (why != ETIMEDOUT) {
            failure_set(f, STATUS_ABORTED, DETAIL_NONE, "the successor ended before it served");
            return false;
        }
        if (take_claim(h, CLAIM_KEPT)) {
            failure_set(f, STATUS_ABORTED, DETAIL_NONE, "the successor does not get on");
            return false;
        }
        timeout_ms = LATER_MS;
    }
}

/* The files of sockets are the successor's. */
static void forget_listeners(struct hand_over *h)
{
    for (uint32_t i = 0; i < h->listeners.count; i++) {
        struct handed_listener *l = &h->listeners.all[i];
        if (l->kind == HANDED_UNIX) close_fd(&l->file.lock_fd);
        close_fd(&l->fd);
    }
    h->listeners.count = 0;
}

bool hand_over_give(struct hand_over *h, int claim_ms, struct failure *f)
{
    if (!send_all(h))
        failure_set(f, STATUS_ABORTED, DETAIL_NONE, "the successor is gone");
    else if (await_successor(h, claim_ms, f)) {
        forget_listeners(h);
        return true;
    }
    close_fd(&h->peer_fd);
    __atomic_store_n(h->claim, (uint32_t)CLAIM_KEPT, __ATOMIC_RELEASE);
    h->is_back = true;
    return false;
}

void hand_over_serves(struct hand_over *h)
{
    if (h->peer_fd >= 0) say(h->peer_fd, MESSAGE_SERVES, "");
    h->is_theirs = false;
    hand_over_close(h);
}

void hand_over_gives_up(struct hand_over *h, const struct failure *why)
{
    if (h->peer_fd >= 0) say(h->peer_fd, MESSAGE_GIVES_UP, why->text);
}

/* ---- through the service manager ---- */

bool hand_over_take_stored(struct hand_over *h, const char *name, int fd)
{
    int *const places[HAND_OVER_STORED] = {&h->heap_fd, &h->catalogue_fd, &h->claim_fd};
    for (int i = 0; i < HAND_OVER_STORED; i++) {
        if (strcmp(name, hand_over_names[i]) != 0) continue;
        close_fd(places[i]); /* of one name the last one counts */
        *places[i] = fd;
        return true;
    }
    return false;
}

bool hand_over_is_whole(struct hand_over *h)
{
    struct stat sb;
    if (h->heap_fd < 0 || h->catalogue_fd < 0 || h->claim_fd < 0) return false;
    if (h->claim) return true;
    return fstat(h->claim_fd, &sb) == 0 && S_ISREG(sb.st_mode) && sb.st_size == CLAIM_BYTES &&
           memory_file_is_sealed(h->claim_fd, false) && map_claim(h);
}
