/* Which radices a number of points has, and the roots, which are computed in integers: a
 * fixed-point angle of at most an eighth of a turn and Taylor's series, with 62 bits after the
 * point. Their error, a few units of the last of these, is far less than how close any of the
 * numbers comes to the middle between two binary32 numbers (tests/kernels/test_transform.c). */
#include "kernels/transform.h"

#include <string.h>

enum { POINT = 62 }; /* bits after the point */

__extension__ typedef unsigned __int128 wide;

static uint64_t fixed_multiply(uint64_t a, uint64_t b)
{
    return (uint64_t)((wide)a * b >> POINT);
}

/* The series of cos (first = 0) or of sin without its factor x (first = 1), of x^2 <= 0.617. */
static uint64_t fixed_series(uint64_t square, unsigned first)
{
    const uint64_t one = (uint64_t)1 << POINT;
    uint64_t sum = one;
    for (unsigned n = 22 + first; n > first; n -= 2)
        sum = one - fixed_multiply(square, sum) / (n * (n - 1));
    return sum;
}

/* Of k / n <= 1 / 8 of a turn. */
static struct transform_root root_of_eighth(uint32_t k, uint32_t n)
{
    /* 2 pi, with 62 bits after the point */
    const wide turn = (wide)6 << POINT | 0x121fb54442d1846au;
    uint64_t angle = (uint64_t)((turn * k + n / 2) / n);
    uint64_t square = fixed_multiply(angle, angle);
    return (struct transform_root){
        .cosine = (float)(int64_t)fixed_series(square, 0) * 0x1p-62f,
        .sine = (float)(int64_t)fixed_multiply(angle, fixed_series(square, 1)) * 0x1p-62f,
    };
}

struct transform_root transform_root(uint32_t k, uint32_t n)
{
    uint32_t eighths = 8 * (k % n); /* of n-ths: n of them are an eighth of a turn */
    uint32_t octant = eighths / n;
    /* From the nearer axis: as 8 n-ths of a turn, so that odd n have none of their own. */
    uint32_t rest = eighths - octant * n;
    struct transform_root r = root_of_eighth(octant % 2 ? n - rest : rest, 8 * n);
    bool swapped = octant == 1 || octant == 2 || octant == 5 || octant == 6;
    float cosine = swapped ? r.sine : r.cosine, sine = swapped ? r.cosine : r.sine;
    bool left = octant >= 2 && octant < 6, below = octant >= 4;
    return (struct transform_root){.cosine = left && cosine != 0.0f ? -cosine : cosine,
                                   .sine = below && sine != 0.0f ? -sine : sine};
}

/* Takes the factors `prime` out of *points and returns how many there were. */
static uint32_t take_factors(uint32_t *points, uint32_t prime)
{
    uint32_t count = 0;
    for (; *points % prime == 0; *points /= prime)
        count++;
    return count;
}

struct radices {
    uint32_t radix[16];
    uint32_t count;
};

static void add_radix(struct radices *r, uint32_t radix, uint32_t times)
{
    for (uint32_t i = 0; i < times; i++)
        r->radix[r->count++] = radix;
}

static void add_twos(struct radices *r, uint32_t twos)
{
    static const uint8_t split[15][3] = {{0},    {1},       {2},       {3},       {4},
                                         {5},    {2, 4},    {3, 4},    {4, 4},    {4, 5},
                                         {5, 5}, {3, 4, 4}, {4, 4, 4}, {4, 4, 5}, {4, 5, 5}};
    for (uint32_t i = 0; i < 3 && split[twos][i] != 0; i++)
        add_radix(r, 1u << split[twos][i], 1);
}

static void sort_radices(struct radices *r)
{
    for (uint32_t i = 1; i < r->count; i++) {
        uint32_t moved = r->radix[i], at = i;
        for (; at > 0 && r->radix[at - 1] > moved; at--)
            r->radix[at] = r->radix[at - 1];
        r->radix[at] = moved;
    }
}

/* Leaves no radices if there is another prime factor. */
static struct radices choose_radices(uint32_t points)
{
    struct radices r = {.count = 0};
    uint32_t rest = points;
    uint32_t sevens = take_factors(&rest, 7), fives = take_factors(&rest, 5);
    uint32_t threes = take_factors(&rest, 3), twos = take_factors(&rest, 2);
    if (rest != 1) return r;
    add_radix(&r, 7, sevens);
    add_radix(&r, 25, fives / 2);
    bool twenty = fives % 2 == 1 && (twos == 2 || twos >= 6);
    add_radix(&r, twenty ? 20 : 5, fives % 2);
    twos -= twenty ? 2 : 0;
    add_radix(&r, 9, threes / 2);
    bool twenty_four = threes % 2 == 1 && (twos == 3 || twos >= 7);
    add_radix(&r, twenty_four ? 24 : 3, threes % 2);
    twos -= twenty_four ? 3 : 0;
    add_twos(&r, twos);
    uint32_t last = r.radix[r.count - 1];
    if (last != 16 && last != 32) sort_radices(&r);
    return r;
}

bool transform_plan_init(uint32_t points, struct transform_plan *plan)
{
    if (points < 2 || points > TRANSFORM_POINTS_MAX) return false;
    struct radices r = choose_radices(points);
    if (r.count == 0 || r.count > TRANSFORM_PASSES_MAX) return false;
    *plan = (struct transform_plan){.points = points, .passes = r.count};
    uint32_t length = points, at = 0;
    for (uint32_t i = 0; i < r.count; i++) {
        plan->radix[i] = r.radix[i];
        plan->roots[i] = at;
        at += i + 1 < r.count ? 2 * (length - length / r.radix[i]) : 0;
        length /= r.radix[i];
    }
    return true;
}

size_t transform_roots_count(const struct transform_plan *plan)
{
    return plan->roots[plan->passes - 1];
}

void transform_roots_make(const struct transform_plan *plan, float *table)
{
    uint32_t length = plan->points;
    for (uint32_t i = 0; i + 1 < plan->passes; i++) {
        uint32_t columns = length / plan->radix[i];
        float *cosines = table + plan->roots[i], *sines = cosines + (length - columns);
        for (uint32_t g = 1; g < plan->radix[i]; g++) {
            for (uint32_t n = 0; n < columns; n++) {
                struct transform_root root = transform_root(g * n, length);
                cosines[(g - 1) * columns + n] = root.cosine;
                sines[(g - 1) * columns + n] = root.sine;
            }
        }
        length = columns;
    }
}
