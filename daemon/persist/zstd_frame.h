/* zstd_frame: bytes on their way into one zstd frame, and out of one, a part at a time. A frame
 * that is read is foreign bytes: none of its sizes is believed, and its window is bounded.
 * Owner:  whoever made it; and where the frame lies.
 * Thread: one at a time.
 * Errors: *_make: NULL, no memory. zstd_out_write: the sink's; INTERNAL. zstd_in_*: the source's;
 *         DATA_LOSS, and *why says what is wrong. */
#ifndef ENGRAM_PERSIST_ZSTD_FRAME_H
#define ENGRAM_PERSIST_ZSTD_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/status.h"

/* The largest window that level 19 takes: what a reader keeps. */
enum { ZSTD_LEVEL_MAX = 19, ZSTD_WINDOW_LOG = 23 };

struct zstd_out;
/* bytes: that will be given. */
struct zstd_out *zstd_out_make(int level, uint64_t bytes);
/* NULL is fine. */
void zstd_out_free(struct zstd_out *z);
typedef enum status (*zstd_sink)(void *owner, const void *data, uint64_t bytes, struct failure *f);
/* Takes data, and gives what of the frame is ready; ends: all of it, and nothing follows. */
enum status zstd_out_write(struct zstd_out *z, const void *data, uint64_t bytes, bool ends,
                           zstd_sink sink, void *owner, struct failure *f);

struct zstd_in;
struct zstd_in *zstd_in_make(void);
void zstd_in_free(struct zstd_in *z);
/* The next bytes of the frame, as many as there is room for; *bytes 0: there are none. */
typedef enum status (*zstd_source)(void *owner, void *to, uint64_t room, uint64_t *bytes,
                                   struct failure *f);
/* Exactly so many bytes. */
enum status zstd_in_read(struct zstd_in *z, void *to, uint64_t bytes, zstd_source source,
                         void *owner, const char **why, struct failure *f);
/* Nothing is left in the frame, and nothing behind it. */
enum status zstd_in_end(struct zstd_in *z, zstd_source source, void *owner, const char **why,
                        struct failure *f);

#endif
