/* Files of zstd as the command line tool reads them: frames are foreign bytes, whose sums fit
 * here. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include "client/cli/files/snapshot.h"

enum { BYTES = (17 << 20) + 5 }; /* two pieces of the array */

struct scene {
    char path[64];
    struct snapshot s;
    struct snapshot_file file;
    uint8_t *array, *frame;
    size_t frame_bytes;
};

static void open_scene(struct scene *s)
{
    memset(s, 0, sizeof *s);
    strcpy(s->path, "/tmp/engram-zstd-XXXXXX");
    cr_assert_not_null(mkdtemp(s->path));
    s->s.folder = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    s->array = malloc(BYTES);
    s->frame = malloc(2 * (size_t)BYTES);
    cr_assert(s->s.folder >= 0 && s->array && s->frame);
    for (uint32_t i = 0; i < BYTES; i++)
        s->array[i] = (uint8_t)(i * 2654435761u >> 27);
    strcpy(s->file.name, "1-rows.npy.zst");
    s->file.is_zstd = true;
    s->file.bytes = BYTES;
}

static void close_scene(struct scene *s)
{
    free(s->array);
    free(s->frame);
    close(s->s.folder);
    cr_assert_eq(rmdir(s->path), 0);
}

static void pack(struct scene *s, int level, size_t bytes)
{
    s->frame_bytes = ZSTD_compress(s->frame, 2 * (size_t)BYTES, s->array, bytes, level);
    cr_assert_not(ZSTD_isError(s->frame_bytes));
}

/* Writes the frame, and says of it what is so. */
static void put(struct scene *s)
{
    struct snapshot_file *f = &s->file;
    int fd = openat(s->s.folder, f->name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    cr_assert_eq(write(fd, s->frame, s->frame_bytes), (ssize_t)s->frame_bytes);
    close(fd);
    f->disk_bytes = s->frame_bytes;
    f->piece_count = (f->disk_bytes + SNAPSHOT_PIECE_BYTES - 1) / SNAPSHOT_PIECE_BYTES;
    f->pieces = calloc(f->piece_count + 1, sizeof *f->pieces);
    for (uint64_t i = 0; i < f->piece_count; i++) {
        uint64_t at = i * SNAPSHOT_PIECE_BYTES, left = f->disk_bytes - at;
        f->pieces[i] =
            XXH3_64bits(s->frame + at, left < SNAPSHOT_PIECE_BYTES ? left : SNAPSHOT_PIECE_BYTES);
    }
    unsigned length;
    EVP_Digest(s->frame, s->frame_bytes, f->sha256, &length, EVP_sha256(), NULL);
}

/* Reads all of it; false: refused. */
static bool reads(struct scene *s)
{
    struct snapshot_reader r;
    uint64_t bytes = 1, at = 0;
    bool fine = snapshot_reader_open(&r, &s->s, &s->file, true);
    while (fine && bytes) {
        fine = snapshot_reader_next(&r, &bytes);
        if (fine && bytes) cr_assert_eq(memcmp(r.piece, s->array + at, bytes), 0);
        at += bytes;
    }
    if (fine) cr_assert_eq(at, s->file.bytes);
    snapshot_reader_close(&r);
    unlinkat(s->s.folder, s->file.name, 0);
    free(s->file.pieces);
    return fine;
}

static void refused(struct scene *s, const char *why)
{
    put(s);
    s->s.error[0] = 0;
    s->s.damaged = false;
    cr_assert_not(reads(s), "%s", why);
    cr_assert(s->s.damaged && strstr(s->s.error, s->file.name), "%s", s->s.error);
    cr_assert_not_null(strstr(s->s.error, why), "%s: %s", why, s->s.error);
}

Test(snapshot_zstd, a_frame_is_read_and_taken_from)
{
    struct scene s;
    struct snapshot_reader r;
    char some[100];
    open_scene(&s);
    for (int level = 1; level <= 5; level += 4) {
        pack(&s, level, BYTES);
        put(&s);
        cr_assert(reads(&s), "%s", s.s.error);
    }
    put(&s);
    cr_assert(snapshot_reader_open(&r, &s.s, &s.file, false));
    for (uint64_t at = SNAPSHOT_HEAD_BYTES; at + sizeof some <= BYTES; at += sizeof some) {
        cr_assert(snapshot_reader_take(&r, some, sizeof some), "%s", s.s.error);
        cr_assert_eq(memcmp(some, s.array + at, sizeof some), 0);
    }
    cr_assert_not(snapshot_reader_take(&r, some, sizeof some));
    cr_assert_not_null(strstr(s.s.error, "fewer numbers"));
    snapshot_reader_close(&r);
    unlinkat(s.s.folder, s.file.name, 0);
    free(s.file.pieces);
    close_scene(&s);
}

Test(snapshot_zstd, a_frame_that_lies_is_refused)
{
    struct scene s;
    open_scene(&s);
    pack(&s, 1, BYTES - 1);
    refused(&s, "fewer bytes than the array");
    pack(&s, 1, BYTES);
    s.frame_bytes -= 3;
    refused(&s, "cut off");
    s.frame_bytes = 0;
    refused(&s, "cut off");
    pack(&s, 1, BYTES);
    memcpy(s.frame + s.frame_bytes, "\x50\x2a\x4d\x18\0\0\0\0", 8); /* a frame to be skipped */
    s.frame_bytes += 8;
    refused(&s, "behind the zstd frame");
    pack(&s, 1, BYTES);
    s.frame[0] ^= 1;
    refused(&s, "rame"); /* zstd's own words */
    pack(&s, 1, BYTES);
    s.file.bytes--;
    refused(&s, "more bytes than the array");
    s.file.bytes++;
    /* a window of 128 MiB, which a reader would have to keep */
    ZSTD_CCtx *large = ZSTD_createCCtx();
    ZSTD_inBuffer in = {s.array, BYTES, 0};
    ZSTD_outBuffer out = {s.frame, 2 * (size_t)BYTES, 0};
    ZSTD_CCtx_setParameter(large, ZSTD_c_windowLog, 27);
    while (ZSTD_compressStream2(large, &out, &in, in.pos < in.size ? ZSTD_e_continue : ZSTD_e_end))
        ;
    ZSTD_freeCCtx(large);
    s.frame_bytes = out.pos;
    refused(&s, "memory"); /* zstd's own words */
    close_scene(&s);
}

/* Sums that do not fit are told before a frame is looked at. */
Test(snapshot_zstd, any_byte_that_differs_is_found)
{
    struct scene s;
    open_scene(&s);
    s.file.bytes = 4000;
    for (size_t at = 0;; at += 7) {
        pack(&s, 3, 4000);
        if (at >= s.frame_bytes) break;
        put(&s);
        s.frame[at] ^= 0x10;
        int fd = openat(s.s.folder, s.file.name, O_WRONLY | O_CLOEXEC);
        cr_assert_eq(pwrite(fd, s.frame + at, 1, (off_t)at), 1);
        close(fd);
        cr_assert_not(reads(&s));
        cr_assert_not_null(strstr(s.s.error, "16 MiB from here"), "%s", s.s.error);
    }
    /* and, with sums that fit, ends in some way */
    for (size_t at = 0;; at++) {
        pack(&s, 3, 4000);
        if (at >= s.frame_bytes) break;
        s.frame[at] ^= (uint8_t)(1 << at % 8);
        put(&s);
        struct snapshot_reader r;
        uint64_t bytes = 1;
        bool fine = snapshot_reader_open(&r, &s.s, &s.file, true);
        while (fine && bytes)
            fine = snapshot_reader_next(&r, &bytes);
        snapshot_reader_close(&r);
        unlinkat(s.s.folder, s.file.name, 0);
        free(s.file.pieces);
    }
    close_scene(&s);
}
