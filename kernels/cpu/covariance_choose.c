/* Which table of covariances goes with a variant of the vector kernels, and what needs no
 * variants. */
#include <math.h>
#include <string.h>

#include "kernels/covariance.h"

const struct covariance_kernels *covariance_choose(const char *name)
{
    static const struct covariance_kernels *const tables[] = {
        &covariance_scalar,
#if defined(__x86_64__)
        &covariance_avx2,
        &covariance_avx512,
#elif defined(__aarch64__)
        &covariance_neon,
#endif
    };
    const struct vector_kernels *variant = vectors_choose(name);
    for (size_t i = 0; variant && i < sizeof tables / sizeof *tables; i++) {
        if (strcmp(tables[i]->name, variant->name) == 0) return tables[i];
    }
    return NULL;
}

void covariance_fold(double *nodes, size_t stride, size_t numbers, size_t count)
{
    for (; count > 1; count = (count + 1) / 2) {
        for (size_t i = 0; i < count / 2; i++)
            for (size_t c = 0; c < numbers; c++)
                nodes[i * stride + c] = nodes[2 * i * stride + c] + nodes[(2 * i + 1) * stride + c];
        if (count % 2)
            memmove(nodes + count / 2 * stride, nodes + (count - 1) * stride,
                    numbers * sizeof *nodes);
    }
}

void covariance_weigh(const float *weights, size_t count, double sums[2])
{
    double total = 0, squares = 0;
    for (size_t r = 0; r < count; r++) {
        double weight = (double)weights[r];
        total += weight;
        squares = fma(weight, weight, squares);
    }
    sums[0] = total;
    sums[1] = squares;
}

double covariance_divisor(double total, double squares)
{
    return total > 0 ? total - squares / total : 0;
}

void covariance_write(const double *tile, struct covariance_columns left,
                      struct covariance_columns right, double divisor, uint32_t dimension,
                      double *out)
{
    bool diagonal = left.first == right.first;
    for (size_t j = 0; j < right.count; j++) {
        size_t column = right.first + j, end = diagonal ? j + 1 : left.count;
        double *line = out + column * dimension + left.first;
        for (size_t i = 0; i < end; i++)
            line[i] = tile[j * COVARIANCE_TILE + i] / divisor;
        for (size_t i = 0; i < end; i++)
            out[(left.first + i) * dimension + column] = line[i];
    }
}
