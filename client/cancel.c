/* cancel: requests given up. Another thread leaves in a box what it wants cancelled, and wakes the
 * handle's. */
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/client.h"

ea_status ea_cancels_init(struct cancel_box *box)
{
    atomic_init(&box->waiting, false);
    box->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (box->wake_fd < 0) return EA_RESOURCE_EXHAUSTED;
    pthread_mutex_init(&box->lock, NULL); /* which cannot fail for a plain one */
    return EA_OK;
}

void ea_cancels_finish(struct cancel_box *box)
{
    if (box->wake_fd < 0) return;
    close(box->wake_fd);
    pthread_mutex_destroy(&box->lock);
}

int ea_wake_fd(const ea_client *c)
{
    return c ? c->cancels.wake_fd : -1;
}

/* ---- by the handle's thread ---- */

static void cancel(ea_client *c, struct client_request *r)
{
    if (r->begun) {
        ea_submit_cancel(c, r->id);
        return;
    }
    ea_note_set(&r->note, EA_CANCELLED, EA_DETAIL_CANCELLED_BY_CLIENT,
                "cancelled before it was sent");
    ea_abandon(c, r);
}

ea_status ea_cancel(ea_client *c, uint64_t request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r = ea_request_find(c, request_id);
    if (!r || r->owner == OWNER_LIBRARY || r->kind == engram_accel_v1_Kind_KIND_HELLO)
        return ea_fail(c, EA_NOT_FOUND, 0, "request %llu: unknown, or answered already",
                       (unsigned long long)request_id);
    cancel(c, r);
    return EA_OK;
}

/* ---- by others ---- */

ea_status ea_cancel_from_thread(ea_client *c, uint64_t request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct cancel_box *box = &c->cancels;
    ea_status st = EA_RESOURCE_EXHAUSTED;
    pthread_mutex_lock(&box->lock);
    if (box->count < EA_CANCELS_MAX) {
        box->ids[box->count++] = request_id;
        atomic_store_explicit(&box->waiting, true, memory_order_release);
        st = eventfd_write(box->wake_fd, 1) ? EA_INTERNAL : EA_OK;
    }
    pthread_mutex_unlock(&box->lock);
    return st;
}

static void stop_call(ea_client *c)
{
    if (!c->calling) return;
    c->stop = true;
    struct client_request *next;
    for (struct client_request *r = c->pending.first; r; r = next) {
        next = r->next;
        if (r->owner == OWNER_CALL && r->kind != engram_accel_v1_Kind_KIND_HELLO) cancel(c, r);
    }
}

void ea_cancels_take(ea_client *c)
{
    struct cancel_box *box = &c->cancels;
    uint64_t ids[EA_CANCELS_MAX];
    eventfd_t wakes;
    pthread_mutex_lock(&box->lock);
    uint32_t count = box->count;
    memcpy(ids, box->ids, count * sizeof *ids);
    box->count = 0;
    atomic_store_explicit(&box->waiting, false, memory_order_relaxed);
    (void)eventfd_read(box->wake_fd, &wakes);
    pthread_mutex_unlock(&box->lock);
    for (uint32_t i = 0; i < count; i++) {
        struct client_request *r = ids[i] ? ea_request_find(c, ids[i]) : NULL;
        if (!ids[i]) stop_call(c);
        if (r && r->owner == OWNER_CALLBACK) cancel(c, r);
    }
}

bool ea_call_begin(ea_client *c)
{
    if (c->calling) return false;
    if (atomic_load_explicit(&c->cancels.waiting, memory_order_acquire)) ea_cancels_take(c);
    c->calling = true;
    c->stop = false;
    return true;
}

void ea_call_end(ea_client *c, bool outermost)
{
    if (outermost) c->calling = false;
}

ea_status ea_stopped(ea_client *c)
{
    if (!c->calling || !c->stop) return EA_OK;
    return ea_fail(c, EA_CANCELLED, EA_DETAIL_CANCELLED_BY_CLIENT, "cancelled by another thread");
}
