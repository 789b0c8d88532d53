/* convert: converts numbers of files to float32.
 * Owner:  nobody; pure functions.
 * Thread: any.
 * Errors: none; numbers too large for float32 become an infinity, which the caller reports. */
#ifndef ENGRAM_CLI_FILES_CONVERT_H
#define ENGRAM_CLI_FILES_CONVERT_H

#include <stddef.h>
#include <stdint.h>

/* Converts IEEE binary16, subnormals included; exact. */
float convert_half(uint16_t half);
/* in: little-endian, any alignment. float64 rounds to the nearest float32, ties to even. */
void convert_half_row(const unsigned char *in, float *out, size_t n);
void convert_double_row(const unsigned char *in, float *out, size_t n);
/* Returns the place of the first number that is not finite, or n. */
size_t convert_first_not_finite(const float *row, size_t n);

#endif
