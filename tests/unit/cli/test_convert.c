/* Numbers of other types as float32. */
#include "client/cli/files/convert.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>

Test(convert, halves_are_exact)
{
    for (unsigned h = 0; h < 0x10000; h++) {
        float got = convert_half((uint16_t)h);
        int exponent = (int)(h >> 10 & 31), fraction = (int)(h & 1023);
        double want = exponent == 31  ? (fraction ? NAN : INFINITY)
                      : exponent == 0 ? ldexp(fraction, -24)
                                      : ldexp(1024 + fraction, exponent - 25);
        if (h & 0x8000) want = -want;
        if (isnan(want)) {
            cr_assert(isnan(got));
        } else {
            cr_assert_eq((double)got, want, "half %04x", h);
            cr_assert_eq(!!signbit(got), h >> 15);
        }
    }
}

Test(convert, doubles_round_to_nearest_even)
{
    const double in[] = {1 + 0x1p-24, 1 + 0x3p-24, 1 + 0x1.8p-24, 1e39, -1e-50, 0x1.fffffefp127};
    const float want[] = {1, 1 + 0x1p-22f, 1 + 0x1p-23f, INFINITY, -0.0f, FLT_MAX};
    float out[6];
    convert_double_row((const unsigned char *)in, out, 6);
    for (int i = 0; i < 6; i++)
        cr_assert_eq(out[i], want[i]);
    cr_assert_eq(convert_first_not_finite(out, 6), 3);
    cr_assert_eq(convert_first_not_finite(out, 3), 3);
}
