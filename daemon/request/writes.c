#include "daemon/request/writes.h"

#include <inttypes.h>

#include "daemon/request/jobs.h"
#include "daemon/request/records.h"
#include "daemon/sched/turnstile.h"
#include "daemon/store/resident.h"

static enum status refuse_version(struct job *j, uint64_t now)
{
    const struct job_write *w = &j->request.write;
    failure_set(&j->failure, STATUS_ABORTED, DETAIL_VERSION_CHANGED,
                "version %" PRIu64 " is there%s, and %" PRIu64 "%s is expected", now,
                now == w->version ? ", a write is under way" : "", w->version,
                w->at_least ? " or a later one" : "");
    j->failure.version = now;
    return STATUS_ABORTED;
}

/* Refuses a version that never was. */
static enum status check_known(struct job *j)
{
    uint64_t version = j->request.write.version;
    if (version <= space_last_version(j->space)) return STATUS_OK;
    return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_UNKNOWN_VERSION,
                       "version %" PRIu64 " is expected, which never was", version);
}

/* ends: what is written is the end of r, which those that write it meanwhile would change first. */
static enum status check_version(struct job *j, const struct resident *r, bool ends)
{
    const struct job_write *w = &j->request.write;
    if (!w->version) return STATUS_OK;
    if (check_known(j)) return j->failure.code;
    uint64_t now = resident_version(r);
    if (w->at_least ? now < w->version : now != w->version) return refuse_version(j, now);
    if (ends && !w->at_least && turnstile_has_writers(&r->turnstile)) return refuse_version(j, now);
    return STATUS_OK;
}

bool writes_recall(struct pipeline *p, struct job *j)
{
    if (!tokens_recall(&p->tokens, j, clock_read_ns(p->clock))) return false;
    if (!j->failure.code) records_refuse_repeated(p, j);
    return true;
}

static bool begin(struct pipeline *p, struct job *j)
{
    return records_begin(p, j) && tokens_begin(&p->tokens, j, clock_read_ns(p->clock));
}

bool writes_begin(struct pipeline *p, struct job *j)
{
    const struct resident *r = job_written(j)->resident;
    /* what the journal has without its beginning may go, and take no more */
    if (r && !job_drops(j) && !records_have_all(p, j, r)) return false;
    return begin(p, j) && !check_version(j, r, job_drops(j));
}

static void refuse_nothing(struct job *j)
{
    failure_set(&j->failure, STATUS_ABORTED, DETAIL_VERSION_CHANGED,
                "nothing of that name is there, and version %" PRIu64 "%s is expected",
                j->request.write.version, j->request.write.at_least ? " or a later one" : "");
}

bool writes_create(struct pipeline *p, struct job *j, bool is_there)
{
    if (!begin(p, j)) return false;
    uint64_t version = j->request.write.version;
    if (!version || check_known(j)) return !version;
    if (is_there) return true; /* which is refused for that */
    refuse_nothing(j);
    return false;
}

bool writes_swap(struct pipeline *p, struct job *j, const struct resident *there)
{
    if (!begin(p, j)) return false;
    if (there) return !check_version(j, there, true);
    if (!j->request.write.version) return true;
    if (!check_known(j)) refuse_nothing(j);
    return false;
}

void writes_end(struct pipeline *p, struct job *j)
{
    tokens_end(&p->tokens, j, clock_read_ns(p->clock));
}
