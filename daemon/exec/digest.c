#include "daemon/exec/digest.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "daemon/base/yield.h"

static void add_text(XXH3_state_t *s, const char *text)
{
    XXH3_128bits_update(s, text, strlen(text) + 1);
}

static void add_tensor(XXH3_state_t *s, const struct tensor *t)
{
    enum { PIECE_BYTES = 256 << 10 };
    uint64_t shape[] = {t->dtype, t->rows, t->columns};
    uint64_t left = t->rows * t->columns * dtype_bytes(t->dtype);
    const char *at = t->data;
    XXH3_128bits_update(s, shape, sizeof shape);
    for (uint64_t n; left; at += n, left -= n) {
        n = left < PIECE_BYTES ? left : PIECE_BYTES;
        yield_check();
        XXH3_128bits_update(s, at, n);
    }
}

/* add_X adds all that the table says of request X. */
#define NAMED(M, slot, member)  add_text(s, q->names[slot]);
#define COPY(M, member, target) XXH3_128bits_update(s, &q->target, sizeof q->target);

#define TENSOR(M, in, member, dtype, shape, presence, target) add_tensor(s, &q->target);
#define ADD(request)                                                        \
    static void add_##request(XXH3_state_t *s, const struct job_request *q) \
    {                                                                       \
        (void)s, (void)q;                                                   \
        FIELDS_##request##Request(0)                                        \
    }
#define ANSWERED(NAME, number, name, request)                                      ADD(request)
#define OPERATION(NAME, number, name, needs, access, groups, LINE, request, reply) ADD(request)
#include "proto/operations.def"
#undef NAMED
#undef COPY
#undef TENSOR

static void (*const add[OPERATION_MAX])(XXH3_state_t *s, const struct job_request *q) = {
#define ANSWERED(NAME, number, name, request) [OPERATION_##NAME] = add_##request,
#define OPERATION(NAME, number, name, needs, access, groups, LINE, request, reply) \
    [OPERATION_##NAME] = add_##request,
#include "proto/operations.def"
};

void digest_take(struct job *j)
{
    XXH3_state_t state;
    uint32_t operation = j->operation;
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, &operation, sizeof operation);
    add[operation](&state, &j->request);
    XXH128_hash_t hash = XXH3_128bits_digest(&state);
    j->digest[0] = hash.low64;
    j->digest[1] = hash.high64;
    j->has_digest = true;
}
