/* fuzz_vectors_file: the readers of .npy, .fvecs and .fbin over any bytes.
 * The first byte picks the format and whether ids or vectors are wanted; the rest is the file. */
#include "client/cli/files/vectors_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(struct vectors_file *file, enum vectors_content content)
{
    uint64_t got = 1;
    void *rows = malloc(file->columns * 8 * 3);
    if (!rows) abort();
    for (unsigned blocks = 0; got && blocks < 4096; blocks++) {
        bool ok = content == VECTORS_OF_IDS ? vectors_file_read_ids(file, rows, 3, &got)
                                            : vectors_file_read(file, rows, 3, &got);
        if (!ok) {
            if (!file->error[0] || strchr(file->error, '\n')) abort();
            break;
        }
    }
    free(rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) return 0;
    enum vectors_format format = (enum vectors_format)(data[0] % 3);
    enum vectors_content content = data[0] & 4 ? VECTORS_OF_IDS : VECTORS_OF_FLOATS;
    FILE *stream = fmemopen((void *)(data + 1), size - 1, "rb");
    if (!stream) return 0;
    struct vectors_file file;
    bool opened = vectors_file_open_stream(&file, stream, "input", format, content);
    /* The size was checked, so what is allocated from here on is bounded by the input. */
    if (opened && file.columns > size && file.rows > 0) abort();
    if (opened) read_all(&file, content);
    if (!opened && (!file.error[0] || strchr(file.error, '\n'))) abort();
    vectors_file_close(&file);
    return 0;
}
