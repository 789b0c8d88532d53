/* fuzz_frame: a header from anyone. What parses must write itself back, byte for byte, and both
 * ways to parse agree. */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < FRAME_HEADER_BYTES) return 0;
    struct frame_header h = {0};
    struct failure f;
    enum status st = frame_parse(data, UINT64_C(1) << 30, &h, &f);
    if (frame_read(data, UINT64_C(1) << 30, &(struct frame_header){0}) != !st) abort();
    if (st) {
        if (st != f.code || f.detail == DETAIL_NONE || !f.text[0]) abort();
        return 0;
    }
    uint8_t again[FRAME_HEADER_BYTES];
    frame_write(&h, again);
    if (memcmp(again, data, sizeof again) != 0) abort();
    if (frame_body_offset(&h) % FRAME_ALIGN || h.body_bytes % FRAME_ALIGN) abort();
    return 0;
}
