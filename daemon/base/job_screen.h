/* job_screen: what a search did with rows in int8, as a job and its reply carry it.
 * Owner:  the job.
 * Thread: as the job's.
 * Errors: none. */
#ifndef ENGRAM_BASE_JOB_SCREEN_H
#define ENGRAM_BASE_JOB_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

/* What a kNN did with rows in int8 (kernels/shadow.h); all 0: nothing. Of several jobs that ran as
 * one, all of them together. */
struct job_screen {
    uint64_t queries;            /* that asked them */
    uint64_t screened, survived; /* pairs of a query and a row; those whose rows were scored then */
    uint64_t read_bytes;         /* of rows, in either form */
    bool useless;                /* too many survived: some of the next searches will do without */
    bool rested;                 /* it did without for that reason */
};

#endif
