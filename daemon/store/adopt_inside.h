/* adopt_inside: how one collection, graph or attractor is told and adopted, for adopt*.c only.
 * Owner:  the store.
 * Thread: the only user of the store.
 * Errors: as adopt.h says. */
#ifndef ENGRAM_STORE_ADOPT_INSIDE_H
#define ENGRAM_STORE_ADOPT_INSIDE_H

#include "daemon/heap/adopt.h"
#include "daemon/store/adopt.h"
#include "daemon/store/resident.h"

/* The first piece of each. */
struct told_resident {
    uint64_t kind, version;
    char space[72], name[72];
};

/* Who is adopted. */
struct adoption {
    struct store *store;
    struct heap *heap;
    struct catalogue_reader *from;
    struct space *space;
    struct told_resident told;
};

void tell_collection(struct heap *heap, const struct resident *r, struct catalogue_writer *w);
void tell_graph(struct heap *heap, const struct resident *r, struct catalogue_writer *w);
void tell_attractor(struct heap *heap, const struct vector_kernels *kernels, struct resident *r,
                    struct catalogue_writer *w);

enum status adopt_collection(struct adoption *a, struct failure *f);
enum status adopt_graph(struct adoption *a, struct failure *f);
enum status adopt_attractor(struct adoption *a, struct failure *f);

/* DATA_LOSS: what is told of it cannot be. */
enum status adopt_refuse(const struct adoption *a, const char *why, struct failure *f);

#endif
