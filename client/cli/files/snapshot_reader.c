/* The files of a snapshot. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include "client/cli/files/snapshot.h"

enum { WINDOW_LOG = 23 }; /* no daemon writes a larger one */

struct snapshot_frame {
    ZSTD_DCtx *context;
    ZSTD_inBuffer in; /* of the last piece of the file */
    bool ended;
    uint8_t room[SNAPSHOT_PIECE_BYTES];
};

static bool refuse(struct snapshot_reader *r, bool damaged, const char *why)
{
    snprintf(r->of->error, sizeof r->of->error, "%s: %s", r->file->name, why);
    r->of->damaged = damaged;
    return false;
}

static bool refuse_byte(struct snapshot_reader *r, uint64_t byte, const char *why)
{
    snprintf(r->of->error, sizeof r->of->error, "%s: byte %" PRIu64 ": %s", r->file->name, byte,
             why);
    r->of->damaged = true;
    return false;
}

static bool open_file(struct snapshot_reader *r)
{
    struct stat is;
    r->fd = openat(r->of->folder, r->file->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (r->fd < 0 && errno == ELOOP) return refuse(r, true, "a symbolic link");
    if (r->fd < 0) return refuse(r, errno == ENOENT, strerror(errno));
    if (fstat(r->fd, &is)) return refuse(r, false, strerror(errno));
    if (!S_ISREG(is.st_mode)) return refuse(r, true, "not a regular file");
    if ((uint64_t)is.st_size == r->file->disk_bytes) return true;
    snprintf(r->of->error, sizeof r->of->error,
             "%s: %" PRIu64 " bytes, and the manifest says %" PRIu64, r->file->name,
             (uint64_t)is.st_size, r->file->disk_bytes);
    r->of->damaged = true;
    return false;
}

static struct snapshot_frame *make_frame(void)
{
    struct snapshot_frame *frame = malloc(sizeof *frame);
    if (!frame) return NULL;
    frame->context = ZSTD_createDCtx();
    frame->in = (ZSTD_inBuffer){frame->room, 0, 0};
    frame->ended = false;
    if (frame->context &&
        !ZSTD_isError(ZSTD_DCtx_setParameter(frame->context, ZSTD_d_windowLogMax, WINDOW_LOG)))
        return frame;
    ZSTD_freeDCtx(frame->context);
    free(frame);
    return NULL;
}

bool snapshot_reader_open(struct snapshot_reader *r, struct snapshot *s,
                          const struct snapshot_file *file, bool with_sha)
{
    *r = (struct snapshot_reader){.of = s, .file = file, .fd = -1};
    if (!open_file(r)) return false;
    posix_fadvise(r->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    uint64_t room = file->bytes < SNAPSHOT_PIECE_BYTES ? file->bytes : SNAPSHOT_PIECE_BYTES;
    r->piece = malloc(room);
    EVP_MD_CTX *sums = with_sha ? EVP_MD_CTX_new() : NULL;
    r->sums = sums;
    if (file->is_zstd && !(r->frame = make_frame())) return refuse(r, false, "out of memory");
    if (!r->piece || (with_sha && (!sums || !EVP_DigestInit_ex(sums, EVP_sha256(), NULL))))
        return refuse(r, false, "out of memory");
    return true;
}

void snapshot_reader_close(struct snapshot_reader *r)
{
    EVP_MD_CTX_free(r->sums);
    if (r->frame) ZSTD_freeDCtx(r->frame->context);
    free(r->frame);
    free(r->piece);
    if (r->fd >= 0) close(r->fd);
    *r = (struct snapshot_reader){.fd = -1};
}

static bool check_sha(struct snapshot_reader *r)
{
    uint8_t sum[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    if (!r->sums) return true;
    EVP_DigestFinal_ex(r->sums, sum, &length);
    if (length == SNAPSHOT_SUM_BYTES && memcmp(sum, r->file->sha256, length) == 0) return true;
    return refuse(r, true, "its SHA-256 differs");
}

/* The next piece of the file; *bytes 0: there is none. */
static bool read_piece(struct snapshot_reader *r, uint8_t *to, uint64_t *bytes)
{
    uint64_t first = r->next * SNAPSHOT_PIECE_BYTES, done = 0;
    *bytes = 0;
    if (first >= r->file->disk_bytes) return true;
    uint64_t wanted = r->file->disk_bytes - first;
    if (wanted > SNAPSHOT_PIECE_BYTES) wanted = SNAPSHOT_PIECE_BYTES;
    while (done < wanted) {
        ssize_t n = read(r->fd, to + done, wanted - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return refuse(r, false, strerror(errno));
        if (!n) return refuse_byte(r, first + done, "the file ends");
        done += (uint64_t)n;
    }
    if (XXH3_64bits(to, wanted) != r->file->pieces[r->next])
        return refuse_byte(r, first, "the 16 MiB from here are not those that were written");
    if (r->sums) EVP_DigestUpdate(r->sums, to, wanted);
    r->next++;
    *bytes = wanted;
    return true;
}

/* What the frame holds, until out is full or it has ended. */
static bool decode(struct snapshot_reader *r, ZSTD_outBuffer *out)
{
    struct snapshot_frame *frame = r->frame;
    while (!frame->ended && out->pos < out->size) {
        size_t before_in = frame->in.pos, before_out = out->pos;
        size_t left = ZSTD_decompressStream(frame->context, out, &frame->in);
        if (ZSTD_isError(left)) return refuse(r, true, ZSTD_getErrorName(left));
        frame->ended = left == 0;
        if (frame->ended || frame->in.pos != before_in || out->pos != before_out) continue;
        uint64_t more = 0;
        if (!read_piece(r, frame->room, &more)) return false;
        if (!more) return refuse(r, true, "the zstd frame is cut off");
        frame->in = (ZSTD_inBuffer){frame->room, more, 0};
    }
    return true;
}

static bool check_frame_end(struct snapshot_reader *r)
{
    char more;
    ZSTD_outBuffer out = {&more, 1, 0};
    if (!decode(r, &out)) return false;
    if (out.pos) return refuse(r, true, "the zstd frame holds more bytes than the array has");
    if (r->frame->in.pos == r->frame->in.size &&
        r->next * SNAPSHOT_PIECE_BYTES >= r->file->disk_bytes)
        return true;
    return refuse(r, true, "something stands behind the zstd frame");
}

/* The next 16 MiB of the array, or what is left of it. */
static bool read_frame(struct snapshot_reader *r, uint64_t *bytes)
{
    uint64_t left = r->file->bytes - r->done;
    if (left > SNAPSHOT_PIECE_BYTES) left = SNAPSHOT_PIECE_BYTES;
    ZSTD_outBuffer out = {r->piece, left, 0};
    *bytes = 0;
    if (!left) return check_frame_end(r);
    if (!decode(r, &out)) return false;
    if (out.pos < left)
        return refuse(r, true, "the zstd frame holds fewer bytes than the array has");
    *bytes = left;
    return true;
}

bool snapshot_reader_next(struct snapshot_reader *r, uint64_t *bytes)
{
    if (!(r->frame ? read_frame(r, bytes) : read_piece(r, r->piece, bytes))) return false;
    if (!*bytes) return check_sha(r);
    r->at = r->done ? 0 : SNAPSHOT_HEAD_BYTES;
    r->end = *bytes;
    r->done += *bytes;
    return true;
}

bool snapshot_reader_take(struct snapshot_reader *r, void *to, uint64_t bytes)
{
    uint8_t *out = to;
    while (bytes) {
        uint64_t there = r->end - r->at;
        if (!there) {
            if (!snapshot_reader_next(r, &there)) return false;
            if (!there) return refuse(r, true, "it has fewer numbers than its shape");
            continue;
        }
        if (there > bytes) there = bytes;
        memcpy(out, r->piece + r->at, there);
        r->at += there;
        out += there;
        bytes -= there;
    }
    return true;
}
