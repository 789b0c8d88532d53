/* tokens: writes that carry a token, remembered so that a repetition after a lost reply gets the
 * first one's answer and applies nothing. A space has TOKENS_MAX of them and TOKEN_SPACE_BYTES of
 * answers' bodies, all spaces together TOKENS_ALL_MAX and TOKEN_ALL_BYTES; past a bound the oldest
 * is forgotten. A write that failed is not remembered: it has applied nothing. What was asked is
 * known by its digest; that of a large write is taken by the worker that begins it.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: in the job's failure: INVALID_ARGUMENT/TOKEN_REUSED: the first request was another one;
 *         UNAVAILABLE/TOKEN_BUSY: it is under way; RESOURCE_EXHAUSTED/MEMORY. */
#ifndef ENGRAM_REQUEST_TOKENS_H
#define ENGRAM_REQUEST_TOKENS_H

#include "daemon/base/catalogue.h"
#include "daemon/base/job.h"

enum { TOKENS_MAX = 1024, TOKENS_ALL_MAX = 65536, RETRY_TOKEN_MS = 20 };
#define TOKEN_SPACE_BYTES (UINT64_C(1) << 20)
#define TOKEN_ALL_BYTES   (UINT64_C(64) << 20)
/* A larger answer cannot be remembered: such a request is refused. */
#define TOKEN_BODY_BYTES (UINT64_C(1) << 16)
#define TOKEN_LIFE_NS    (UINT64_C(600) * 1000000000)

struct tokens {
    struct token_entry *by_key; /* a uthash */
    struct token_space *spaces; /* likewise, by name: a space may be forgotten before its tokens */
    struct token_entry *oldest, *newest; /* of those with an answer */
    uint64_t count, bytes;               /* of them */
};

void tokens_finish(struct tokens *t);

/* A write that was done before this daemon began. data: its answer's weights of edges, or NULL. */
struct token_known {
    const char *space;
    uint64_t token[2];
    enum operation operation;
    uint64_t body_bytes, digest[2];
    struct job_result result; /* without its body */
    const float *weights;
    uint64_t weight_count;
    /* It is older than all that are known already, which stay: so is one with its token, and where
     * they leave no room it is not remembered. Several are restored from the newest on. */
    bool yields;
};
/* RESOURCE_EXHAUSTED. */
enum status tokens_restore(struct tokens *t, const struct token_known *k, uint64_t now_ns);
/* Tells a successor all that is remembered; takes that over into an empty one. False: what is told
 * cannot be, or there is no memory. */
void tokens_tell(const struct tokens *t, uint64_t now_ns, struct catalogue_writer *w);
bool tokens_adopt(struct tokens *t, uint64_t now_ns, struct catalogue_reader *r);

/* The next of those that are remembered, the oldest first; *at NULL: the first one. False: there is
 * none. */
bool tokens_next(const struct tokens *t, const struct token_entry **at, struct token_known *out);

/* True if writes are remembered. */
bool tokens_remember(struct tokens *t, uint64_t now_ns);

/* True: what j asks tells whether it repeats a write that was done, and is so large that a worker
 * has to take its digest (exec/digest.h) before any of the following is called. */
bool tokens_want_digest(struct tokens *t, const struct job *j, uint64_t now_ns);
/* True: j need not run, since it repeats a write that was done, whose answer it has now; or it is
 * refused, as its failure says. */
bool tokens_recall(struct tokens *t, struct job *j, uint64_t now_ns);
/* j found nothing under its name. True: the first write with its token is under way, which may be
 * why; then that is j's failure. */
bool tokens_refuse_busy(struct tokens *t, struct job *j);
/* j is about to run. False as tokens_recall true; otherwise its token, if it has one, is taken
 * until tokens_end. */
bool tokens_begin(struct tokens *t, struct job *j, uint64_t now_ns);
/* j has ended, well or not; remembers its answer if it was done. */
void tokens_end(struct tokens *t, struct job *j, uint64_t now_ns);

#endif
