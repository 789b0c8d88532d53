#include "daemon/heap/heap.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/base/fault.h"
#include "daemon/heap/areas.h"
#include "daemon/heap/cache.h"
#include "daemon/heap/heap_inside.h"
#include "daemon/heap/releaser.h"

/* Blocks are powers of two of address space, but only the pages that were asked for are ever
 * touched, so only those count. The files are sparse and twice the bound, and have room for blocks
 * much smaller than a unit, and the first for many blocks that have only begun, as far as there are
 * addresses: rounding up costs addresses, not memory. */
enum { PAGE = 4096 };
#define ROUNDING_BYTES  (UINT64_C(256) << 20)
#define BEGUN_BYTES     (UINT64_C(64) << 30)
#define BEGUN_BYTES_MIN (UINT64_C(256) << 20)
#define CACHE_BYTES     (UINT64_C(64) << 20)

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

static bool has_addresses(uint64_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at != MAP_FAILED && munmap(at, bytes) == 0;
}

/* Addresses for blocks that have only begun, besides `others` that are needed in any case. A limit
 * (RLIMIT_AS) or a tool that runs the daemon (valgrind) may leave fewer than asked for, and as many
 * again are left to threads, tables and libraries. With fewer, fewer large bodies can be on their
 * way at once; the others are refused for now. */
static uint64_t begun_bytes(uint64_t others)
{
    uint64_t bytes = BEGUN_BYTES;
    while (bytes && !has_addresses(others + 2 * bytes))
        bytes = bytes > BEGUN_BYTES_MIN ? bytes / 2 : 0;
    return bytes;
}

enum status heap_create(uint64_t bytes_max, struct heap **out)
{
    return heap_create_of(bytes_max, -1, 0, out);
}

enum status heap_create_of(uint64_t bytes_max, int fd, uint64_t units, struct heap **out)
{
    if (bytes_max == 0 || bytes_max > UINT64_C(1) << 44) return STATUS_INVALID_ARGUMENT;
    uint64_t exchange = round_up(bytes_max, HEAP_UNIT) / HEAP_UNIT * 2 + ROUNDING_BYTES / HEAP_UNIT;
    uint64_t own = fd < 0 ? exchange + begun_bytes(2 * exchange * HEAP_UNIT) / HEAP_UNIT : units;
    if (own < exchange) return STATUS_FAILED_PRECONDITION;
    if (own > UINT32_C(1) << 30) return STATUS_INVALID_ARGUMENT;

    enum status st = STATUS_RESOURCE_EXHAUSTED;
    struct heap *h = fault_here("heap: struct") ? NULL : calloc(1, sizeof *h);
    if (!h) return st;
    h->usage.bytes_max = bytes_max;
    h->cache_bytes_max = CACHE_BYTES;
    h->age_head = h->age_tail = h->releaser.line = NONE;
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->released, NULL);
    pthread_cond_init(&h->releaser.handed, NULL);

    st = areas_open(h, (const uint32_t[HEAP_AREAS]){(uint32_t)own, (uint32_t)exchange}, fd);
    if (st) goto fail;
    h->record_bytes = (own + exchange) * sizeof *h->records;
    void *records = fault_here("heap: records")
                        ? MAP_FAILED
                        : mmap(NULL, h->record_bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    st = STATUS_RESOURCE_EXHAUSTED;
    if (records == MAP_FAILED) goto fail;
    h->records = records;
    *out = h;
    return STATUS_OK;
fail:
    heap_destroy(h);
    return st;
}

void heap_destroy(struct heap *h)
{
    if (!h) return;
    releaser_stop(h);
    heap_adopt_abandon(h);
    if (h->records) munmap(h->records, h->record_bytes);
    accounts_finish(&h->accounts);
    areas_close(h);
    pthread_cond_destroy(&h->releaser.handed);
    pthread_cond_destroy(&h->released);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

/* ---- owners; under the lock ---- */

enum quota { QUOTA_BINDS, QUOTA_ONLY_COUNTS };

/* Blocks that stay leave this share of a quota to requests, so that a full space still answers. */
enum { REQUESTS_SHARE = 16 };

/* Charges the bytes before a block is taken, so that two threads cannot both take the last
 * bytes. */
static enum status charge(struct heap *h, uint32_t owner, uint64_t bytes, bool stays,
                          enum quota quota)
{
    if (!owner) return STATUS_OK;
    struct account *a = account_make(&h->accounts, owner);
    if (!a) return STATUS_RESOURCE_EXHAUSTED;
    uint64_t bound = a->bytes_max - (stays ? a->bytes_max / REQUESTS_SHARE : 0) + a->bytes_lent;
    bool fits = a->bytes_used <= bound && bytes <= bound - a->bytes_used;
    if (a->bytes_max && !fits && quota == QUOTA_BINDS) return STATUS_PERMISSION_DENIED;
    a->bytes_used += bytes;
    return STATUS_OK;
}

static void discharge(struct heap *h, uint32_t owner, uint64_t bytes)
{
    if (!owner) return;
    struct account *a = account_find(&h->accounts, owner);
    assert(a && a->bytes_used >= bytes);
    a->bytes_used -= bytes;
    account_settle(&h->accounts, a);
}

/* ---- taking and giving ---- */

static uint32_t order_of(uint64_t bytes)
{
    uint32_t order = 0;
    while ((uint64_t)HEAP_UNIT << order < bytes)
        order++;
    return order;
}

/* Returns by how much `more` bytes pass the bound on what is in use, cached and on its way back to
 * the system; `bytes`: of their block. */
static uint64_t bytes_over(const struct heap *h, uint64_t bytes, uint64_t more)
{
    const struct heap_usage *u = &h->usage;
    uint64_t bound = u->bytes_max - (bytes > h->small_bytes_max ? h->reserve_bytes : 0);
    uint64_t all = u->bytes_used + u->bytes_cached + h->bytes_releasing + more;
    return all > bound ? all - bound : 0;
}

/* A block that is asked for. */
struct wish {
    enum heap_area_name area;
    uint64_t span, bytes; /* span: of its addresses; at least bytes */
    uint32_t owner;
    bool fresh;   /* untouched, and charged as what stays */
    bool quietly; /* nothing is spared for it */
    enum quota quota;
    struct patience patience;
};

/* The part of take() under the lock. *clear_bytes: how many bytes of the block need clearing. */
static uint32_t take_unit(struct heap *h, struct wish *w, uint64_t *clear_bytes,
                          uint64_t *kept_bytes)
{
    struct heap_usage *u = &h->usage;
    struct heap_area *area = &h->areas[w->area];
    uint32_t order = order_of(w->span);
    uint64_t bytes = w->bytes;
    bool clear = false;
    uint32_t unit = w->fresh ? NONE : cache_take(h, area, order, w->owner, &clear);
    uint64_t touched = unit == NONE ? 0 : h->records[unit].bytes;
    uint64_t total = touched > bytes ? touched : bytes;
    *clear_bytes = clear ? touched : 0;

    uint64_t over;
    while ((over = bytes_over(h, bytes, total))) {
        if (cache_release_any(h, over, &w->patience)) continue;
        if (unit != NONE && w->patience.ended) cache_push(h, unit);
        if (unit != NONE && !w->patience.ended) {
            /* The cached block itself may be what does not fit under the bound. */
            releaser_take(h, unit, touched);
            unit = NONE;
            total = bytes;
            touched = *clear_bytes = 0;
            continue;
        }
        return NONE;
    }
    /* The bytes are counted before the lock can be dropped again. */
    u->bytes_used += total;
    u->bytes_asked += bytes;
    while (unit == NONE) {
        unit = area_take(area, order);
        if (unit == NONE && !cache_release_any(h, 1, &w->patience)) {
            u->bytes_used -= total;
            u->bytes_asked -= bytes;
            return NONE;
        }
    }
    *kept_bytes = touched;
    h->records[unit] =
        (struct record){.bytes = total, .charged = bytes, .owner = w->owner, .order = order};
    u->blocks++;
    if (u->bytes_used > u->bytes_peak) u->bytes_peak = u->bytes_used;
    return unit;
}

static enum status refusal(const struct patience *p)
{
    return p->ended ? STATUS_UNAVAILABLE : STATUS_RESOURCE_EXHAUSTED;
}

/* Asks for what can be spared, after a refusal with st. True: there is some. */
static bool spare(struct heap *h, enum status st, uint32_t owner, uint64_t bytes)
{
    if (!h->spare || st == STATUS_UNAVAILABLE) return false;
    return h->spare(h->spare_owner, st == STATUS_PERMISSION_DENIED ? owner : 0, bytes);
}

static enum status try_take(struct heap *h, struct wish w, struct heap_block *out)
{
    if (w.bytes == 0 || w.span > h->usage.bytes_max / PAGE * PAGE) return STATUS_RESOURCE_EXHAUSTED;
    if (fault_here("heap: take")) return STATUS_RESOURCE_EXHAUSTED;
    w.bytes = round_up(w.bytes, PAGE);

    uint64_t clear_bytes = 0, kept_bytes = 0;
    pthread_mutex_lock(&h->lock);
    enum status st = charge(h, w.owner, w.bytes, w.fresh, w.quota);
    uint32_t unit = st ? NONE : take_unit(h, &w, &clear_bytes, &kept_bytes);
    uint64_t usable = unit == NONE ? 0 : h->records[unit].bytes;
    if (!st && unit == NONE) {
        discharge(h, w.owner, w.bytes);
        st = refusal(&w.patience);
    }
    pthread_mutex_unlock(&h->lock);
    if (st) return st;

    uint64_t offset = (uint64_t)unit * HEAP_UNIT;
    memset(h->base + offset, 0, clear_bytes);
    *out = (struct heap_block){
        .data = h->base + offset, .offset = offset, .bytes = usable, .kept = kept_bytes >= w.bytes};
    return STATUS_OK;
}

static enum status take(struct heap *h, struct wish w, struct heap_block *out)
{
    enum status st = try_take(h, w, out);
    if (st && !w.quietly && spare(h, st, w.owner, w.bytes)) st = try_take(h, w, out);
    return st;
}

enum status heap_take_quietly(struct heap *h, uint64_t bytes, uint32_t owner,
                              struct heap_block *out)
{
    struct wish w = {.span = bytes, .bytes = bytes, .owner = owner, .quietly = true};
    return take(h, w, out);
}

enum status heap_take(struct heap *h, uint64_t bytes, uint32_t owner, struct heap_block *out)
{
    return take(h, (struct wish){.span = bytes, .bytes = bytes, .owner = owner}, out);
}

enum status heap_take_exchange(struct heap *h, uint64_t bytes, uint32_t owner,
                               struct heap_block *out)
{
    struct wish w = {.area = HEAP_EXCHANGE, .span = bytes, .bytes = bytes, .owner = owner};
    return take(h, w, out);
}

enum status heap_take_begun(struct heap *h, uint64_t bytes, uint64_t begun, uint32_t owner,
                            struct heap_block *out)
{
    return take(h, (struct wish){.span = bytes, .bytes = begun, .owner = owner}, out);
}

/* Makes sure that the pages of a block in use count as far as `bytes`; under the lock. */
static bool count_pages(struct heap *h, struct record *r, uint64_t bytes, struct patience *p)
{
    struct heap_usage *u = &h->usage;
    uint64_t more = bytes > r->bytes ? bytes - r->bytes : 0, over;
    while ((over = bytes_over(h, bytes, more)))
        if (!cache_release_any(h, over, p)) return false;
    r->bytes += more;
    u->bytes_used += more;
    if (u->bytes_used > u->bytes_peak) u->bytes_peak = u->bytes_used;
    return true;
}

static enum status try_grow(struct heap *h, struct heap_block *b, uint64_t bytes, bool stays)
{
    bytes = round_up(bytes, PAGE);
    if (fault_here("heap: grow")) return STATUS_RESOURCE_EXHAUSTED;
    pthread_mutex_lock(&h->lock);
    struct record *r = &h->records[b->offset / HEAP_UNIT];
    assert(bytes <= (uint64_t)HEAP_UNIT << r->order);
    uint64_t more = bytes > r->charged ? bytes - r->charged : 0;
    struct patience patience = {0};
    enum status st = charge(h, r->owner, more, stays, QUOTA_BINDS);
    if (!st && !count_pages(h, r, bytes, &patience)) {
        discharge(h, r->owner, more);
        st = refusal(&patience);
    }
    if (!st) {
        r->charged += more;
        h->usage.bytes_asked += more;
        b->bytes = r->bytes;
    }
    pthread_mutex_unlock(&h->lock);
    return st;
}

static enum status grow(struct heap *h, struct heap_block *b, uint64_t bytes, bool stays)
{
    uint32_t owner = h->records[b->offset / HEAP_UNIT].owner;
    enum status st = try_grow(h, b, bytes, stays);
    if (st && spare(h, st, owner, bytes)) st = try_grow(h, b, bytes, stays);
    return st;
}

enum status heap_grow(struct heap *h, struct heap_block *b, uint64_t bytes)
{
    return grow(h, b, bytes, false);
}

enum status heap_extend(struct heap *h, struct heap_block *b, uint64_t bytes)
{
    return grow(h, b, bytes, true);
}

uint64_t heap_span(const struct heap *h, const struct heap_block *b)
{
    return b->data ? (uint64_t)HEAP_UNIT << h->records[b->offset / HEAP_UNIT].order : 0;
}

enum status heap_take_wide(struct heap *h, uint64_t bytes, uint64_t span, uint32_t owner,
                           struct heap_block *out)
{
    struct wish w = {.span = span, .bytes = bytes, .owner = owner, .fresh = true};
    return take(h, w, out);
}

enum status heap_take_past_quota(struct heap *h, uint64_t bytes, uint32_t owner,
                                 struct heap_block *out)
{
    struct wish w = {.span = bytes, .bytes = bytes, .owner = owner, .quota = QUOTA_ONLY_COUNTS};
    return take(h, w, out);
}

enum status heap_take_fresh(struct heap *h, uint64_t bytes, uint32_t owner, struct heap_block *out)
{
    struct wish w = {.span = bytes, .bytes = bytes, .owner = owner, .fresh = true};
    return take(h, w, out);
}

enum status heap_fits(struct heap *h, uint64_t bytes, uint32_t owner)
{
    bytes = round_up(bytes, PAGE);
    pthread_mutex_lock(&h->lock);
    const struct account *a = owner ? account_find(&h->accounts, owner) : NULL;
    uint64_t bound = h->usage.bytes_max - (bytes > h->small_bytes_max ? h->reserve_bytes : 0);
    uint64_t used = h->usage.bytes_used;
    enum status st = used <= bound && bytes <= bound - used ? STATUS_OK : STATUS_RESOURCE_EXHAUSTED;
    uint64_t quota = a ? a->bytes_max + a->bytes_lent : 0;
    if (a && a->bytes_max && (a->bytes_used > quota || bytes > quota - a->bytes_used))
        st = STATUS_PERMISSION_DENIED;
    pthread_mutex_unlock(&h->lock);
    return st;
}

static uint32_t unit_of(struct heap *h, struct heap_block *b)
{
    uint32_t unit = (uint32_t)(b->offset / HEAP_UNIT);
    assert(b->offset % HEAP_UNIT == 0 && b->offset < h->file_bytes);
    assert(h->records[unit].bytes == b->bytes);
    const struct record *r = &h->records[unit];
    h->usage.bytes_used -= r->bytes - r->cut;
    h->usage.bytes_asked -= r->charged - r->cut;
    h->usage.blocks--;
    discharge(h, r->owner, r->charged - r->cut);
    *b = (struct heap_block){0};
    return unit;
}

void heap_discount(struct heap *h, uint32_t unit, uint64_t bytes)
{
    struct record *r = &h->records[unit];
    assert(bytes <= r->charged - r->cut);
    r->cut += bytes;
    h->usage.bytes_used -= bytes;
    h->usage.bytes_asked -= bytes;
    discharge(h, r->owner, bytes);
}

void heap_give(struct heap *h, struct heap_block *b)
{
    if (!b->data) return;
    pthread_mutex_lock(&h->lock);
    uint32_t unit = unit_of(h, b);
    if (h->records[unit].bytes > h->cache_bytes_max) {
        releaser_take(h, unit, h->records[unit].bytes);
    } else {
        cache_push(h, unit);
        cache_trim(h, h->cache_bytes_max);
    }
    pthread_mutex_unlock(&h->lock);
}

void heap_release(struct heap *h, struct heap_block *b)
{
    if (!b->data) return;
    pthread_mutex_lock(&h->lock);
    uint64_t bytes = b->bytes;
    releaser_take(h, unit_of(h, b), bytes);
    pthread_mutex_unlock(&h->lock);
}

void heap_trim(struct heap *h, uint64_t keep_bytes)
{
    pthread_mutex_lock(&h->lock);
    cache_trim(h, keep_bytes);
    pthread_mutex_unlock(&h->lock);
}

void heap_reserve(struct heap *h, uint64_t bytes, uint64_t block_bytes_max)
{
    pthread_mutex_lock(&h->lock);
    h->reserve_bytes = bytes < h->usage.bytes_max ? bytes : h->usage.bytes_max;
    h->small_bytes_max = block_bytes_max;
    pthread_mutex_unlock(&h->lock);
}

void heap_limit_cache(struct heap *h, uint64_t bytes_max)
{
    pthread_mutex_lock(&h->lock);
    h->cache_bytes_max = bytes_max;
    cache_trim(h, bytes_max);
    pthread_mutex_unlock(&h->lock);
}

enum status heap_quota(struct heap *h, uint32_t owner, uint64_t bytes_max)
{
    pthread_mutex_lock(&h->lock);
    struct account *a =
        bytes_max ? account_make(&h->accounts, owner) : account_find(&h->accounts, owner);
    if (a) {
        a->bytes_max = bytes_max;
        account_settle(&h->accounts, a);
    }
    pthread_mutex_unlock(&h->lock);
    return a || !bytes_max ? STATUS_OK : STATUS_RESOURCE_EXHAUSTED;
}

void heap_lend(struct heap *h, uint32_t owner, uint64_t bytes)
{
    pthread_mutex_lock(&h->lock);
    struct account *a = account_make(&h->accounts, owner);
    if (a) a->bytes_lent += bytes;
    pthread_mutex_unlock(&h->lock);
}

void heap_lend_end(struct heap *h, uint32_t owner, uint64_t bytes)
{
    pthread_mutex_lock(&h->lock);
    struct account *a = account_find(&h->accounts, owner);
    if (a) {
        a->bytes_lent -= bytes < a->bytes_lent ? bytes : a->bytes_lent;
        account_settle(&h->accounts, a);
    }
    pthread_mutex_unlock(&h->lock);
}
