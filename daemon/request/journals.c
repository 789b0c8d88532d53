#include "daemon/request/journals.h"

#include <string.h>

#include "daemon/persist/persist.h"
#include "daemon/request/jobs.h"
#include "daemon/request/records.h"
#include "daemon/request/reply.h"

/* An answer that was encoded as the request was done. */
static void send_answer(struct pipeline *p, struct job *j)
{
    struct connection *c = net_find(p->net, j->key.connection);
    if (c && j->failure.code) {
        reply_error(p, c, j->kind, j->key.request_id, &j->failure);
    } else if (c) {
        void *at = connection_reserve(c, j->answer_bytes);
        if (at) {
            memcpy(at, j->answer, j->answer_bytes);
            connection_commit(c, j->answer_bytes);
        }
    }
    job_move(j, JOB_DONE);
    job_give(p, j);
}

/* What was done stays so, and its token is remembered; but who asked cannot rely on it yet. */
static void note_lost(struct pipeline *p, struct job *j)
{
    failure_set(&j->failure, STATUS_UNAVAILABLE, DETAIL_JOURNAL,
                "it is done, but not on the disk: the journal cannot be written: %.110s",
                p->journals.now.why);
}

static void send_held(struct pipeline *p)
{
    struct journals *s = &p->journals;
    for (struct job *j; (j = s->held.head);) {
        bool on_disk = records_on_disk(p, j);
        if (!on_disk && s->now.health == JOURNAL_SOUND) return;
        queue_remove(&s->held, j);
        if (!on_disk) note_lost(p, j);
        j->recorded = 0;
        if (j->answer)
            send_answer(p, j);
        else
            reply_send(p, j);
    }
}

static void take_back(void *owner, struct journal_entry *e)
{
    struct pipeline *p = owner;
    struct write_record *r = (struct write_record *)e;
    records_give(p, r);
}

void journals_open(struct pipeline *p, struct journal *journal)
{
    struct journals *s = &p->journals;
    s->journal = journal;
    s->always = strcmp(p->config->persist_journal, "always") == 0;
    if (!journal) return;
    (void)journal_poll(journal, &s->now); /* nothing was added yet */
    s->added = s->now.added;
}

void journals_poll(struct pipeline *p)
{
    struct journals *s = &p->journals;
    if (!s->journal) return;
    bool failed = s->now.health == JOURNAL_FAILED;
    struct journal_entry *given = journal_poll(s->journal, &s->now);
    if (failed && s->now.health == JOURNAL_SOUND) s->sound_from = journal_file_now(s->journal);
    for (struct journal_entry *next; given; given = next) {
        next = given->next;
        take_back(p, given);
    }
    send_held(p);
}

enum status pipeline_know_token(void *owner, const struct journal_write *w, const float *weights,
                                struct failure *f)
{
    struct pipeline *p = owner;
    const struct journal_token *t = &w->token;
    struct token_known known = {
        .space = w->space,
        .token = {t->token[0], t->token[1]},
        .operation = (enum operation)t->operation,
        .body_bytes = t->body_bytes,
        .digest = {t->digest[0], t->digest[1]},
        .result = {.rows = t->rows, .nodes = t->nodes, .version = t->version},
        .weights = weights,
        .weight_count = weights ? w->tensors[JOURNAL_IDS].rows : 0,
    };
    memcpy(known.result.counts, t->counts, sizeof t->counts);
    memcpy(known.result.versions, t->versions, sizeof t->versions);
    enum status st = tokens_restore(&p->tokens, &known, clock_read_ns(p->clock));
    return st ? failure_set(f, st, DETAIL_MEMORY, "no memory for a token") : STATUS_OK;
}

static enum wire_journal_state state_of(enum journal_health health)
{
    switch (health) {
    case JOURNAL_SOUND: return WIRE_JOURNAL_SOUND;
    case JOURNAL_NO_ROOM: return WIRE_NO_ROOM;
    case JOURNAL_FAILED: return WIRE_FAILED;
    }
    return WIRE_JOURNAL_NONE;
}

struct wire_journal journals_seen(const struct pipeline *p, uint64_t now_ns)
{
    const struct journal_counters *c = &p->journals.now;
    if (!p->journals.journal) return (struct wire_journal){0};
    return (struct wire_journal){
        .mode = p->journals.always ? WIRE_JOURNAL_ALWAYS : WIRE_JOURNAL_SECOND,
        .state = state_of(c->health),
        .why = c->why,
        .files = c->files,
        .records = c->records,
        .bytes = c->bytes,
        .syncs = c->syncs,
        .group_last = c->group_last,
        .file_bytes = c->file_bytes,
        .queued_bytes = c->queued_bytes,
        .lag_ns = c->oldest_ns && now_ns > c->oldest_ns ? now_ns - c->oldest_ns : 0,
    };
}

bool journals_want_save(const struct pipeline *p)
{
    const struct journals *s = &p->journals;
    if (!s->journal) return false;
    uint64_t most = p->config->persist_journal_mib << 20;
    return s->now.health == JOURNAL_FAILED || s->now.file_bytes > most;
}

void journals_close(struct pipeline *p)
{
    struct journals *s = &p->journals;
    if (!s->journal) return;
    persist_close_journal(p->saves.persist, take_back, &s->now, p);
    if (s->now.health == JOURNAL_SOUND && s->held.head && !records_on_disk(p, s->held.head))
        s->now.health = JOURNAL_FAILED;
    send_held(p);
    s->journal = NULL;
}
