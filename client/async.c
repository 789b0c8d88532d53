/* async: the same requests, answered through a callback. */
#include "client/client.h"

enum { FLUSH_EVERY = 64 };

static ea_status send_request(ea_client *c, struct client_request *r, uint32_t timeout_ms,
                              ea_callback callback, void *user, uint64_t *request_id)
{
    r->owner = OWNER_CALLBACK;
    r->callback = callback;
    r->user = user;
    r->deadline_ns = ea_deadline_after(timeout_ms ? timeout_ms : c->timeout_ms);
    ea_status st = ea_connect_until(c, r->deadline_ns);
    if (!st) st = ea_submit(c, r);
    if (st) {
        ea_request_release(c, r);
        return st;
    }
    uint64_t id = r->id;
    if (request_id) *request_id = id;
    /* Heads gather until a pump writes them together; but the daemon need not wait for many. */
    if (id % FLUSH_EVERY == 0) ea_flush(c);
    return EA_OK;
}

ea_status ea_ping_send(ea_client *c, ea_callback callback, void *user, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r = ea_request_take(c, engram_accel_v1_Kind_KIND_PING);
    if (!r) return EA_RESOURCE_EXHAUSTED;
    return send_request(c, r, 0, callback, user, request_id);
}

ea_status ea_knn_send(ea_client *c, const char *collection, const float *queries, uint64_t q,
                      uint32_t dimension, uint32_t k, const ea_filter *filter,
                      const float *threshold, uint32_t timeout_ms, ea_callback callback, void *user,
                      uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = ea_build_knn(c, collection, queries, q, dimension, k, filter, threshold, &r);
    return st ? st : send_request(c, r, timeout_ms, callback, user, request_id);
}

ea_status ea_similarity_send(ea_client *c, const char *collection, const float *queries, uint64_t q,
                             uint32_t dimension, const ea_filter *filter, const float *threshold,
                             uint32_t timeout_ms, ea_callback callback, void *user,
                             uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = ea_build_similarity(c, collection, queries, q, dimension, filter, threshold, &r);
    return st ? st : send_request(c, r, timeout_ms, callback, user, request_id);
}

ea_status ea_score_send(ea_client *c, const char *collection, ea_metric metric,
                        const float *queries, uint64_t q, uint32_t dimension,
                        const uint64_t *offsets, const uint64_t *candidates, uint64_t n, uint32_t k,
                        uint32_t timeout_ms, ea_callback callback, void *user, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st =
        ea_build_score(c, collection, metric, queries, q, dimension, offsets, candidates, n, k, &r);
    return st ? st : send_request(c, r, timeout_ms, callback, user, request_id);
}

ea_status ea_spread_send(ea_client *c, const char *graph, const ea_spread_options *options,
                         const uint64_t *offsets, uint64_t sets, const uint64_t *seeds,
                         const float *activations, uint64_t n, uint32_t timeout_ms,
                         ea_spread_callback callback, void *user, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = ea_build_spread(c, graph, options, offsets, sets, seeds, activations, n, &r);
    if (st) return st;
    r->out = &r->spread;
    r->spread_callback = callback;
    return send_request(c, r, timeout_ms, NULL, user, request_id);
}

ea_status ea_upsert_send(ea_client *c, const char *collection, const uint64_t *ids,
                         const float *rows, uint64_t n, uint32_t dimension, uint32_t timeout_ms,
                         ea_callback callback, void *user, uint64_t *request_id)
{
    if (!c) return EA_INVALID_ARGUMENT;
    struct client_request *r;
    ea_status st = ea_build_upsert(c, collection, ids, rows, n, dimension, &r);
    return st ? st : send_request(c, r, timeout_ms, callback, user, request_id);
}
