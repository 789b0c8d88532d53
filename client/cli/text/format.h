/* format: numbers, sizes and times for people, and back.
 * Owner:  nobody; each writes into the caller's struct text and returns its characters.
 * Thread: any.
 * Errors: parsers give false and leave *out alone. */
#ifndef ENGRAM_CLI_TEXT_FORMAT_H
#define ENGRAM_CLI_TEXT_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    char c[48];
};

const char *format_count(struct text *t, uint64_t n);     /* "117,659" */
const char *format_bytes(struct text *t, uint64_t bytes); /* "512 B", "1.5 KiB", "172 MiB" */
const char *format_ns(struct text *t, uint64_t ns);       /* "850 ns", "12.3 µs", "4 min 05 s" */
const char *format_many(struct text *t, uint64_t n, const char *what); /* "1 row", "2 rows" */
const char *format_score(struct text *t, float score); /* "0.912345", "1.5e+08", "-" */

/* From now on scores have all of their digits, so that the same float32 is read back. */
void format_exactly(void);

const char *format_ratio(struct text *t, double ratio); /* "1.05", "12.3"; "-" for 0 */
const char *format_fine_ns(struct text *t, double ns);  /* "0.15 ns", "25.0 µs"; "-" for 0 */
/* The rate of items that take ns_each: "40.0 GB/s" for "B/s"; "-" for 0. */
const char *format_rate(struct text *t, double ns_each, const char *unit);

/* Parses a whole number in decimal, which must be the whole text, within [min, max]. */
bool parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out);
/* Parses a finite number, which must be the whole text. */
bool parse_number(const char *text, double min, double max, double *out);
/* Parses HOST:PORT or [::1]:PORT; the port is 1..65535. host has room for host_bytes. */
bool parse_address(const char *text, char *host, size_t host_bytes, uint16_t *port);

#endif
