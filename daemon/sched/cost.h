/* cost: how long a request takes on each backend if it runs alone. There is one model for each
 * operation and backend: affine in the work's features, fitted by calibration, times what was seen
 * for work of this size and width (a cell), times a drift that follows fast. Where rows are asked
 * in int8 first, the features are what is read then, and one more factor is learnt of such runs
 * alone. Each of the four has a variance, and a surprise is divided among them accordingly:
 * built-in figures change most, fitted ones hardly, well-known cells little, and what is common to
 * many sizes is left for the drift. The model also keeps how often each backend ended an operation
 * well of late.
 * Owner:  the scheduler.
 * Thread: the loop. Nothing here reads a clock.
 * Errors: none; numbers that make no sense are ignored. */
#ifndef ENGRAM_SCHED_COST_H
#define ENGRAM_SCHED_COST_H

#include "daemon/base/job.h"
#include "daemon/base/ticket.h"

enum {
    /* The features are: 1; bytes of rows read once; pairs * stride (spread: nodes that all its
     * sets touch); queries; bytes moved; pairs; and 1 if the work is handed to workers because it
     * is not brief (base/ticket.h). The second and third are parts of these where int8 is asked
     * first (sched/work.h). */
    COST_FEATURES = 7,
    COST_SIZES = 48, /* octaves of the third feature, a row of cells each */
    COST_WIDTHS = 6, /* and classes of queries: 1, 2-3, 4-8, 9-32, 33-128, more */
    /* how many outcomes count for the success rate: at most, and unless cost_model.window is set */
    COST_WINDOW_MAX = 1024,
    COST_WINDOW = 100,
    COST_OUTCOMES_MIN = 20, /* with fewer outcomes the rate is not known */
    /* after this many good outcomes in a row, the earlier ones are forgotten */
    COST_OUTCOMES_ANEW = 16,
    COST_OPERATIONS = 12, /* kinds of work that have models of their own */
};

struct cost_cell {
    float bias;   /* logarithm of seen time / affine time, without drift */
    float weight; /* how much was seen; older runs count less */
};

/* The model of one operation on one backend. */
struct cost_line {
    double coefficients[COST_FEATURES];        /* ns per unit, >= 0 */
    float doubt[COST_FEATURES][COST_FEATURES]; /* covariance of the coefficients' logarithms */
    float drift;  /* logarithm of seen time / predicted time, of late */
    float lean;   /* mean of ln(seen / predicted), over few runs */
    float spread; /* mean of |ln(seen / predicted)|, over more runs */
    /* part of its time alone for which it keeps a busy backend from others: (0, 1] */
    float overlap;
    uint64_t seen; /* how many runs were observed */
    /* the last ones, the newest in bit 0 of the first number; 1: it went well */
    uint64_t outcomes[COST_WINDOW_MAX / 64];
    uint32_t outcome_count;
    struct cost_cell cells[COST_SIZES][COST_WIDTHS];
    struct cost_cell screened; /* what applies beside its cell to work of which int8 is asked */
};

struct cost_model {
    struct cost_line lines[2][COST_OPERATIONS]; /* [0] CPU, [1] GPU */
    double upload_ns_per_byte, upload_ns;       /* to bring a replica up to date */
    uint32_t workers;
    uint32_t window; /* how many outcomes count: COST_OUTCOMES_MIN to COST_WINDOW_MAX */
    bool calibrated; /* fitted or loaded; otherwise it began with built-in figures */
};

struct prediction {
    uint64_t ns;      /* from submission to end, if run alone on an idle backend; >= 1 */
    uint64_t busy_ns; /* the part of it for which others have to wait on a busy backend */
    float confidence; /* 0: a guess, up to 1: seen often enough for the mean to be known */
};

/* Starts with built-in figures for this many workers. */
void cost_init(struct cost_model *m, uint32_t workers);

_Static_assert((int)COST_KINDS <= (int)COST_OPERATIONS, "each kind of work has a line");

/* The line of an operation; all operations without scores share COST_BYTES. */
enum cost_kind cost_line_of(uint32_t operation);
/* The unit of the minimum for a GPU. */
static inline enum measure work_measure(const struct work *w)
{
    return cost_rows[operation_row(w->operation)->cost].measure;
}

/* Of a job in stages (work.after) times are the sums of its stages', and as sure as the less sure
 * of them. */
struct prediction cost_predict(const struct cost_model *m, enum backend_id b, const struct work *w);
/* As cost_predict without confidence, whose computation takes longer than the rest. */
struct prediction cost_time(const struct cost_model *m, enum backend_id b, const struct work *w);
/* Returns the most queries of a class of fewer queries than so many; 0: there is none. */
uint64_t cost_width_below(uint64_t queries);
/* Predicts the upload of this many bytes to a device, before work can start there. */
uint64_t cost_upload_ns(const struct cost_model *m, uint64_t bytes);

/* Learns from a run, which would have taken between low_ns and high_ns if it had run alone.
 * low_ns: how long it kept the backend from others (from its start, or the end of the run before
 * if that is later, to its end); high_ns: from submission to end. Both are equal if it ran
 * alone. */
void cost_observe(struct cost_model *m, enum backend_id b, const struct work *w, uint64_t low_ns,
                  uint64_t high_ns);
void cost_observe_upload(struct cost_model *m, uint64_t bytes, uint64_t ns);

/* Notes that a run ended well, or that the backend failed it (cancelled or invalid requests do not
 * count). */
void cost_outcome(struct cost_model *m, enum backend_id b, uint32_t operation, bool well);
/* The highest success rate, 0..1, that is plausible after the last outcomes (Wilson's
 * bound, three sigma), so that a backend that is just good enough is not excluded by chance; 1
 * with fewer than COST_OUTCOMES_MIN outcomes. Only probes reach a backend that fails, and they
 * must not need a whole window to show that it has recovered: after COST_OUTCOMES_ANEW good
 * outcomes the earlier ones do not count. */
double cost_success_rate(const struct cost_model *m, enum backend_id b, uint32_t operation);

/* Fits a line to samples of runs alone: least squares of relative errors, coefficients >= 0. This
 * replaces the line's coefficients and clears what it learnt beside them. Too few or useless
 * samples change nothing. */
struct cost_sample {
    struct work work;
    uint64_t ns;
};
void cost_fit(struct cost_model *m, enum backend_id b, uint32_t operation,
              const struct cost_sample *samples, uint32_t count);

/* The fewest rows, to 2 %, from which the GPU (replica up to date, nothing waiting) is
 * predicted to be faster for this many queries; 0: never up to rows_max. */
uint64_t cost_crossover_rows(const struct cost_model *m, const struct work *like,
                             uint64_t rows_max);

#endif
