#include "daemon/wire/text.h"

#include <inttypes.h>
#include <string.h>

#include <pb_decode.h>

#include "proto/plain_text.h"

bool text_printable(const uint8_t *text, size_t bytes)
{
    while (bytes) {
        uint32_t value;
        unsigned n = plain_text_character(text, bytes, &value);
        if (n == 0 || value < 0x20 || (value >= 0x7f && value < 0xa0)) return false;
        text += n;
        bytes -= n;
    }
    return true;
}

static enum status check_one(const struct text_rule *rule, const uint8_t *text, uint32_t bytes,
                             struct failure *f)
{
    if (bytes > rule->bytes_max)
        return failure_set(f, STATUS_INVALID_ARGUMENT, rule->detail,
                           "%s: %" PRIu32 " bytes, at most %" PRIu32, rule->name, bytes,
                           rule->bytes_max);
    if (memchr(text, 0, bytes))
        return failure_set(f, STATUS_INVALID_ARGUMENT, rule->detail, "%s: holds a NUL byte",
                           rule->name);
    if (rule->printable && !text_printable(text, bytes))
        return failure_set(f, STATUS_INVALID_ARGUMENT, rule->detail,
                           "%s: not UTF-8 without control characters", rule->name);
    return STATUS_OK;
}

enum status text_check(const void *message, uint32_t message_bytes, const struct text_rule *rules,
                       size_t count, struct failure *f)
{
    if (message_bytes == 0) return STATUS_OK;
    pb_istream_t in = pb_istream_from_buffer(message, message_bytes);
    pb_wire_type_t wire_type;
    uint32_t tag;
    bool end;
    while (pb_decode_tag(&in, &wire_type, &tag, &end)) {
        const struct text_rule *rule = NULL;
        for (size_t i = 0; i < count && wire_type == PB_WT_STRING && tag; i++)
            if (rules[i].tag == tag) rule = &rules[i];
        if (!rule) {
            if (!pb_skip_field(&in, wire_type)) break;
            continue;
        }
        uint32_t bytes;
        if (!pb_decode_varint32(&in, &bytes) || bytes > in.bytes_left) {
            end = false;
            break;
        }
        const uint8_t *text = (const uint8_t *)message + (message_bytes - in.bytes_left);
        enum status st = check_one(rule, text, bytes, f);
        if (st) return st;
        if (!pb_read(&in, NULL, bytes)) break;
    }
    if (end) return STATUS_OK;
    return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_MESSAGE, "message: %s",
                       in.errmsg ? in.errmsg : "a string runs past the end");
}
