/* model_file: what was learnt about the backends (sched/cost.h), as JSON in a file that is
 * replaced as a whole. It has two halves, the CPU's and the GPUs', each with a description of the
 * machine on which it was learnt.
 * Owner:  the keeper (model_keeper.h).
 * Thread: any; no state.
 * Errors: reading: INVALID_ARGUMENT and why, *out is unchanged; NOT_FOUND: there is no file.
 *         Writing: the old file stays. Texts do not name a path. */
#ifndef ENGRAM_LEARN_MODEL_FILE_H
#define ENGRAM_LEARN_MODEL_FILE_H

#include <stddef.h>

#include "daemon/base/status.h"
#include "daemon/sched/cost.h"

enum {
    MODEL_FORMAT = 6,
    MODEL_BYTES_MAX = 1 << 20,
    MODEL_MACHINE_MAX = 2048,
};

enum calibrated_half { HALF_CPU, HALF_GPU, HALVES };

struct model_half {
    bool known;
    bool calibrated; /* measured, not only learnt from requests */
    /* a description; a half with another description is not used */
    char machine[MODEL_MACHINE_MAX];
    struct cost_line lines[COST_OPERATIONS];
    double upload_ns_per_byte, upload_ns; /* the GPUs' */
};

struct model_file {
    struct model_half halves[HALVES];
};

/* Numbers that are not finite, or negative where that makes no sense, make the whole file invalid;
 * numbers that are merely implausible are cut to a bound. Outcomes are not kept: every backend
 * starts without failures. */
enum status model_file_parse(const char *text, size_t bytes, struct model_file *out,
                             struct failure *f);
/* The caller frees the text; NULL: no memory. */
char *model_file_print(const struct model_file *m);

/* Reads regular files of at most MODEL_BYTES_MAX bytes only. */
enum status model_file_read(const char *path, struct model_file *out, struct failure *f);
/* Writes with mode 0600. The data is on disk before it replaces the old file, so the call
 * blocks. */
enum status model_file_write(const char *path, const struct model_file *m, struct failure *f);

#endif
