/* fuzz_model: no file makes the reader of saved models crash, leak, change what it refuses, or take
 * a number that the scheduler could not work with; what it took, it writes and takes again. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/learn/model_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_line(const struct cost_line *line)
{
    for (int i = 0; i < COST_FEATURES; i++) {
        if (!(line->coefficients[i] >= 0) || !isfinite(line->coefficients[i])) abort();
        if (!(line->doubt[i][i] > 0)) abort();
        for (int j = 0; j < COST_FEATURES; j++)
            if (!isfinite(line->doubt[i][j])) abort();
    }
    if (!isfinite(line->drift) || !isfinite(line->lean) || !(line->spread >= 0)) abort();
    if (!(line->overlap > 0 && line->overlap <= 1) || !isfinite(line->spread)) abort();
    for (int i = 0; i < COST_SIZES * COST_WIDTHS; i++) {
        const struct cost_cell *cell = &line->cells[i / COST_WIDTHS][i % COST_WIDTHS];
        if (!isfinite(cell->bias) || !(cell->weight >= 0) || !isfinite(cell->weight)) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct model_file m, before;
    struct failure f = {0};
    memset(&m, 0x5a, sizeof m);
    memset(&before, 0x5a, sizeof before);
    enum status st = model_file_parse((const char *)data, size, &m, &f);
    if (st) {
        if (f.code != st || !f.text[0] || memcmp(&m, &before, sizeof m) != 0) abort();
        return 0;
    }
    for (int half = 0; half < HALVES; half++)
        for (int i = 0; m.halves[half].known && i < COST_OPERATIONS; i++)
            check_line(&m.halves[half].lines[i]);
    char *text = model_file_print(&m);
    if (!text) abort();
    if (strlen(text) <= MODEL_BYTES_MAX) {
        if (model_file_parse(text, strlen(text), &m, &f)) abort();
        char *again = model_file_print(&m);
        if (!again || strcmp(text, again) != 0) abort();
        free(again);
    }
    free(text);
    return 0;
}
