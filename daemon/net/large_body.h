/* large_body: a request body that has a block of its own. Memory is taken for it as its bytes come,
 * where it lies. If there is none, bodies wait unread, all but those of higher rank, which take the
 * memory of lower ones; these are refused. Of each peer the one that began first ranks above all
 * others. Of these, one that is no larger than its peer's share of the memory that there is for
 * bodies ranks above larger ones and is never refused for another's, and of larger ones the older
 * ranks higher. So one body of each peer, of up to that share, can always be completed, and the
 * oldest of larger ones, whatever others leave half sent.
 * Owner:  net; a connection receives at most one at a time.
 * Thread: the loop.
 * Errors: the request is answered: RESOURCE_EXHAUSTED/MEMORY, or QUOTA of its space or its peer,
 *         with a hint to retry; its remaining bytes are ignored. */
#ifndef ENGRAM_NET_LARGE_BODY_H
#define ENGRAM_NET_LARGE_BODY_H

#include "daemon/net/connection.h"

/* Begins to receive the body of c's frame, of which `have` bytes came already. False: it was
 * refused. */
bool large_body_begin(struct connection *c, const void *data, uint32_t have);
/* Returns where the next bytes of it go. */
uv_buf_t large_body_room(const struct connection *c);
/* Counts bytes that came. */
void large_body_came(struct connection *c, uint64_t bytes);
/* Makes room for more. False: it has to wait, or was refused just now (c->direct is NULL then). */
bool large_body_grow(struct connection *c);
bool large_body_is_whole(const struct connection *c);
/* Takes the body out of c: whole, or because c is closed (then it may be NULL). The caller drops
 * it. */
struct body *large_body_end(struct connection *c);

#endif
