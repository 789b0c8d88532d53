#include "client/cli/files/convert.h"

#include <string.h>

float convert_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = half >> 10 & 0x1fu;
    uint32_t fraction = half & 0x3ffu;
    uint32_t bits;

    if (exponent == 0x1f) {
        bits = sign | 0x7f800000u | fraction << 13;
    } else if (exponent != 0) {
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    } else {
        float magnitude = (float)fraction * 0x1p-24f; /* exact: 10 bits times a power of two */
        memcpy(&bits, &magnitude, sizeof bits);
        bits |= sign;
    }
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

void convert_half_row(const unsigned char *in, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = convert_half((uint16_t)(in[2 * i] | in[2 * i + 1] << 8));
}

void convert_double_row(const unsigned char *in, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double value;
        memcpy(&value, in + 8 * i, sizeof value);
        out[i] = (float)value;
    }
}

size_t convert_first_not_finite(const float *row, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, row + i, sizeof bits);
        if ((bits & 0x7f800000u) == 0x7f800000u) return i;
    }
    return n;
}
