/* node_index: id -> node, for the editions of a graph together. Open addressing over u32 slots,
 * linear probing, at most three quarters full. Entries are only ever added: one is right for an
 * edition if its node has that id there, and is passed over otherwise, so readers of older editions
 * find their nodes while a writer adds entries of its own. A removed node's entry is left; the
 * index is made anew when entries have filled it. The ids lie in an array of the edition, which is
 * authoritative and comes with every call; an id of 2^64 - 1 there is nobody's.
 * Owner:  the editions that use it.
 * Thread: any number of readers and one writer at once.
 * Errors: node_index_make: RESOURCE_EXHAUSTED; PERMISSION_DENIED, the owner's quota. */
#ifndef ENGRAM_STORE_NODE_INDEX_H
#define ENGRAM_STORE_NODE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/heap/outside.h"

#define NODE_INDEX_NONE UINT32_MAX

struct node_index;

/* Makes an index for so many nodes at least. */
enum status node_index_make(struct heap *heap, uint32_t owner, uint64_t nodes,
                            struct node_index **out);
void node_index_free(struct node_index *x);
/* Puts x, which nobody uses any more, before a list (NULL: empty) that is freed at once later. */
struct node_index *node_index_list(struct node_index *x, struct node_index *list);
void node_index_free_list(struct node_index *list);

/* In the functions below x may be NULL: it has no entries, and no room. */
uint64_t node_index_bytes(const struct node_index *x);
bool node_index_has_room(const struct node_index *x, uint64_t more);
/* True if an index of so many nodes should be made anew, much smaller. */
bool node_index_is_large(const struct node_index *x, uint64_t nodes);

/* Looks among the first `numbers` nodes: the node, or NODE_INDEX_NONE. */
uint32_t node_index_find(const struct node_index *x, const uint64_t *ids, uint32_t numbers,
                         uint64_t id);
/* Writes the node of wanted[i] to nodes[i]; returns how many were found. */
uint64_t node_index_find_many(const struct node_index *x, const uint64_t *ids, uint32_t numbers,
                              const uint64_t *wanted, size_t count, uint32_t *nodes);

/* The writer adds a node, or the first `numbers` that are somebody; there must be room. */
void node_index_add(struct node_index *x, uint64_t id, uint32_t node);
void node_index_add_all(struct node_index *x, const uint64_t *ids, uint32_t numbers);
/* Renumbers the first `numbers` nodes at once: node n becomes map[n]. Nobody may read meanwhile. */
void node_index_renumber(struct node_index *x, const uint32_t *map, uint32_t numbers);

#endif
