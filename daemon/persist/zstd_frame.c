#include "daemon/persist/zstd_frame.h"

#include <stdlib.h>
#include <zstd.h>

#include "daemon/base/fault.h"

enum { ROOM_BYTES = 1 << 20 };

/* ---------------------------------------------------------------- writing */

struct zstd_out {
    ZSTD_CCtx *context;
    char room[ROOM_BYTES];
};

struct zstd_out *zstd_out_make(int level, uint64_t bytes)
{
    struct zstd_out *z = fault_here("zstd: out") ? NULL : malloc(sizeof *z);
    if (!z) return NULL;
    z->context = ZSTD_createCCtx();
    if (z->context &&
        !ZSTD_isError(ZSTD_CCtx_setParameter(z->context, ZSTD_c_compressionLevel, level)) &&
        !ZSTD_isError(ZSTD_CCtx_setPledgedSrcSize(z->context, bytes)))
        return z;
    zstd_out_free(z);
    return NULL;
}

void zstd_out_free(struct zstd_out *z)
{
    if (!z) return;
    ZSTD_freeCCtx(z->context);
    free(z);
}

enum status zstd_out_write(struct zstd_out *z, const void *data, uint64_t bytes, bool ends,
                           zstd_sink sink, void *owner, struct failure *f)
{
    ZSTD_inBuffer in = {data, bytes, 0};
    for (size_t left = 1; ends ? left != 0 : in.pos < in.size;) {
        ZSTD_outBuffer out = {z->room, sizeof z->room, 0};
        left = ZSTD_compressStream2(z->context, &out, &in, ends ? ZSTD_e_end : ZSTD_e_continue);
        if (fault_here("zstd: compress") || ZSTD_isError(left))
            return failure_set(f, STATUS_INTERNAL, DETAIL_NONE, "zstd: %s",
                               ZSTD_getErrorName(left));
        enum status st = out.pos ? sink(owner, z->room, out.pos, f) : STATUS_OK;
        if (st) return st;
    }
    return STATUS_OK;
}

/* ---------------------------------------------------------------- reading */

struct zstd_in {
    ZSTD_DCtx *context;
    ZSTD_inBuffer in;
    bool ended; /* the frame */
    char room[ROOM_BYTES];
};

struct zstd_in *zstd_in_make(void)
{
    struct zstd_in *z = fault_here("zstd: in") ? NULL : malloc(sizeof *z);
    if (!z) return NULL;
    z->in = (ZSTD_inBuffer){z->room, 0, 0};
    z->ended = false;
    z->context = ZSTD_createDCtx();
    if (z->context &&
        !ZSTD_isError(ZSTD_DCtx_setParameter(z->context, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG)))
        return z;
    zstd_in_free(z);
    return NULL;
}

void zstd_in_free(struct zstd_in *z)
{
    if (!z) return;
    ZSTD_freeDCtx(z->context);
    free(z);
}

static enum status fill(struct zstd_in *z, zstd_source source, void *owner, struct failure *f)
{
    uint64_t bytes = 0;
    if (z->in.pos < z->in.size) return STATUS_OK;
    enum status st = source(owner, z->room, sizeof z->room, &bytes, f);
    z->in = (ZSTD_inBuffer){z->room, bytes, 0};
    return st;
}

/* Takes what there is of the frame until out is full or the frame has ended. The decoder may hold
 * some of what it was given before, so it is asked before more is read. */
static enum status decode(struct zstd_in *z, ZSTD_outBuffer *out, zstd_source source, void *owner,
                          const char **why, struct failure *f)
{
    while (!z->ended) {
        size_t before_in = z->in.pos, before_out = out->pos;
        size_t left = ZSTD_decompressStream(z->context, out, &z->in);
        if (ZSTD_isError(left)) {
            *why = ZSTD_getErrorName(left);
            return STATUS_DATA_LOSS;
        }
        z->ended = left == 0;
        if (z->ended || out->pos == out->size) return STATUS_OK;
        if (z->in.pos != before_in || out->pos != before_out) continue;
        enum status st = fill(z, source, owner, f);
        if (st) return st;
        if (z->in.pos < z->in.size) continue;
        *why = "the zstd frame is cut off";
        return STATUS_DATA_LOSS;
    }
    return STATUS_OK;
}

enum status zstd_in_read(struct zstd_in *z, void *to, uint64_t bytes, zstd_source source,
                         void *owner, const char **why, struct failure *f)
{
    ZSTD_outBuffer out = {to, bytes, 0};
    enum status st = bytes ? decode(z, &out, source, owner, why, f) : STATUS_OK;
    if (st || out.pos == out.size) return st;
    *why = "the zstd frame holds fewer bytes than the array has";
    return STATUS_DATA_LOSS;
}

enum status zstd_in_end(struct zstd_in *z, zstd_source source, void *owner, const char **why,
                        struct failure *f)
{
    char more;
    ZSTD_outBuffer out = {&more, 1, 0};
    enum status st = decode(z, &out, source, owner, why, f);
    if (st) return st;
    if (out.pos) {
        *why = "the zstd frame holds more bytes than the array has";
        return STATUS_DATA_LOSS;
    }
    st = fill(z, source, owner, f);
    if (st || z->in.pos == z->in.size) return st;
    *why = "something stands behind the zstd frame";
    return STATUS_DATA_LOSS;
}
