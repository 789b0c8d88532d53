#include "daemon/request/saved_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/fault.h"
#include "daemon/base/log.h"
#include "daemon/persist/token_file.h"

enum status saved_tokens_keep(struct pipeline *p)
{
    struct token_bytes bytes = {0};
    const struct token_entry *at = NULL;
    struct token_known k;
    enum status st = STATUS_OK;
    if (tokens_remember(&p->tokens, clock_read_ns(p->clock)))
        while (!st && tokens_next(&p->tokens, &at, &k)) {
            struct token_record r = {.token = {k.token[0], k.token[1]},
                                     .digest = {k.digest[0], k.digest[1]},
                                     .operation = k.operation,
                                     .body_bytes = k.body_bytes,
                                     .result = k.result,
                                     .weights = k.weights,
                                     .weight_count = k.weight_count};
            memcpy(r.space, k.space, strnlen(k.space, SPACE_NAME_MAX));
            st = token_bytes_add(&bytes, &r);
        }
    if (st) token_bytes_free(&bytes);
    persist_set_tokens(p->saves.persist, &bytes);
    return st;
}

/* Where each record begins, in order; *count of them. NULL: there are none, or no memory. */
static uint64_t *find_records(const struct token_bytes *bytes, uint64_t *count)
{
    struct token_record r;
    bool more = true;
    uint64_t at = 0, *starts = NULL, room = 0;
    *count = 0;
    for (;;) {
        uint64_t from = at;
        if (token_bytes_next(bytes, &at, &r, &more, NULL) || !more) return starts;
        if (*count == room) {
            room = 2 * room + 64;
            uint64_t *larger =
                fault_here("tokens: records") ? NULL : realloc(starts, room * sizeof *starts);
            if (!larger) {
                free(starts);
                return NULL;
            }
            starts = larger;
        }
        starts[(*count)++] = from;
    }
}

static enum status know(struct pipeline *p, const struct token_record *r, uint64_t now_ns)
{
    const struct token_known k = {.space = r->space,
                                  .token = {r->token[0], r->token[1]},
                                  .operation = r->operation,
                                  .body_bytes = r->body_bytes,
                                  .digest = {r->digest[0], r->digest[1]},
                                  .result = r->result,
                                  .weights = r->weights,
                                  .weight_count = r->weight_count,
                                  .yields = true}; /* the journal was replayed before */
    return tokens_restore(&p->tokens, &k, now_ns);
}

void saved_tokens_take(struct pipeline *p)
{
    struct token_bytes bytes = persist_take_tokens(p->saves.persist);
    uint64_t count, *starts = find_records(&bytes, &count), now_ns = clock_read_ns(p->clock);
    enum status st = count && !starts ? STATUS_RESOURCE_EXHAUSTED : STATUS_OK;
    while (!st && count--) {
        struct token_record r;
        bool more;
        uint64_t at = starts[count];
        if (!token_bytes_next(&bytes, &at, &r, &more, NULL) && more) st = know(p, &r, now_ns);
    }
    if (st) log_error("persist: no memory for the tokens of writes that were loaded");
    free(starts);
    token_bytes_free(&bytes);
}
