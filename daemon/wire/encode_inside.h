/* encode_inside: what the files that encode replies share.
 * Owner:  wire. Thread: the loop. Errors: none. */
#ifndef ENGRAM_WIRE_ENCODE_INSIDE_H
#define ENGRAM_WIRE_ENCODE_INSIDE_H

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <pb.h>

#include "daemon/wire/encode.h"
#include "proto/engram_accel.pb.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Cuts text that does not fit: none of these texts is meant to be parsed. */
#define COPY_TEXT(array, text) snprintf((array), sizeof(array), "%s", (text) ? (text) : "")

/* True if a reply fits, with header and padding. */
#define REPLY_FITS(size, bytes_max) ((size) + FRAME_HEADER_BYTES + FRAME_ALIGN <= (bytes_max))

/* Writes header, message and padding to the caller's ENCODE_BYTES_MAX. */
size_t encode_frame(struct frame_header h, const pb_msgdesc_t *fields, const void *message,
                    void *buffer);

engram_accel_v1_Meta encode_meta(const struct job *j);
engram_accel_v1_CollectionScreens encode_screens(const struct screen_counts counts[SCREENS]);

/* What a space uses; in encode_reports.c. */
engram_accel_v1_SpaceStats encode_space_stats(const struct wire_space_stats *s);
/* What Stats says of what is kept on the disk; in encode_kept.c. */
void encode_kept(const struct wire_stats *s, engram_accel_v1_StatsReply *m);

#endif
