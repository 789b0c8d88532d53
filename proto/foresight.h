/* foresight: when to sleep, and when to watch, for the end of something that somebody else does:
 * a run on a card, or a request at the daemon. How long it takes is predicted; the prediction is
 * corrected by what was seen, and the sleeper wakes so much earlier that neither the doubt about
 * the end nor its own late waking makes it miss it. What watching costs is bounded by a share of
 * a core. Here, and not in daemon/base, because both the daemon and the client, which stands
 * alone, are built with proto/.
 * Owner:  whoever waits: the loop, the GPU process, a client's handle.
 * Thread: its owner's. The time is a parameter, in nanoseconds of one clock.
 * Errors: none. */
#ifndef ENGRAM_PROTO_FORESIGHT_H
#define ENGRAM_PROTO_FORESIGHT_H

#include <stdbool.h>
#include <stdint.h>

/* ---- how long it really takes ---- */

enum {
    FORESIGHT_SEEN_MIN = 4,           /* with fewer ends seen nothing is foreseen */
    FORESIGHT_DOUBTS = 3,             /* mean deviations that the end may be off, either way */
    FORESIGHT_DOUBT_PART = 8,         /* a doubt of more than this part of the time, */
    FORESIGHT_DOUBT_LEAST_NS = 20000, /* and of more than this, is no foresight */
};

/* What a kind of thing takes, as a multiple of its prediction. Zeroed: nothing was seen yet. */
struct foresight {
    float ratio, spread; /* the mean, and the mean deviation from it */
    uint32_t seen;
};

static inline float foresight_float_between(float low, float x, float high)
{
    return x < low ? low : x > high ? high : x;
}

/* How much earlier or later than foreseen the end may come. */
static inline uint64_t foresight_doubt_ns(const struct foresight *f, uint64_t predicted_ns)
{
    return (uint64_t)(f->spread * (float)FORESIGHT_DOUBTS * (float)predicted_ns);
}

/* Returns the time that it should take; 0: that is not known well enough to rely on. */
static inline uint64_t foresight_ns(const struct foresight *f, uint64_t predicted_ns)
{
    if (!predicted_ns || f->seen < FORESIGHT_SEEN_MIN) return 0;
    uint64_t ns = (uint64_t)(f->ratio * (float)predicted_ns);
    uint64_t doubt_ns = foresight_doubt_ns(f, predicted_ns);
    bool vague = doubt_ns > ns / FORESIGHT_DOUBT_PART && doubt_ns > FORESIGHT_DOUBT_LEAST_NS;
    return vague ? 0 : ns;
}

/* Learns from an end. watched: it was seen when it came, or somebody had looked after it was
 * expected, and in vain. Otherwise it had come before anybody looked, and took_ns is only the most
 * that it can have taken: what was expected then shrinks, so that whoever slept too long sleeps
 * less the next time. Where nothing was foreseen, nobody slept for that reason: the end itself
 * woke the sleeper, and took_ns is late by no more than that takes. */
static inline void foresight_learn(struct foresight *f, uint64_t predicted_ns, uint64_t took_ns,
                                   bool watched)
{
    if (!predicted_ns) return;
    float x = foresight_float_between(0.01F, (float)took_ns / (float)predicted_ns, 100);
    if (!f->seen++) {
        f->ratio = x;
        f->spread = x / 32;
        return;
    }
    if (f->seen == 0) f->seen = UINT32_MAX;
    if (!watched && x >= f->ratio && foresight_ns(f, predicted_ns)) {
        f->ratio = foresight_float_between(0.01F, f->ratio - f->spread / 2 - f->ratio / 128, 100);
        return;
    }
    float off = x - f->ratio, far = off < 0 ? -off : off;
    /* One end far off, of a process that was not run, says little. */
    float most = 2 * f->spread + f->ratio / 128;
    f->ratio += foresight_float_between(-most, off, most) / 8;
    f->spread += (foresight_float_between(0, far, most) - f->spread) / 8;
}

/* Predictions that differ much are corrected apart, by octaves from some microseconds on. */
enum { FORESIGHT_OCTAVES = 20, FORESIGHT_OCTAVE_FIRST = 13 };
struct foresight_table {
    struct foresight octaves[FORESIGHT_OCTAVES];
};

static inline struct foresight *foresight_of(struct foresight_table *t, uint64_t predicted_ns)
{
    uint64_t units = predicted_ns >> FORESIGHT_OCTAVE_FIRST;
    uint32_t octave = units ? 64 - (uint32_t)__builtin_clzll(units) : 0;
    return &t->octaves[octave < FORESIGHT_OCTAVES ? octave : FORESIGHT_OCTAVES - 1];
}

/* True if what took so long was seen when it ended, within blind_ns since the last look. */
static inline bool foresight_watched(uint64_t took_ns, uint64_t blind_ns)
{
    enum { PART = 32, AT_ONCE_NS = 5000 };
    return blind_ns <= AT_ONCE_NS || blind_ns * PART <= took_ns;
}

/* ---- how late sleepers wake ---- */

enum {
    FORESIGHT_LATE_NS = 60000, /* assumed until it was measured; cores that sleep wake slowly */
    FORESIGHT_LATE_MAX_NS = 400000,
    FORESIGHT_SPREADS = 4, /* mean deviations that a sleeper may wake later than usual */
};

struct foresight_sleep {
    float late_ns, spread_ns; /* 0, 0: not measured */
};

/* Learns from a sleep that nothing but its end ended. */
static inline void foresight_slept(struct foresight_sleep *s, uint64_t wake_ns, uint64_t now_ns)
{
    float late = now_ns > wake_ns ? (float)(now_ns - wake_ns) : 0;
    late = foresight_float_between(1, late, FORESIGHT_LATE_MAX_NS);
    if (s->late_ns <= 0) {
        s->late_ns = late;
        s->spread_ns = late / 4;
        return;
    }
    float off = late - s->late_ns;
    s->late_ns += off / 8;
    s->spread_ns += ((off < 0 ? -off : off) - s->spread_ns) / 8;
}

/* How much earlier to wake. */
static inline uint64_t foresight_margin_ns(const struct foresight_sleep *s)
{
    if (s->late_ns <= 0) return FORESIGHT_LATE_NS;
    return (uint64_t)(s->late_ns + FORESIGHT_SPREADS * s->spread_ns);
}

/* ---- what watching may cost ---- */

#define FORESIGHT_BUDGET_NS UINT64_C(100000000) /* the share counts over this long */

struct foresight_budget {
    uint32_t percent; /* of a core; 0: never watch; 100: always */
    uint64_t left_ns, counted_ns;
};

static inline void foresight_budget_init(struct foresight_budget *b, uint32_t percent,
                                         uint64_t now_ns)
{
    b->percent = percent < 100 ? percent : 100;
    b->left_ns = FORESIGHT_BUDGET_NS / 100 * b->percent;
    b->counted_ns = now_ns;
}

/* Returns how long may be watched from now on. */
static inline uint64_t foresight_budget_left(struct foresight_budget *b, uint64_t now_ns)
{
    uint64_t most_ns = FORESIGHT_BUDGET_NS / 100 * b->percent;
    uint64_t passed_ns = now_ns > b->counted_ns ? now_ns - b->counted_ns : 0;
    if (passed_ns > FORESIGHT_BUDGET_NS) passed_ns = FORESIGHT_BUDGET_NS;
    b->left_ns += passed_ns * b->percent / 100;
    if (b->left_ns > most_ns || b->percent == 100) b->left_ns = most_ns;
    b->counted_ns = now_ns;
    return b->left_ns;
}

static inline void foresight_budget_spend(struct foresight_budget *b, uint64_t ns)
{
    b->left_ns -= ns < b->left_ns ? ns : b->left_ns;
}

/* ---- the plan ---- */

enum {
    FORESIGHT_NAP_NS = 40000,      /* a shorter sleep is not worth the waking */
    FORESIGHT_PATIENCE_NS = 20000, /* how long to watch beyond the doubt */
    /* A processor that has slept for long takes up to 300 us to wake, one that sleeps for less
     * than 100 some 10: the sleeper wakes so much earlier, and naps from there. */
    FORESIGHT_DEEP_NS = 300000,
    FORESIGHT_DOZE_NS = 60000,
};

struct foresight_plan {
    uint64_t wake_ns;            /* sleep until then; 0: watch now */
    uint64_t watch_ns, until_ns; /* and watch from then until then */
    bool early;                  /* at wake_ns plan again: to nap */
};

/* Plans the wait for the end of something that began at began_ns and takes ends_after_ns (see
 * foresight_ns; not 0), give or take doubt_ns. */
static inline struct foresight_plan foresight_plan(uint64_t began_ns, uint64_t ends_after_ns,
                                                   uint64_t doubt_ns,
                                                   const struct foresight_sleep *s, uint64_t now_ns)
{
    uint64_t end_ns = began_ns + ends_after_ns, early_ns = doubt_ns + foresight_margin_ns(s);
    struct foresight_plan p = {.watch_ns = now_ns,
                               .until_ns = end_ns + doubt_ns + FORESIGHT_PATIENCE_NS};
    if (end_ns < early_ns + now_ns + FORESIGHT_NAP_NS) return p;
    p.wake_ns = p.watch_ns = end_ns - early_ns;
    p.early = p.watch_ns >= now_ns + FORESIGHT_DOZE_NS + FORESIGHT_NAP_NS;
    if (!p.early) return p;
    bool naps = p.watch_ns < now_ns + FORESIGHT_DEEP_NS + FORESIGHT_DOZE_NS;
    p.wake_ns = naps ? now_ns + FORESIGHT_DOZE_NS : p.watch_ns - FORESIGHT_DEEP_NS;
    return p;
}

#endif
