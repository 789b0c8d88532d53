/* fuzz_edges_file: the readers of edges in text and MatrixMarket over any bytes.
 * The first byte picks the format; the rest is the file. */
#include "client/cli/files/edges_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_error(const struct edges_file *file)
{
    if (!file->error[0] || strchr(file->error, '\n')) abort();
}

static void read_all(struct edges_file *file, size_t size)
{
    uint64_t sources[3], targets[3], got = 1, bytes, known;
    float weights[3];
    while (got) {
        if (!edges_file_read(file, sources, targets, weights, 3, &got)) {
            check_error(file);
            return;
        }
        for (uint64_t i = 0; i < got; i++)
            if (sources[i] == UINT64_MAX || targets[i] == UINT64_MAX || !isfinite(weights[i]))
                abort();
    }
    /* An edge takes a line of three bytes, and one of a symmetric matrix stands for two. */
    edges_file_place(file, &bytes, &known);
    if (bytes != size || file->edges > size) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    enum edges_format format = data[0] & 1 ? EDGES_MATRIX : EDGES_TEXT;
    FILE *stream = fmemopen((void *)(data + 1), size - 1, "rb");
    if (!stream) return 0;
    struct edges_file file;
    if (edges_file_open_stream(&file, stream, "input", format, data[0] >> 1))
        read_all(&file, size - 1);
    else
        check_error(&file);
    edges_file_close(&file);
    return 0;
}
