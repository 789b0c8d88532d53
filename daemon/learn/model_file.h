/* model_file: what was learnt of the backends (sched/cost.h), as JSON in a file that is replaced as
 * a whole. It has two halves, the CPU's and the GPUs', each with the machine that it was learnt on.
 * Owner:  the keeper (model_keeper.h).
 * Thread: any; no state.
 * Errors: reading: INVALID_ARGUMENT and why, *out is unchanged; NOT_FOUND: there is no file.
 *         Writing: the file that was there stays. Texts name no path. */
#ifndef ENGRAM_LEARN_MODEL_FILE_H
#define ENGRAM_LEARN_MODEL_FILE_H

#include <stddef.h>

#include "daemon/base/status.h"
#include "daemon/sched/cost.h"

enum {
    MODEL_FORMAT = 4,
    MODEL_BYTES_MAX = 1 << 20,
    MODEL_MACHINE_MAX = 2048,
};

enum calibrated_half { HALF_CPU, HALF_GPU, HALVES };

struct model_half {
    bool known;
    bool calibrated;                 /* measured, not only learnt from requests */
    char machine[MODEL_MACHINE_MAX]; /* in words; halves of other words are of no use */
    struct cost_line lines[COST_OPERATIONS];
    double upload_ns_per_byte, upload_ns; /* the GPUs' */
};

struct model_file {
    struct model_half halves[HALVES];
};

/* Numbers that are not finite, or negative where that makes no sense, refuse the whole; what is
 * merely beyond belief is cut to what can be worked with. Outcomes are not kept: a backend starts
 * with a clean slate. */
enum status model_file_parse(const char *text, size_t bytes, struct model_file *out,
                             struct failure *f);
/* To be freed; NULL: no memory. */
char *model_file_print(const struct model_file *m);

/* Only regular files of at most MODEL_BYTES_MAX bytes. */
enum status model_file_read(const char *path, struct model_file *out, struct failure *f);
/* Mode 0600. It reaches the disk before it replaces what was there, so it blocks. */
enum status model_file_write(const char *path, const struct model_file *m, struct failure *f);

#endif
