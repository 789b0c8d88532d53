#include "daemon/request/loads.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_names[RESIDENT_KINDS] = {"collection", "graph", "attractor"};

static uint32_t percent_of(const struct load_seen *seen)
{
    double share = seen->bytes ? (double)seen->bytes_done / (double)seen->bytes : 0;
    return (uint32_t)(share * 100);
}

/* When all should be in, if it goes on as it has. */
static uint32_t retry_ms(const struct load_seen *seen)
{
    enum { AT_LEAST_MS = 20, AT_MOST_MS = 1000 };
    if (!seen->bytes_done) return AT_MOST_MS;
    double left = (double)(seen->bytes - seen->bytes_done) / (double)seen->bytes_done;
    double ms = left * (double)seen->elapsed_ns * 1e-6;
    return ms < AT_LEAST_MS ? AT_LEAST_MS : ms > AT_MOST_MS ? AT_MOST_MS : (uint32_t)ms;
}

static enum status refuse(const struct pipeline *p, struct job *j, const char *what,
                          const char *name)
{
    struct load_seen seen;
    persist_load_seen(p->saves.persist, &seen);
    failure_set(&j->failure, STATUS_UNAVAILABLE, DETAIL_LOADING,
                "%s '%s' is being loaded; %u %% of all that was saved is in", what, name,
                percent_of(&seen));
    j->failure.retry_after_ms = retry_ms(&seen);
    j->failure.loaded_percent = percent_of(&seen);
    return j->failure.code;
}

static enum resident_kind resident_kind_of(enum object_kind kind)
{
    switch (kind) {
    case OBJECT_GRAPH: return RESIDENT_GRAPH;
    case OBJECT_ATTRACTOR: return RESIDENT_ATTRACTOR;
    case OBJECT_COLLECTION:
    case OBJECT_NONE: break;
    }
    return RESIDENT_COLLECTION;
}

/* What the loop answers about a space as a whole, or changes in it. */
static bool is_about_space(enum operation o)
{
    return o == OPERATION_SAVE || o == OPERATION_SWAP || o == OPERATION_CHANGES ||
           o == OPERATION_COLLECTION_CREATE || o == OPERATION_COLLECTION_LIST ||
           o == OPERATION_GRAPH_CREATE || o == OPERATION_GRAPH_LIST ||
           o == OPERATION_ATTRACTOR_CREATE || o == OPERATION_ATTRACTOR_LIST;
}

static enum status check_name(const struct pipeline *p, struct job *j, enum object_kind object,
                              const char *name)
{
    enum resident_kind kind = resident_kind_of(object);
    if (!name[0] || !persist_loads_object(p->saves.persist, j->space, kind, name)) return STATUS_OK;
    return refuse(p, j, kind_names[kind], name);
}

static enum status check_objects(const struct pipeline *p, struct job *j)
{
    const struct operation_row *row = operation_row(j->operation);
    bool loads = persist_loads_space(p->saves.persist, j->space);
    enum status st = STATUS_OK;
    for (uint32_t i = 0; !st && i < OPERATION_OBJECTS_MAX; i++) {
        const char *name = j->request.names[i];
        if (row->objects[i].kind == OBJECT_NONE || !name[0]) continue;
        if (row->objects[i].access != ACCESS_READ && loads)
            st = refuse(p, j, "space", j->space->name);
        if (!st) st = check_name(p, j, row->objects[i].kind, name);
    }
    return st;
}

enum status loads_begin(const struct pipeline *p, struct job *j)
{
    const struct persist *persist = p->saves.persist;
    if (!persist || !persist_is_loading(persist)) return STATUS_OK;
    if (j->operation == OPERATION_SAVE ||
        (is_about_space(j->operation) && persist_loads_space(persist, j->space)))
        return refuse(p, j, "space", j->space->name);
    const char *name = j->request.names[0];
    if (j->operation == OPERATION_COLLECTION_DESCRIBE)
        return check_name(p, j, OBJECT_COLLECTION, name);
    if (j->operation == OPERATION_GRAPH_DESCRIBE) return check_name(p, j, OBJECT_GRAPH, name);
    if (j->operation == OPERATION_ATTRACTOR_DESCRIBE)
        return check_name(p, j, OBJECT_ATTRACTOR, name);
    return operation_row(j->operation)->answered ? STATUS_OK : check_objects(p, j);
}

void loads_report(const struct pipeline *p, const struct job *j, bool is_operator,
                  struct wire_info *out)
{
    struct load_seen seen = {.ready = true};
    if (p->saves.persist) persist_load_seen(p->saves.persist, &seen);
    out->loading = !seen.ready;
    out->load_objects = seen.objects;
    out->load_objects_done = seen.objects_done;
    out->load_bytes = seen.bytes;
    out->load_bytes_done = seen.bytes_done;
    for (uint64_t i = 0; i < seen.left_count; i++) {
        const struct persist_left *left = &seen.left[i];
        if (!is_operator && strcmp(left->space, j->space->name) != 0) continue;
        if (out->left_out_count++ >= WIRE_LEFT_OUT_MAX) continue;
        char *text = out->left_out[out->left_out_count - 1];
        snprintf(text, sizeof out->left_out[0], "%s/%s (%s)", left->space, left->name,
                 kind_names[left->kind]);
    }
}
