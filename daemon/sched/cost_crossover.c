/* cost_crossover: from how many rows on the GPU begins to win. */
#include <math.h>

#include "daemon/sched/cost.h"

enum { CLOSE = 50 /* 2 % */ };

static bool gpu_is_faster(const struct cost_model *m, const struct work *like, uint64_t rows)
{
    struct work w = *like;
    double times = (double)rows / (double)(like->rows ? like->rows : 1);
    w.rows = rows;
    w.pairs = like->rows ? (uint64_t)((double)like->pairs * times) : rows * like->queries;
    if (!w.k) w.bytes_out = (uint64_t)((double)like->bytes_out * times);
    if (w.listed) w.bytes_in = (uint64_t)((double)like->bytes_in * times);
    return cost_predict(m, BACKEND_GPU, &w).ns < cost_predict(m, BACKEND_CPU, &w).ns;
}

uint64_t cost_crossover_rows(const struct cost_model *m, const struct work *like, uint64_t rows_max)
{
    if (!rows_max) return 0;
    int top = (int)floor(4 * log2((double)rows_max)), from = -1; /* in quarters of an octave */
    /* Searches from above, by octaves and then by quarters: the GPU must be faster from there
     * on. */
    for (int step = 4; step >= 1; step -= 3)
        for (int at = from < 0 ? top : from - step; at >= 0; at -= step) {
            if (!gpu_is_faster(m, like, (uint64_t)exp2(at / 4.0))) break;
            from = at;
        }
    if (from < 0) return 0;
    uint64_t slower = from ? (uint64_t)exp2((from - 1) / 4.0) : 0,
             rows = (uint64_t)exp2(from / 4.0);
    while (rows > slower + 1 && (rows - slower) * CLOSE > rows) {
        uint64_t middle = slower + (rows - slower) / 2;
        if (gpu_is_faster(m, like, middle))
            rows = middle;
        else
            slower = middle;
    }
    return rows;
}
