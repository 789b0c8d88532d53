#include "daemon/report/readiness.h"

#include <stddef.h>

#define LATE_NS UINT64_C(5000000000)

/* Other threads' times may lie in the reader's future. */
static bool is_late(uint64_t now_ns, uint64_t then_ns)
{
    return now_ns > then_ns && now_ns - then_ns > LATE_NS;
}

bool readiness_alive(const struct readiness *r, uint64_t now_ns)
{
    return atomic_load(&r->phase) != LIFE_SERVING || !is_late(now_ns, atomic_load(&r->turned_ns));
}

const char *readiness_word(const struct readiness *r, uint64_t now_ns)
{
    uint64_t right_ns = atomic_load(&r->right_ns);
    switch ((enum life_phase)atomic_load(&r->phase)) {
    case LIFE_LOADING: return "loading";
    case LIFE_STOPPING: return "stopping";
    case LIFE_SERVING: break;
    }
    if (!readiness_alive(r, now_ns)) return "loop";
    if (atomic_load(&r->wrong)) return "probe";
    if (right_ns && !is_late(now_ns, right_ns)) return NULL;
    return atomic_load(&r->asked_ns) ? "workers" : "probe";
}
