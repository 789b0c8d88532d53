/* spread_check: checks of a spread that need only the request, and the defaults of what it leaves
 * out. */
#include <inttypes.h>
#include <math.h>

#include "daemon/ops/check.h"
#include "daemon/ops/spread_inside.h"
#include "kernels/spread.h"

enum { HOPS_DEFAULT = 4, SETS_MAX = 65536 };
#define SPREAD_K_MAX    (UINT32_C(1) << 31)
#define DECAY_PARAMETER 0.7F /* of the law that is used if none is named */

static const float thresholds[SPREAD_TIERS] = {0.01F, 0.05F, 0.1F};

static enum status check_mode(struct job *j)
{
    const struct job_spread *s = &j->request.spread;
    uint32_t mode = s->mode, fan = s->fan;
    if (mode < SPREAD_LINEAR || mode > SPREAD_ENGRAM)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_MODE,
                           "mode: %" PRIu32 ", 1 (linear) or 2 (engram) wanted", mode);
    if (fan > SPREAD_FAN_DIVIDE)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_MODE,
                           "fan: %" PRIu32 ", 0 to %d wanted", fan, SPREAD_FAN_DIVIDE);
    if (mode == SPREAD_LINEAR && fan)
        return check_refuse(j, DETAIL_BAD_MODE, "fan: only in mode engram");
    if (mode == SPREAD_LINEAR && s->ignore_kinds)
        return check_refuse(j, DETAIL_BAD_MODE, "ignore_kinds: only in mode engram");
    if (mode == SPREAD_LINEAR && j->request.names[SPREAD_EMBEDDINGS][0])
        return check_refuse(j, DETAIL_BAD_MODE, "embeddings: only in mode engram");
    if (mode == SPREAD_ENGRAM && s->last_hop)
        return check_refuse(j, DETAIL_BAD_MODE, "last_hop: only in mode linear");
    /* a path leads to a node's first touch, not to its activation after the last hop */
    if (s->last_hop && s->paths)
        return check_refuse(j, DETAIL_BAD_MODE, "paths: not together with last_hop");
    return STATUS_OK;
}

static enum status check_hops(struct job *j)
{
    uint32_t hops = j->request.spread.hops;
    if (hops > SPREAD_HOPS_MAX)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_HOPS,
                           "hops: %" PRIu32 ", 1 to %d wanted, or 0 for %d", hops, SPREAD_HOPS_MAX,
                           HOPS_DEFAULT);
    j->request.spread.hops = hops ? hops : HOPS_DEFAULT;
    return STATUS_OK;
}

/* Checks f(1) .. f(hops), which the caller has computed. */
static enum status check_table(struct job *j)
{
    const struct tensor *t = &j->request.table;
    uint32_t hops = j->request.spread.hops;
    if (t->dtype == DTYPE_NONE || t->rows != hops)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DECAY,
                           "decay_table: %" PRIu64 " values for %" PRIu32 " hops", t->rows, hops);
    const float *values = t->data;
    for (uint32_t i = 0; i < hops; i++)
        if (!isfinite(values[i]) || values[i] < 0)
            return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DECAY,
                               "decay_table: value %" PRIu32 " is %g, finite and at least 0 wanted",
                               i, (double)values[i]);
    return STATUS_OK;
}

static enum status check_decay(struct job *j)
{
    struct job_spread *s = &j->request.spread;
    uint32_t law = s->decay;
    float parameter = s->decay_parameter;
    bool named = law != 0;
    bool takes_one = law >= DECAY_EXPONENTIAL && law <= DECAY_LINEAR;
    if (law > DECAY_CONSTANT)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DECAY,
                           "decay: %" PRIu32 ", 0 to %d wanted", law, DECAY_CONSTANT);
    if (takes_one ? !isfinite(parameter) || parameter < 0 : parameter != 0)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_DECAY,
                           "decay_parameter: %g, %s", (double)parameter,
                           takes_one ? "finite and at least 0 wanted"
                           : named   ? "this law takes none"
                                     : "but no law is named");
    s->decay = named ? law : DECAY_EXPONENTIAL;
    s->decay_parameter = named ? parameter : DECAY_PARAMETER;
    if (law == DECAY_TABLE) return check_table(j);
    if (j->request.table.dtype != DTYPE_NONE)
        return check_refuse(j, DETAIL_BAD_DECAY, "decay_table: only with the law table");
    return STATUS_OK;
}

static enum status check_thresholds(struct job *j)
{
    static const char *const names[] = {"threshold", "threshold_warm", "threshold_cold"};
    struct job_spread *s = &j->request.spread;
    for (uint32_t i = 0; i < SPREAD_TIERS; i++) {
        if (!s->has_thresholds[i])
            s->thresholds[i] = thresholds[i];
        else if (!isfinite(s->thresholds[i]) || s->thresholds[i] < 0)
            return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_THRESHOLD,
                               "%s: %g, finite and at least 0 wanted", names[i],
                               (double)s->thresholds[i]);
    }
    return STATUS_OK;
}

static enum status check_sets(struct job *j)
{
    const struct tensor *t = &j->request.offsets;
    if (t->dtype == DTYPE_NONE) return STATUS_OK;
    if (t->rows < 2 || t->rows - 1 > SETS_MAX)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_OFFSETS,
                           "seed_offsets: %" PRIu64 ", one more than 1 to %d sets wanted", t->rows,
                           SETS_MAX);
    return check_rising(j, "seed_offsets", t, j->request.ids.rows, "seeds");
}

static enum status check_best(struct job *j)
{
    uint32_t k = j->request.k;
    if (k <= SPREAD_K_MAX) return STATUS_OK;
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_K,
                       "k: %" PRIu32 ", 0 to %" PRIu32 " wanted", k, SPREAD_K_MAX);
}

enum status spread_check_rule(struct job *j)
{
    enum status st = check_mode(j);
    if (!st) st = check_hops(j);
    if (!st) st = check_decay(j);
    if (!st) st = check_thresholds(j);
    return st ? st : check_filter_kinds(j, "within");
}

enum status spread_check(struct job *j)
{
    const struct job_request *q = &j->request;
    enum status st = spread_check_rule(j);
    if (!st) st = check_best(j);
    if (!st) st = check_sets(j);
    if (!st && q->weights.dtype != DTYPE_NONE)
        st = check_same_rows(j, "activations", &q->weights, "seeds", &q->ids);
    return st;
}
