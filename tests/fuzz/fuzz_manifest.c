/* fuzz_manifest: no manifest makes its reader crash, leak, take what no daemon could have written,
 * or change what it refuses; what it took, it writes and takes again. The input is what stands
 * before the sum, which is added, and as it is a manifest with a wrong one. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/persist/manifest.h"
#include "daemon/persist/manifest_text.h"
#include "daemon/store/space.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct manifest_key none;

static void check(const struct manifest *m)
{
    for (uint64_t i = 0; i < m->object_count; i++) {
        const struct snapshot_object *o = &m->objects[i];
        if (collection_name_check(o->name, NULL) || o->kind >= RESIDENT_KINDS) abort();
        for (uint32_t k = 0; k < snapshot_array_count(o->kind); k++) {
            const struct array_entry *file = &o->files[k];
            if (strchr(file->name, '/') || file->name[0] == '.') abort();
            if (file->piece_count != array_piece_count(array_disk_bytes(file))) abort();
        }
    }
}

static void parse(const char *text, size_t bytes)
{
    struct manifest m, before;
    struct failure f = {0};
    memset(&m, 0x5a, sizeof m);
    memset(&before, 0x5a, sizeof before);
    enum status st = manifest_parse(text, bytes, &none, &m, &f);
    if (st) {
        if (f.code != st || !f.text[0] || memcmp(&m, &before, sizeof m) != 0) abort();
        return;
    }
    check(&m);
    char *again = NULL;
    size_t again_bytes = 0;
    if (manifest_print(&m, &none, &again, &again_bytes, &f)) abort();
    struct manifest same;
    if (manifest_parse(again, again_bytes, &none, &same, &f)) abort();
    if (same.object_count != m.object_count || same.version != m.version) abort();
    free(again);
    manifest_free(&same);
    manifest_free(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 2 * MANIFEST_END_BYTES);
    if (!text) return 0;
    if (size) memcpy(text, data, size);
    parse(text, size);
    size_t bytes = size + manifest_sum_line("sha256", NULL, text, size);
    memcpy(text + bytes, "\n}\n", 3);
    parse(text, bytes + 3);
    free(text);
    return 0;
}
