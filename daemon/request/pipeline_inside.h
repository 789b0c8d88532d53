/* pipeline_inside: the state that the files of this folder share; nobody else includes it. A file
 * includes only those that stand before it here:
 *   principals  peers as the scheduler knows them, and their tenancies
 *   jobs        the pool of jobs, their moves, who still wants them
 *   find        what a request names
 *   loads       what is still on its way from the disk
 *   expects     whether a request finds the state that it expects
 *   quotas      what each space may take
 *   sweep       what old editions leave
 *   turnstiles  in line for a collection or graph
 *   scans       versions that are kept while they are read by position
 *   tables      what an attractor begins with
 *   tokens      writes that may be repeated
 *   records     what was done, for the journal
 *   writes      whether a write finds what it expects
 *   uploads     replicas in the background
 *   situation   what is known when a job's backend is picked
 *   line        in line for a backend
 *   drops       what is dropped, or goes with its maker
 *   progress    how far long requests are
 *   slow        requests that took long
 *   reply       a job's last move
 *   journals    replies that wait for the disk
 *   save_pins   what a snapshot reads
 *   saved_tokens  writes that are remembered, in a snapshot
 *   saves       snapshots while others are served
 *   finish      from a backend to the reply, or to another try
 *   compare     whether a large write repeats another
 *   groups      several requests as one job, one as several
 *   start       from the scheduler's word to a backend
 *   cancel      leaving early
 *   deadlines   when time is up
 *   answers_graph, answers_attractor, answers_objects, answers_settings, answers_memory, answers
 *               what the loop answers by itself
 *   admit       from a frame into line
 *   trials      calibration's jobs
 *   probe       a request of the daemon's own
 *   settings    to the scheduler and the quotas
 *   shutdown    no more requests, no more backends
 *   pipeline    a turn of the loop
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: none. */
#ifndef ENGRAM_REQUEST_PIPELINE_INSIDE_H
#define ENGRAM_REQUEST_PIPELINE_INSIDE_H

#include "daemon/net/connection.h"
#include "daemon/persist/journal.h"
#include "daemon/persist/persist.h"
#include "daemon/report/memory_history.h"
#include "daemon/report/slow_log.h"
#include "daemon/report/space_counts.h"
#include "daemon/report/stats.h"
#include "daemon/request/pipeline.h"
#include "daemon/request/tokens.h"
#include "daemon/sched/queue.h"
#include "daemon/sched/scheduler.h"
#include "daemon/store/resident.h"

enum { UPLOADS_MAX = 4 }; /* of replicas, in the background, at once */
struct uploads {
    struct job *jobs[UPLOADS_MAX]; /* NULL: a free place */
    struct resident *next;         /* it found no place there; NULL: none */
    /* Whether a piece of it is to be uploaded: replica_wants_upload, or what a test plays. */
    bool (*wants)(const struct backend *gpu, const struct resident *of);
};

/* Cursors (scans.h). */
enum { SCANS_MAX = 64, SCANS_OF_ONE = 4 };
#define SCAN_IDLE_NS UINT64_C(30000000000)
struct scan_cursor {
    uint64_t number, connection, until_ns;
    struct job *holder; /* reads what it keeps; NULL: a free place */
};
struct scans {
    struct scan_cursor list[SCANS_MAX];
    uint32_t count;
    uint64_t number_last;
};

struct probe {
    struct space *space; /* NULL: none yet */
    bool out;
    uint64_t next_ns;
    struct readiness *told;
};

#define TELL_GAP_NS UINT64_C(200000000) /* between two frames that say how far a request is */

/* What a snapshot reads. */
struct save_pin {
    struct job_object object;
    uint64_t version, lent_bytes;
};

/* Of saves of everything, in persist.dir. */
struct saves_counted {
    uint64_t done, failed, given_up, written_bytes, duration_ns;
    bool failing; /* the last one failed, as error says */
    char error[224];
    uint64_t current_ns; /* the last snapshot had everything then */
};

enum saves_phase { SAVES_IDLE, SAVES_CALMING, SAVES_WRITING };

struct saves {
    struct persist *persist; /* NULL: nothing can be saved */
    enum saves_phase phase;
    struct queue waiting; /* jobs whose save has not begun */
    struct queue served;  /* jobs for which the present one is */
    struct queue starved; /* writes that want the memory that it keeps */
    bool own;             /* it is the daemon's, for persist.every_s */
    bool for_all;         /* it is of everything, in persist.dir */
    bool gave_room;       /* it was told to stop, for writes */
    uint32_t attempts;
    struct save_pin *pins; /* of its items; the first ones are not held any more */
    uint64_t pin_count, unpinned;
    uint64_t calm_ns, again_ns, ended_ns, look_ns;
    uint64_t now, saved; /* what there was when it began; when the last snapshot of all did */
    uint64_t version;    /* the last, when it began */
    uint64_t began_ns;
    struct saves_counted counted;
};

/* Writes on their way to the disk. */
struct journals {
    struct journal *journal; /* NULL: there is none */
    bool always;             /* replies wait for the sync, otherwise for the write alone */
    struct journal_counters now;
    uint64_t added;      /* the last record */
    uint64_t sound_from; /* the first file that has all that was done since it began */
    struct queue held;   /* jobs whose replies wait */
};

struct pipeline {
    const struct config *config;
    const struct clock *clock; /* NULL: the real one; read nowhere else here */
    struct heap *heap;
    struct store *store;
    uint64_t shadows_differed; /* from their checksums, so far */
    struct net *net;
    const struct vector_kernels *kernels;
    struct done *done;
    struct backend *cpu;
    struct backend *gpu; /* NULL: none */
    uint32_t worker_count;

    struct job
        *jobs; /* job_max and the reserve; the first is never used and keeps the table alive */
    struct job *free_jobs;
    uint32_t fresh_jobs;   /* jobs[fresh..] were never used */
    struct job *in_flight; /* uthash, by key */
    struct queue arrivals; /* past their turnstile */
    struct scheduler scheduler;
    struct principal *principals; /* of the peers that have something */
    uint32_t in_line;             /* jobs that wait in the scheduler */
    uint32_t running;             /* jobs that the CPU has, in the scheduler's eyes */
    uint32_t job_count;           /* taken */
    uint32_t trials;              /* of them, calibration's */
    struct uploads uploads;
    uint32_t telling;    /* jobs whose clients want to know how far they are */
    uint64_t tell_ns;    /* when they are told next */
    uint64_t expire_ns;  /* the first deadline of what was seen running; 0: none */
    struct queue tables; /* jobs whose attractor waits for a matrix that another one makes */
    struct tokens tokens;
    struct saves saves;
    struct journals journals;

    struct stats stats;
    struct spaces_counted spaces;
    struct probe probe;
    struct scans scans;
    struct slow_log slow;
    struct memory_history memory;
    struct state_name state; /* of the data, version apart */
    uint64_t started_ns;
    bool wants_token;
    struct secret token;
    const struct config *asked;
    enum status (*set_setting)(void *owner, const char *name, const char *value, const char *who,
                               struct failure *f);
    enum status (*reload_settings)(void *owner, const char *who, struct config_reload *out,
                                   struct failure *f);
    const struct config_reloads *reloads;
    void *settings_owner;
    bool draining, restarting; /* restarting: for a successor (hand_over.c) */
    bool orphans;              /* there are hidden things whose maker is gone (drops.h) */
};

#endif
