#include "daemon/wire/encode.h"

#include <string.h>

#include <pb_encode.h>

#include "daemon/wire/encode_inside.h"
#include "kernels/vectors.h"
#include "proto/plain_text.h"

/* The longest messages leave room for header and padding; nanopb computes their sizes. */
_Static_assert(REPLY_FITS(engram_accel_v1_CollectionListReply_size, ENCODE_BYTES_MAX),
               "ENCODE_BYTES_MAX holds every reply");

size_t encode_frame(struct frame_header h, const pb_msgdesc_t *fields, const void *message,
                    void *buffer)
{
    char *bytes = buffer;
    pb_ostream_t out = pb_ostream_from_buffer((pb_byte_t *)bytes + FRAME_HEADER_BYTES,
                                              ENCODE_BYTES_MAX - FRAME_HEADER_BYTES);
    /* It cannot fail: the buffer holds the schema's longest message, and no string is unbounded. */
    if (!pb_encode(&out, fields, message)) out.bytes_written = 0;
    h.message_bytes = (uint32_t)out.bytes_written;
    h.flags |= FRAME_FLAG_REPLY;
    frame_write(&h, buffer);
    size_t used = FRAME_HEADER_BYTES + out.bytes_written, total = frame_align(used);
    memset(bytes + used, 0, total - used);
    return total;
}

engram_accel_v1_Meta encode_meta(const struct job *j)
{
    engram_accel_v1_Meta m = {
        .backend = (engram_accel_v1_Backend)j->backend,
        .reason = (engram_accel_v1_Reason)j->reason,
        .copy_ns = j->copy_ns,
        .version = j->result.version,
    };
    if (j->started_ns > j->received_ns) m.queue_ns = j->started_ns - j->received_ns;
    if (j->started_ns && j->finished_ns > j->started_ns) m.run_ns = j->finished_ns - j->started_ns;
    bool on_cpu = j->backend == BACKEND_CPU;
    m.predicted_ns = on_cpu ? j->ticket.cpu_ns : j->ticket.gpu_ns;
    m.other_ns = on_cpu ? j->ticket.gpu_ns : j->ticket.cpu_ns;
    m.wait_ns = j->ticket.wait_ns;
    m.batch = j->batch;
    if (j->answered_ns > j->received_ns) m.total_ns = j->answered_ns - j->received_ns;
    m.screened = j->screen.screened;
    m.survived = j->screen.survived;
    m.read_bytes = j->screen.read_bytes;
    if (j->data) {
        m.instance = j->data->instance;
        m.generation = j->data->generation;
    }
    return m;
}

/* Retrying helps if the code says so, except against a limit that the request itself exceeds. */
static bool failure_retryable(const struct failure *f)
{
    enum detail d = f->detail;
    bool own_limit = d == DETAIL_MESSAGE_TOO_LARGE || d == DETAIL_BODY_TOO_LARGE ||
                     d == DETAIL_REPLY_TOO_LARGE || d == DETAIL_TOO_MANY_ROWS;
    /* what was read must be read again first */
    if (d == DETAIL_VERSION_CHANGED || d == DETAIL_STATE_CHANGED || d == DETAIL_CURSOR_ENDED)
        return false;
    return !own_limit && status_retryable(f->code);
}

size_t encode_error(uint8_t kind, uint64_t request_id, const struct failure *f, void *buffer)
{
    engram_accel_v1_Error m = {
        .code = f->code,
        .detail = f->detail,
        .retryable = failure_retryable(f),
        .retry_after_ms = f->retry_after_ms,
        .version = f->version,
        .instance = f->instance,
        .generation = f->generation,
        .loaded_percent = f->loaded_percent,
    };
    COPY_TEXT(m.message, f->text);
    plain_text_tame(m.message); /* it may name what the client sent, and may have been cut */
    struct frame_header h = {.kind = kind, .flags = FRAME_FLAG_ERROR, .request_id = request_id};
    return encode_frame(h, engram_accel_v1_Error_fields, &m, buffer);
}

_Static_assert(REPLY_FITS(engram_accel_v1_Progress_size, ENCODE_PROGRESS_BYTES),
               "ENCODE_PROGRESS_BYTES holds every progress");

size_t encode_progress(uint8_t kind, uint64_t request_id, const struct wire_progress *said,
                       void *buffer)
{
    engram_accel_v1_Progress m = {
        .phase = (engram_accel_v1_Phase)said->view.phase,
        .done = said->view.done,
        .total = said->view.total,
        .elapsed_us = said->elapsed_ns / 1000,
        .foreseen_us = said->foreseen_ns / 1000,
        .backend = (engram_accel_v1_Backend)said->backend,
    };
    struct frame_header h = {.kind = kind, .flags = FRAME_FLAG_PROGRESS, .request_id = request_id};
    return encode_frame(h, engram_accel_v1_Progress_fields, &m, buffer);
}

size_t encode_ping(uint64_t request_id, void *buffer)
{
    struct frame_header h = {
        .kind = OPERATION_PING, .flags = FRAME_FLAG_REPLY, .request_id = request_id};
    frame_write(&h, buffer);
    memset((char *)buffer + FRAME_HEADER_BYTES, 0, FRAME_ALIGN - FRAME_HEADER_BYTES);
    return FRAME_ALIGN;
}

size_t encode_cancel(uint64_t request_id, bool found, void *buffer)
{
    engram_accel_v1_CancelReply m = {.found = found};
    struct frame_header h = {.kind = OPERATION_CANCEL, .request_id = request_id};
    return encode_frame(h, engram_accel_v1_CancelReply_fields, &m, buffer);
}

/* ---- collections ---- */

static engram_accel_v1_Screens screens_of(const struct screen_counts *c)
{
    return (engram_accel_v1_Screens){
        .searches = c->searches,
        .queries = c->queries,
        .screened = c->screened,
        .survived = c->survived,
        .read_bytes = c->read_bytes,
        .useless = c->useless,
        .rested = c->rested,
    };
}

engram_accel_v1_CollectionScreens encode_screens(const struct screen_counts counts[SCREENS])
{
    return (engram_accel_v1_CollectionScreens){
        .has_cpu = true,
        .cpu = screens_of(&counts[SCREENS_CPU]),
        .has_gpu = true,
        .gpu = screens_of(&counts[SCREENS_GPU]),
    };
}

static void fill_collection(engram_accel_v1_CollectionInfo *m, const struct collection_info *info)
{
    *m = (engram_accel_v1_CollectionInfo){
        .dimension = info->dimension,
        .metric = (engram_accel_v1_Metric)info->metric,
        .rows = info->rows,
        .version = info->version,
        .row_bytes = info->row_bytes,
        .index_bytes = info->index_bytes,
        .vram_bytes = info->vram_bytes,
        .vram_version = info->vram_version,
        .shadow_rows = info->shadow.rows,
        .shadow_bytes = info->shadow.bytes,
        .shadow_lost = info->shadow.lost,
        .shadow_age_ms = info->shadow.age_ns / 1000000,
        .shadow_screened = info->shadow.screened,
        .shadow_passed = info->shadow.passed,
    };
    COPY_TEXT(m->name, info->name);
}

size_t encode_collection(enum operation operation, uint64_t request_id, const struct job *j,
                         const struct collection_info *info, void *buffer)
{
    struct frame_header h = {.kind = (uint8_t)operation, .request_id = request_id};
    if (operation == OPERATION_COLLECTION_DESCRIBE) {
        const struct shadow_info *vram = &info->vram_shadow;
        engram_accel_v1_CollectionDescribeReply m = {
            .has_collection = true,
            .has_card_shadow = vram->rows != 0,
            .card_shadow = {info->vram_card, vram->rows, vram->bytes, vram->lost,
                            vram->age_ns / 1000000, vram->rests},
            .has_screens = true,
            .screens = encode_screens(info->screens),
            .shadow_rests = info->shadow.rests,
        };
        fill_collection(&m.collection, info);
        return encode_frame(h, engram_accel_v1_CollectionDescribeReply_fields, &m, buffer);
    }
    engram_accel_v1_CollectionCreateReply m = {.has_meta = j != NULL, .has_collection = true};
    if (j) m.meta = encode_meta(j);
    fill_collection(&m.collection, info);
    return encode_frame(h, engram_accel_v1_CollectionCreateReply_fields, &m, buffer);
}

size_t encode_collection_list(uint64_t request_id, const struct collection_info *infos,
                              size_t count, bool more, void *buffer)
{
    engram_accel_v1_CollectionListReply m;
    m.collections_count = 0;
    m.more = more || count > COUNT(m.collections);
    while (m.collections_count < count && m.collections_count < COUNT(m.collections)) {
        fill_collection(&m.collections[m.collections_count], &infos[m.collections_count]);
        m.collections_count++;
    }
    struct frame_header h = {.kind = OPERATION_COLLECTION_LIST, .request_id = request_id};
    return encode_frame(h, engram_accel_v1_CollectionListReply_fields, &m, buffer);
}
