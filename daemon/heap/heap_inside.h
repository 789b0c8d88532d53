/* heap_inside: the struct of the heap, for the files of daemon/heap only.
 * Owner:  the heap.
 * Thread: any, under its lock.
 * Errors: none. */
#ifndef ENGRAM_HEAP_HEAP_INSIDE_H
#define ENGRAM_HEAP_HEAP_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "daemon/heap/accounts.h"
#include "daemon/heap/buddy.h"
#include "daemon/heap/heap.h"

#define NONE BUDDY_NONE

/* One record for each unit; the one of a block's first unit is used. */
struct record {
    uint64_t bytes; /* pages that may have been touched, of a block in use or cached */
    /* to the owner of a block in use; a cached block may be larger than what was asked for */
    uint64_t charged;
    uint64_t cut; /* of a block in use: bytes of pages that are gone already (shared_block.h) */
    uint32_t owner;
    uint32_t order;
    uint32_t class_next, class_previous; /* cached blocks of one order, newest first */
    uint32_t age_next, age_previous;     /* all cached blocks, newest first */
};

enum heap_area_name { HEAP_OWN, HEAP_EXCHANGE, HEAP_AREAS };

/* A file behind the heap, and what is free of it; see areas.h. */
struct heap_area {
    int fd;
    uint32_t first_unit;
    struct buddy buddy;                /* under the heap's lock, as is: */
    uint32_t class_head[BUDDY_ORDERS]; /* cached blocks */
};

struct heap {
    struct heap_area areas[HEAP_AREAS];
    int read_fd; /* of HEAP_OWN */
    char *base;
    char *reserved;
    uint64_t reserved_bytes, file_bytes; /* file_bytes: of both areas */
    struct record *records;
    uint64_t record_bytes;

    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t released;
    struct accounts accounts;
    struct heap_usage usage;
    uint64_t cache_bytes_max;
    uint64_t reserve_bytes, small_bytes_max; /* as heap_reserve was told */
    uint64_t bytes_releasing;                /* whose holes are still to be punched */
    uint64_t lent_bytes;                     /* addresses of shared blocks that are lent */
    atomic_bool left; /* the file is another process's, too: no page of it changes (adopt.h) */
    struct heap_adoption *adoption; /* NULL: it is over, or never was */
    uint32_t age_head, age_tail;
    bool (*spare)(void *owner, uint32_t space, uint64_t bytes); /* set before threads begin */
    void *spare_owner;
    struct {
        pthread_t thread;
        pthread_cond_t handed;
        uint32_t line; /* of blocks by class_next */
        bool runs, stops;
    } releaser;
    struct { /* see releaser.h */
        pthread_t thread;
        void (*freed)(void *owner); /* NULL: there is no such thread */
        void *owner;
        uint64_t missing_bytes; /* until the first take that was put off may succeed; 0: none was */
        bool put_off;           /* that thread's alone */
        atomic_bool told;       /* freed was called */
    } hasty;
};

/* As heap_create; fd < 0: with files of its own, else with a file of so many units for HEAP_OWN,
 * which stays the caller's. FAILED_PRECONDITION: it is too small for that bound. */
enum status heap_create_of(uint64_t bytes_max, int fd, uint64_t units, struct heap **out);
/* Forgets what an adoption that failed needed, before the heap is destroyed. */
void heap_adopt_abandon(struct heap *h);

/* So many bytes of a block in use, at `unit`, are gone; under the lock. */
void heap_discount(struct heap *h, uint32_t unit, uint64_t bytes);

#endif
