/* fuzz_text_rows: vectors from CSV and JSON Lines, and ids from lines, over any bytes. The first
 * byte picks which; the rest is the file. */
#include "client/cli/files/text_rows.h"
#include "client/cli/files/vectors_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was converted must be a file that the reader takes, whole. */
static void read_back(FILE *stream, enum vectors_format format, enum vectors_content content)
{
    struct vectors_file file;
    uint64_t got;
    rewind(stream);
    if (!vectors_file_open_stream(&file, stream, "converted", format, content)) abort();
    void *row = malloc(file.columns * 8);
    if (!row) abort();
    do {
        bool ok = content == VECTORS_OF_IDS ? vectors_file_read_ids(&file, row, 1, &got)
                                            : vectors_file_read(&file, row, 1, &got);
        if (!ok) abort();
    } while (got);
    free(row);
    vectors_file_close(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    char error[400] = "";
    FILE *in = fmemopen((void *)(data + 1), size - 1, "rb"), *out = tmpfile(), *ids = NULL;
    if (!in || !out) abort();
    bool list = data[0] % 3 == 2, ok;
    if (list)
        ok = text_rows_ids(in, "input", out, error, sizeof error);
    else
        ok = text_rows_convert(in, "input", data[0] % 3 ? TEXT_ROWS_JSON : TEXT_ROWS_CSV, out, &ids,
                               error, sizeof error);
    fclose(in);
    if (!ok && (!error[0] || strchr(error, '\n') || ids)) abort();
    if (ids) read_back(ids, VECTORS_NPY, VECTORS_OF_IDS);
    if (ok)
        read_back(out, list ? VECTORS_NPY : VECTORS_FBIN,
                  list ? VECTORS_OF_IDS : VECTORS_OF_FLOATS);
    else
        fclose(out);
    return 0;
}
