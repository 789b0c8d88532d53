/* parts: questions about rows sent along that are more than one request may hold. They go as
 * several, one after the other, and their answers are joined so that no bit differs from one
 * request's.
 * Owner:  the call. Thread: the handle's.
 * Errors: those of the requests, and RESOURCE_EXHAUSTED where the joined answer finds no memory. */
#ifndef EA_PARTS_H
#define EA_PARTS_H

#include "client/client.h"

/* Connects, since only the daemon says how much it takes, and tells whether r is more; then r is
 * released, and *rows is how many rows of row_bytes fit into a request beside `fixed` other bytes.
 * RESOURCE_EXHAUSTED: not even one. */
ea_status ea_parts_needed(ea_client *c, struct client_request **r, uint64_t fixed,
                          uint64_t row_bytes, uint64_t *rows);

/* The answer's struct is this library's. */
ea_status ea_parts_similarity(ea_client *c, const ea_similarity_question *q, uint64_t rows,
                              ea_result *out);
ea_status ea_parts_score(ea_client *c, const ea_score_question *q, uint64_t rows, ea_result *out);
ea_status ea_parts_norms(ea_client *c, const float *all, uint64_t n, uint32_t dimension,
                         uint64_t rows, float *norms_out);
ea_status ea_parts_average(ea_client *c, const ea_average_question *q, uint64_t rows,
                           float *average_out);

#endif
