/* encode: job or answer -> reply frame header and message. Bodies are not touched: the connection
 * writes them from where they are.
 * Owner:  wire. Thread: the loop. Errors: none; sizes are bounded by the schema. */
#ifndef ENGRAM_WIRE_ENCODE_H
#define ENGRAM_WIRE_ENCODE_H

#include "daemon/base/config.h"
#include "daemon/base/job.h"
#include "daemon/store/attractor.h"
#include "daemon/store/collection.h"
#include "daemon/store/graph.h"
#include "daemon/base/frame.h"
#include "daemon/wire/report.h"

/* Enough for any reply's header and padded message. */
enum {
    ENCODE_BYTES_MAX = 19456,
    ENCODE_RESULT_BYTES_MAX = 1024, /* for encode_result */
    ENCODE_ERROR_BYTES_MAX = 512,   /* for encode_error */
    ENCODE_PING_BYTES = 64,         /* the exact size of encode_ping */
    ENCODE_PROGRESS_BYTES = 192,    /* for encode_progress */
};

/* Each function writes header, message and padding to buffer (ENCODE_BYTES_MAX) and returns the
 * bytes, a multiple of 64. */
size_t encode_error(uint8_t kind, uint64_t request_id, const struct failure *f, void *buffer);
/* For a request of any kind that is not answered yet. */
size_t encode_progress(uint8_t kind, uint64_t request_id, const struct wire_progress *said,
                       void *buffer);
size_t encode_hello(uint64_t request_id, const struct wire_hello *hello, void *buffer);
size_t encode_ping(uint64_t request_id, void *buffer);
size_t encode_info(uint64_t request_id, const struct wire_info *info, void *buffer);
size_t encode_stats(uint64_t request_id, const struct wire_stats *stats, void *buffer);
size_t encode_explain(uint64_t request_id, const struct wire_explain *explain, void *buffer);
/* A page of settings; next: where the following one begins, 0 for none. */
enum { ENCODE_SETTINGS_MAX = 16, ENCODE_SPACES_MAX = 24, ENCODE_SLOW_MAX = 16 };
size_t encode_config_get(uint64_t request_id, const struct config_setting *settings, size_t count,
                         uint64_t next, void *buffer);
size_t encode_config_set(uint64_t request_id, const struct config_setting *setting,
                         const char *before, void *buffer);
size_t encode_config_reload(uint64_t request_id, const struct config_reload *done, void *buffer);
size_t encode_save(uint64_t request_id, const struct wire_saved *saved, void *buffer);
size_t encode_spaces(uint64_t request_id, const struct wire_space *spaces, size_t count, bool more,
                     void *buffer);
/* A page of slow requests, each with whether its asker is told. */
struct wire_slowlog {
    const struct wire_slow *requests[ENCODE_SLOW_MAX];
    bool tells_peer[ENCODE_SLOW_MAX];
    size_t count;
    uint64_t next, total, now_ns;
    uint32_t slow_ms;
};
size_t encode_slowlog(uint64_t request_id, const struct wire_slowlog *page, void *buffer);
/* Pages of what a space holds, and of the daemon's pools. */
enum { ENCODE_CONTENTS_MAX = 32, ENCODE_POOLS_MAX = 64 };
struct wire_memory {
    struct wire_content contents[ENCODE_CONTENTS_MAX];
    size_t count;
    uint64_t next, host_bytes, host_bytes_max, vram_bytes, vram_bytes_max;
};
struct wire_pools {
    struct wire_pool pools[ENCODE_POOLS_MAX];
    size_t count;
    uint64_t next, now_ns;
};
size_t encode_memory(uint64_t request_id, const struct wire_memory *page, void *buffer);
size_t encode_memory_history(uint64_t request_id, const struct wire_pools *page, void *buffer);
size_t encode_cancel(uint64_t request_id, bool found, void *buffer);
/* For create (j given) and describe (j NULL: no meta). */
size_t encode_collection(enum operation operation, uint64_t request_id, const struct job *j,
                         const struct collection_info *info, void *buffer);
size_t encode_collection_list(uint64_t request_id, const struct collection_info *infos,
                              size_t count, bool more, void *buffer);
/* The same for graphs. */
size_t encode_graph(enum operation operation, uint64_t request_id, const struct job *j,
                    const struct graph_info *info, void *buffer);
size_t encode_graph_list(uint64_t request_id, const struct graph_info *infos, size_t count,
                         bool more, void *buffer);
/* The same for attractors. */
size_t encode_attractor(enum operation operation, uint64_t request_id, const struct job *j,
                        const struct attractor_info *info, void *buffer);
size_t encode_attractor_list(uint64_t request_id, const struct attractor_info *infos, size_t count,
                             bool more, void *buffer);
size_t encode_swap(const struct job *j, void *buffer);
/* A page of what has changed. */
enum { ENCODE_OBJECTS_MAX = 64 };
struct wire_object {
    enum object_kind kind;
    const char *name;
    uint64_t version;
};
size_t encode_changes(const struct job *j, const struct wire_object *objects, size_t count,
                      bool more, uint64_t total, void *buffer);
/* Any job that a backend ran. Its tensors stand at the places of their fields (RESULT_KNN_IDS ...),
 * those left out as dtype NONE. The body (j->result.body_bytes from j->result.block) follows. */
size_t encode_result(const struct job *j, void *buffer);

#endif
