/* cost: how long a request takes on each backend, alone. One model per operation and backend:
 * affine in the work's features, fitted by calibration, times what has been seen
 * since of work of that size and width, times a drift that follows fast. Each of the three has a
 * variance, and a surprise is shared out by them: built-in figures give way first, fitted ones
 * hardly, known cells little, and what many sizes have in common is left for the drift. It also
 * keeps how often each backend ended an operation well, lately.
 * Owner:  the scheduler.
 * Thread: the loop. Nothing here knows the time.
 * Errors: none; numbers that make no sense are not learnt. */
#ifndef ENGRAM_SCHED_COST_H
#define ENGRAM_SCHED_COST_H

#include "daemon/base/job.h"
#include "daemon/base/ticket.h"

enum {
    /* 1, bytes of rows read once, pairs * stride (of a spread: nodes that all its sets touch), queries,
     * bytes moved, pairs, and 1 for what is handed to workers since it is not brief (base/ticket.h) */
    COST_FEATURES = 7,
    COST_SIZES = 48,         /* cells: of pairs * stride, an octave each */
    COST_WIDTHS = 6,         /* and of queries: 1, 2-3, 4-8, 9-31, 32-127, 128 and more */
    COST_WINDOW = 64,        /* outcomes that count for the success rate */
    COST_OUTCOMES_MIN = 20,  /* fewer say nothing */
    COST_OUTCOMES_ANEW = 16, /* so many that went well in a row: what was before is forgotten */
    COST_OPERATIONS = 8,     /* kinds of work that have models of their own */
};

struct cost_cell {
    float bias;   /* natural logarithm: seen / affine, without drift */
    float weight; /* how much was seen, fading */
};

/* One operation on one backend. */
struct cost_line {
    double coefficients[COST_FEATURES];        /* ns per unit, >= 0 */
    float doubt[COST_FEATURES][COST_FEATURES]; /* covariance of their natural logarithms */
    float drift;                               /* natural logarithm: lately seen / predicted */
    float lean;                                /* mean ln(seen / predicted), fading fast */
    float spread;                              /* mean |ln(seen / predicted)|, fading */
    float overlap;     /* of its time alone, how much it holds a busy backend up: (0, 1] */
    uint64_t seen;     /* observations */
    uint64_t outcomes; /* the last COST_WINDOW, newest in bit 0; 1: went well */
    uint32_t outcome_count;
    struct cost_cell cells[COST_SIZES][COST_WIDTHS];
};

struct cost_model {
    struct cost_line lines[2][COST_OPERATIONS]; /* [0] CPU, [1] GPU */
    double upload_ns_per_byte, upload_ns;       /* to bring a replica up to date */
    uint32_t workers;
    bool calibrated; /* fitted or loaded; else it starts from built-in figures */
};

struct prediction {
    uint64_t ns;      /* from submission to the end, alone on an idle backend; >= 1 */
    uint64_t busy_ns; /* of that, what others wait for when the backend is busy */
    float confidence; /* 0: a guess .. 1: seen often enough to know the mean */
};

/* Built-in figures for that many workers. */
void cost_init(struct cost_model *m, uint32_t workers);

_Static_assert((int)COST_KINDS <= (int)COST_OPERATIONS, "each kind of work has a line");

/* Which line an operation has; all those without scores share COST_BYTES. */
enum cost_kind cost_line_of(uint32_t operation);
/* In what a GPU's least work is counted. */
static inline enum measure work_measure(const struct work *w)
{
    return cost_rows[operation_row(w->operation)->cost].measure;
}

struct prediction cost_predict(const struct cost_model *m, enum backend_id b, const struct work *w);
/* The same but for confidence, which takes longer than the rest. */
struct prediction cost_time(const struct cost_model *m, enum backend_id b, const struct work *w);
/* Bytes of rows to a device, before the work can start there. */
uint64_t cost_upload_ns(const struct cost_model *m, uint64_t bytes);

/* A run alone would have taken between low_ns (what it held the backend up: from the later of its
 * start and the end of the run before to its end) and high_ns (submission to end); both are equal
 * when it was alone. */
void cost_observe(struct cost_model *m, enum backend_id b, const struct work *w, uint64_t low_ns,
                  uint64_t high_ns);
void cost_observe_upload(struct cost_model *m, uint64_t bytes, uint64_t ns);

/* A run ended well, or the backend let it down (not: its client cancelled, or asked nonsense). */
void cost_outcome(struct cost_model *m, enum backend_id b, uint32_t operation, bool well);
/* 0..1: the highest rate that the last COST_WINDOW outcomes leave plausible (Wilson's bound, three
 * sigma), so that a backend just as good as required is not barred for chance; 1 while there are
 * fewer than COST_OUTCOMES_MIN. Only probes reach a backend that fails, and must not take a whole
 * window to see that it fails no more: after COST_OUTCOMES_ANEW that went well the rest does not
 * count. */
double cost_success_rate(const struct cost_model *m, enum backend_id b, uint32_t operation);

/* Least squares of relative errors, coefficients >= 0, over runs alone; replaces a line's
 * coefficients and clears what it learnt beside them. Too few or useless samples change nothing. */
struct cost_sample {
    struct work work;
    uint64_t ns;
};
void cost_fit(struct cost_model *m, enum backend_id b, uint32_t operation,
              const struct cost_sample *samples, uint32_t count);

/* The fewest rows, a power of 2^(1/4), from which the GPU (replica there, nothing waiting) is
 * predicted to be faster for that many queries; 0: never up to rows_max. */
uint64_t cost_crossover_rows(const struct cost_model *m, const struct work *like,
                             uint64_t rows_max);

#endif
