/* Verify: a snapshot is read and compared with its sums, without a daemon. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/persist/folder.h"
#include "daemon/persist/load.h"
#include "daemon/persist/persist.h"

/* Opens the snapshot that the path names: itself, or the newest in it. */
static int open_snapshot(const char *path, FILE *out)
{
    struct stat is;
    uint64_t *numbers = NULL, count = 0;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstatat(fd, "manifest.json", &is, AT_SYMLINK_NOFOLLOW) == 0) return fd;
    int newest = fd;
    if (!folder_list(fd, &numbers, &count, NULL) && count) {
        newest = folder_open_snapshot(fd, numbers[0]);
        fprintf(out, "snapshot-%012" PRIu64 " of %" PRIu64 "\n", numbers[0], count);
        close(fd);
    }
    free(numbers);
    return newest;
}

static bool verify_objects(int folder, const struct manifest *m, FILE *out)
{
    uint64_t wrong = 0, bytes = 0;
    for (uint64_t i = 0; i < m->object_count; i++) {
        const struct snapshot_object *o = &m->objects[i];
        struct failure f = {0};
        enum status st = load_verify(folder, o, &f);
        bytes += snapshot_object_bytes(o);
        wrong += st != STATUS_OK;
        fprintf(out, "%-8s %s/%s, version %" PRIu64 ", %" PRIu64 " MiB%s%s\n",
                st ? "DAMAGED" : "ok", o->space, o->name, o->version,
                snapshot_object_bytes(o) >> 20, st ? ": " : "", st ? f.text : "");
    }
    struct token_bytes tokens = {0};
    struct failure f = {0};
    if (load_tokens(folder, m, &tokens, &f)) {
        fprintf(out, "DAMAGED  %s\n", f.text);
        wrong++;
    }
    token_bytes_free(&tokens);
    fprintf(out, "%" PRIu64 " object%s, %" PRIu64 " MiB, generation %" PRIu64 "%s: %s\n",
            m->object_count, m->object_count == 1 ? "" : "s", bytes >> 20, m->generation,
            m->complete ? ", of an orderly stop" : "", wrong ? "DAMAGED" : "ok");
    return !wrong;
}

bool persist_verify(const char *path, const char *key_file, FILE *out)
{
    struct manifest m = {0};
    struct manifest_key key = {0};
    struct failure f = {0};
    int folder = open_snapshot(path, out);
    if (folder < 0) {
        fprintf(out, "%s: %s\n", path, strerror(errno));
        return false;
    }
    enum status st = load_key(key_file, &key, &f);
    if (!st) st = load_manifest(folder, &key, &m, &f);
    if (st) fprintf(out, "DAMAGED  %s\n", f.text);
    bool whole = !st && verify_objects(folder, &m, out);
    manifest_free(&m);
    close(folder);
    return whole;
}
