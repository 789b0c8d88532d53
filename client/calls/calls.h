/* calls: what the files of public calls share. Each call has a builder that fills a request; the
 * blocking form passes it to ea_call, the _send form to ea_send.
 * Owner:  the library. Thread: one at a time.
 * Errors: ea_status; the handle's last error says more. */
#ifndef EA_CALLS_H
#define EA_CALLS_H

#include "client/client.h"

#define F32 engram_accel_v1_Dtype_DTYPE_FLOAT32
#define U64 engram_accel_v1_Dtype_DTYPE_UINT64
#define U8  engram_accel_v1_Dtype_DTYPE_UINT8
#define TENSOR(message, member, dtype, data, rows, columns)                                       \
    ea_request_tensor(c, r, #member, &(message).has_##member, &(message).member, (dtype), (data), \
                      (rows), (columns))

/* How the objects of one kind are listed: by name or, if `name` is NULL, by number. */
struct listing {
    engram_accel_v1_Kind kind;
    const pb_msgdesc_t *fields; /* of the request */
    void *request;              /* all zeros */
    void *page;                 /* the reply; in it how many it has: */
    const pb_size_t *count;
    /* By name: in the request the name after which a page begins; in the reply whether more
     * follow. */
    char *after;
    const bool *more;
    const char *(*name)(const void *page, size_t i);
    /* By number: in the request where a page begins; in the reply where the next one does, 0: it is
     * the last. */
    uint64_t *first;
    const uint64_t *next;
    bool falls; /* the next number is less */
    /* Writes the i-th to the caller's struct, which has so many bytes. */
    void (*copy)(const void *page, size_t i, void *to, size_t bytes);
    size_t info_bytes;
};
/* Allocates *out, an array of the caller's structs, by rising name, or in the daemon's order. */
ea_status ea_list_all(ea_client *c, const struct listing *l, void **out, size_t *count);

/* ---- options.c: options of a spread, alone and within a recall ---- */

enum { HOPS_DEFAULT = 4, HOPS_MAX = 100 };

/* Sets an optional number of a message; NULL: it is absent. */
void ea_take_number(const float *from, bool *present, float *value);
/* Refuses what would make the library read past an array, or has no place in the message. */
ea_status ea_check_spread_options(ea_client *c, const ea_spread_options *o);

ea_status ea_build_upsert(ea_client *c, const ea_rows *rows, struct client_request **out);
ea_status ea_build_similarity(ea_client *c, const ea_similarity_question *question,
                              struct client_request **out);
ea_status ea_build_score(ea_client *c, const ea_score_question *question,
                         struct client_request **out);
ea_status ea_build_norms(ea_client *c, const float *rows, uint64_t n, uint32_t dimension,
                         struct client_request **out);
ea_status ea_build_average(ea_client *c, const ea_average_question *question,
                           struct client_request **out);

#endif
