/* cards: the GPU backend, which sends jobs to the GPU processes. It knows which collections and
 * graphs have a replica, where, and of which version; it turns jobs into orders, and takes
 * completions back.
 * Owner:  the engine.
 * Thread: the loop.
 * Errors: submit: UNAVAILABLE with cards_gave_up: the CPU runs the job, as if no GPU had been
 *         tried. After that no failure of a GPU is an error either: the job comes back through
 *         done in the same way.
 *
 * A job that reads a resident holds its turnstile until it is done, so that what its uploads read
 * does not change meanwhile; writers go on with another edition. Uploads are of the newest edition.
 * A job that reads an older one uses a replica of just that version, or runs on the CPU; so does
 * one that reads the newest while an older one is read on the card and there is no VRAM for two. It
 * comes back when the last of its orders is done. */
#ifndef ENGRAM_CARDS_CARDS_H
#define ENGRAM_CARDS_CARDS_H

#include <uv.h>

#include "daemon/exec/backend.h"
#include "daemon/exec/done.h"
#include "daemon/cards/process.h"
#include "daemon/store/resident.h"
#include "daemon/store/shadow.h"

enum { GPU_MAX = 16, GPU_JOBS_MAX = 256 };

struct cards_options {
    uv_loop_t *loop;
    const struct config *config;
    struct heap *heap;
    struct done *done;
    struct backend *cpu;             /* its workers prepare and finish jobs where that takes long */
    const struct clock *clock;       /* NULL: the real one */
    const struct process_host *host; /* runs the processes; NULL: the system, which needs loop */
    void *host_owner;                /* private to the host */
};

/* Reads gpu.devices ("auto" starts with one process and adds the devices that it reports). With
 * "none" the backend exists, and its state is GPU_ABSENT. */
enum status cards_create(const struct cards_options *options, struct backend **out);

/* Asks the processes to exit, and kills those that do not do so soon. Their jobs come back through
 * done, and no further jobs are taken. */
void cards_begin_stop(struct backend *b);
/* Stops the processes and runs the loop until they are gone; every job that they had is then in
 * done or with a worker. No further jobs are taken. destroy follows later, when the workers have
 * stopped, too, and the loop must run once more after it. */
void cards_stop(struct backend *b);

/* Returns the best state of any GPU. */
enum gpu_state cards_state(const struct backend *b);

/* True if there is a replica with the host's version, or so close to it that a job can bring it up
 * to date before it runs. The caller holds the turnstile, as for the next two functions. */
bool replica_is_ready(const struct backend *b, const struct resident *of);
/* True if there was no VRAM for a replica recently. */
bool replica_was_refused(const struct backend *b, const struct resident *of);
/* True if an OPERATION_UPLOAD would bring the replica closer to the host's version. Each such job
 * uploads one piece and never fails; the pipeline submits them one after the other, as readers. */
bool replica_wants_upload(const struct backend *b, const struct resident *of);

/* j was not run on a card for want of rows in VRAM (reason VRAM_PRESSURE), where it would have been
 * faster: where its replica has none so that others keep theirs, the next one has. */
void replicas_miss_rows(struct backend *b, const struct job *j);
/* True if of what j reads first the replica has what codes the rows, and not these. */
bool replica_is_shadow_only(const struct backend *b, const struct job *j);

/* Returns the GPU that has the replica, or would get it (a ready one, if there is any). NULL: the
 * GPU for a job that brings its rows. */
uint32_t replica_card(const struct backend *b, const struct resident *of);
/* Returns the bytes that must be uploaded before a job on this resident. */
uint64_t replica_upload_bytes(const struct backend *b, const struct resident *of);

/* What is known of the replicas that a job reads, which must be on one card. */
struct job_replicas {
    uint32_t card;       /* where they are, or would be */
    bool ready, refused; /* all of them are; any was */
    uint64_t upload_bytes;
};
struct job_replicas replicas_of_job(const struct backend *b, const struct job *j);
/* The next builds of what j reads, where there are none, are best on one card. */
void replicas_put_together(struct backend *b, const struct job *j);

/* How much work a GPU can take now. */
struct cards_room {
    bool ready;
    uint32_t jobs;      /* further jobs, without uploads; all GPUs share this limit */
    uint64_t bytes;     /* VRAM for requests that is free or can be freed, as last reported */
    uint64_t bytes_all; /* out of this much */
    bool low;           /* less than a fifth of it, or others have taken the card's memory */
};
struct cards_room cards_room_of(const struct backend *b, uint32_t card);
uint32_t cards_count(const struct backend *b);

/* Returns the number of its jobs, without uploads. */
uint32_t cards_in_flight(const struct backend *b);

/* Takes completions; the jobs that they end are in done afterwards, without a wake-up. */
void cards_poll(struct backend *b);
/* Called before the loop sleeps: while orders are in flight, polls for completions around the time
 * when the oldest should end (for up to gpu.spin_us, if that is not known), within
 * gpu.spin_percent of a core, and only as long as loop_fd has no event. When the last one has been
 * answered, waits for some 60 us for loop_fd in the same way, if clients use to ask again by then.
 * True: some were taken. False: completions will wake the loop. */
bool cards_watch(struct backend *b, int loop_fd);
/* When cards_watch is to be called again because an order should end soon; UINT64_MAX: no need. */
uint64_t cards_wake_ns(const struct backend *b);
/* Called every 100 ms: checks for hung jobs and heartbeats, and restarts processes. Takes
 * completions as cards_poll does. */
void cards_check(struct backend *b, uint64_t now_ns);

/* How far it is, as its card says, if that does. */
struct progress_view cards_progress(const struct job *j);
/* Tells the card that nobody wants j's result any more, if it listens; j is any job. */
void cards_cancel(struct job *j);

/* Called when a job of this backend comes back from done. True: it continues here and will come
 * back again. */
bool cards_resume(struct backend *b, struct job *j);
/* True if the job is not finished and the CPU must run it, because it was unfit or the GPU failed:
 * j->gpu.gave_up says why. Its result and plan have been dropped, and its failure cleared. */
bool cards_gave_up(const struct job *j);

/* Frees the VRAM of a resident that is going away, whose turnstile nobody holds. */
void replica_forget(struct backend *b, struct resident *of);

/* The VRAM of a resident's replicas, on all GPUs together, and the version of the newest one. */
struct replica_info {
    uint64_t bytes, version; /* 0, 0: it has none */
    uint64_t needed_bytes;   /* of bytes, which are whole pieces */
    uint32_t card;           /* that has it */
    struct shadow_info
        shadow; /* of its rows in int8, as its process says; rows 0: there are none */
};
struct replica_info replica_info(const struct backend *b, const struct resident *of);

/* Returns the VRAM of all replicas of a space. */
uint64_t replicas_space_bytes(const struct backend *b, const struct space *s);

/* Calls `take` with each replica that has VRAM: whose it is (NULL: of a resident that is gone), the
 * bytes that it has and, of them, those that it needs. */
void replicas_count(const struct backend *b,
                    void (*take)(void *to, const struct space *s, uint32_t card, uint64_t bytes,
                                 uint64_t needed),
                    void *to);

/* Returns the i-th GPU's process, for info and stats; NULL at the end. */
const struct gpu_process *cards_process_at(const struct backend *b, uint32_t i);

#endif
