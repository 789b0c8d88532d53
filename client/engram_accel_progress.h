/* engram_accel_progress: how far long requests are. engram_accel.h, which includes this header,
 * says who owns what, which threads may call, and what errors mean. */
#ifndef ENGRAM_ACCEL_H
#include "engram_accel.h" /* which includes this one */
#elif !defined(ENGRAM_ACCEL_PROGRESS_H)
#define ENGRAM_ACCEL_PROGRESS_H

#ifdef __cplusplus
extern "C" {
#endif

/* What a request is doing. There may be more of them one day. */
typedef enum ea_phase {
    EA_PHASE_WAITING = 1,  /* for its turn */
    EA_PHASE_RUNNING = 2,  /* some step of it, in parts */
    EA_PHASE_ROWS = 3,     /* rows are found and checked */
    EA_PHASE_MEAN = 4,     /* of a covariance */
    EA_PHASE_PRODUCTS = 5, /* of a covariance: rows, once for each tile of the result */
    EA_PHASE_PAIRS = 6,    /* of a clustering: pairs of rows */
    EA_PHASE_MERGES = 7,   /* of a clustering; total is the most that there can be */
    EA_PHASE_SCORES = 8,   /* of a clustering */
    EA_PHASE_REPLY = 9,
    EA_PHASE_SAVING = 10 /* of a save: bytes of files, linked ones included */
} ea_phase;
EA_API const char *ea_phase_name(uint32_t phase); /* "merges"; "?" for an unknown one */

typedef struct ea_progress_report {
    uint64_t request_id;
    const char *operation; /* "cluster" */
    uint32_t phase;        /* ea_phase */
    ea_backend backend;    /* that has it */
    uint64_t done, total;  /* of this phase; total 0: not known */
    uint64_t elapsed_us;   /* since it came */
    uint64_t foreseen_us;  /* how long it was predicted to run; 0: it was not */
} ea_progress_report;

/* From now on, blocking calls of this handle call back while a request of theirs lasts: first after
 * some 0.2 s, then up to five times a second. callback NULL: no more. It may call nothing of this
 * handle but ea_cancel_from_thread; if it returns false, the request is cancelled, and the call
 * ends with EA_CANCELLED or with an answer that was already on its way. A daemon that does not know
 * how (version 0.1) is not asked. (Requests of _send: ea_send_options.) */
EA_API ea_status ea_on_progress(ea_client *c, ea_progress_callback callback, void *user);

#ifdef __cplusplus
}
#endif

#endif
