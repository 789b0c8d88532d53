/* persist_house: a store of a few objects of every kind, and folders that it is saved to.
 * Owner:  the test. Thread: one. Errors: fail the test. */
#ifndef ENGRAM_TESTS_PERSIST_HOUSE_H
#define ENGRAM_TESTS_PERSIST_HOUSE_H

#include "daemon/base/config.h"
#include "daemon/persist/persist.h"
#include "daemon/store/attractor.h"
#include "daemon/store/collection.h"
#include "daemon/store/graph.h"

struct persist_house {
    struct heap *heap;
    struct store *store;
    struct config config; /* its persist.dir is a folder of the test's */
    uint32_t save_threads;
};

/* Makes a folder; persist_house_remove removes it and what is in it. */
void persist_house_folder(char path[64]);
void persist_house_remove(const char *path);

void persist_house_open(struct persist_house *h, const char *path);
void persist_house_close(struct persist_house *h);

/* Collections of 3 and 32 numbers with some rows deleted, a graph with nodes of all kinds, of which
 * some were removed, a graph without edges, an attractor that has learned and one that has not, in
 * two spaces. large: a collection of many segments. */
void persist_house_fill(struct persist_house *h, bool large);
/* One more collection in a space, the tenth of its rows deleted. */
void persist_house_add_rows(struct persist_house *h, const char *space, const char *name,
                            uint32_t dimension, uint64_t rows);
/* Compares all of two stores, versions included. */
void persist_house_compare(const struct persist_house *a, const struct persist_house *b);
/* How many objects there are. */
uint64_t persist_house_count(const struct persist_house *h);

struct persist *persist_house_start(struct persist_house *h); /* created and loaded */
/* Fills a store, saves it as by an orderly stop, and forgets it. */
void persist_house_make_snapshot(const char *path, bool large);
/* Creates and loads; the status and why. Afterwards nothing is open. */
enum status persist_house_try(const char *path, const char *mode, uint64_t *objects,
                              struct failure *f);

/* persist_verify without its lines. */
bool persist_house_verify(const char *path, const char *key_file);

/* A file as a whole; from malloc. */
char *persist_house_read(const char *path, const char *file, size_t *bytes);
void persist_house_write(const char *path, const char *file, const void *data, size_t bytes);

#endif
