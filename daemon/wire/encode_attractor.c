/* Encodes replies about attractors. */
#include "daemon/wire/encode_inside.h"

_Static_assert(REPLY_FITS(engram_accel_v1_AttractorListReply_size, ENCODE_BYTES_MAX) &&
                   REPLY_FITS(engram_accel_v1_AttractorCreateReply_size, ENCODE_BYTES_MAX),
               "ENCODE_BYTES_MAX holds every reply");

static void fill_attractor(engram_accel_v1_AttractorInfo *m, const struct attractor_info *info)
{
    *m = (engram_accel_v1_AttractorInfo){
        .dimension = info->dimension,
        .sparsity = info->sparsity,
        .kept = info->kept,
        .rate = info->rate,
        .version = info->version,
        .patterns = info->patterns,
        .weight_bytes = info->weight_bytes,
        .dentate_bytes = info->dentate_bytes,
    };
    COPY_TEXT(m->name, info->name);
}

size_t encode_attractor(enum operation operation, uint64_t request_id, const struct job *j,
                        const struct attractor_info *info, void *buffer)
{
    struct frame_header h = {.kind = (uint8_t)operation, .request_id = request_id};
    if (operation == OPERATION_ATTRACTOR_DESCRIBE) {
        engram_accel_v1_AttractorDescribeReply m = {.has_attractor = true};
        fill_attractor(&m.attractor, info);
        return encode_frame(h, engram_accel_v1_AttractorDescribeReply_fields, &m, buffer);
    }
    engram_accel_v1_AttractorCreateReply m = {.has_meta = j != NULL, .has_attractor = true};
    if (j) m.meta = encode_meta(j);
    fill_attractor(&m.attractor, info);
    return encode_frame(h, engram_accel_v1_AttractorCreateReply_fields, &m, buffer);
}

size_t encode_attractor_list(uint64_t request_id, const struct attractor_info *infos, size_t count,
                             bool more, void *buffer)
{
    engram_accel_v1_AttractorListReply m;
    m.attractors_count = 0;
    m.more = more || count > COUNT(m.attractors);
    while (m.attractors_count < count && m.attractors_count < COUNT(m.attractors)) {
        fill_attractor(&m.attractors[m.attractors_count], &infos[m.attractors_count]);
        m.attractors_count++;
    }
    struct frame_header h = {.kind = OPERATION_ATTRACTOR_LIST, .request_id = request_id};
    return encode_frame(h, engram_accel_v1_AttractorListReply_fields, &m, buffer);
}
