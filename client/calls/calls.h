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
