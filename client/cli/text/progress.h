/* progress: one line on standard error that is redrawn; on a terminal only.
 * Owner:  the caller's struct.
 * Thread: the main thread.
 * Errors: none. */
#ifndef ENGRAM_CLI_TEXT_PROGRESS_H
#define ENGRAM_CLI_TEXT_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
    bool shown; /* true if standard error is a terminal */
    bool drawn; /* a line is on the screen */
    uint64_t start_ns, drawn_ns, redraw_ns;
    uint64_t total,
        row_bytes; /* row_bytes 0: what is counted is bytes, not rows; total 0: unknown */
    /* Of what is neither: in place of numbers and rate the line has this word. NULL: no */
    const char *what;
};

void progress_start(struct progress *p, uint64_t total, uint64_t row_bytes, uint64_t now_ns);
/* Draws at most ten times a second. */
void progress_show(struct progress *p, uint64_t done, uint64_t now_ns);
/* Clears the line. */
void progress_finish(struct progress *p);

/* Writes the line itself, at most `width` columns. */
void progress_line(char *out, size_t out_bytes, uint64_t done, uint64_t total, uint64_t row_bytes,
                   uint64_t elapsed_ns, unsigned width);

/* The same where `what` stands in place of numbers: "[==>   ]  31 %  sorted  3.2 s left". */
void progress_part_line(char *out, size_t out_bytes, const char *what, double part,
                        uint64_t elapsed_ns, unsigned width);

uint64_t clock_ns(void); /* monotonic */

#endif
