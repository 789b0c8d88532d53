#include "client/cli/text/meta_total.h"

#include "client/cli/text/format.h"

void meta_total_add(struct meta_total *t, const ea_meta *meta)
{
    t->requests++;
    t->queue_ns += meta->queue_ns;
    t->run_ns += meta->run_ns;
    t->copy_ns += meta->copy_ns;
    t->predicted_ns += meta->predicted_ns;
    t->other_ns += meta->other_ns;
    t->wait_ns += meta->wait_ns;
    t->predicted += meta->predicted_ns != 0;
    t->compared += meta->other_ns != 0;
    if (meta->batch > t->batch_max) t->batch_max = meta->batch;
    t->screened += meta->screened;
    t->survived += meta->survived;
    t->read_bytes += meta->read_bytes;
    unsigned i = 0;
    while (i < t->way_count &&
           (t->ways[i].backend != meta->backend || t->ways[i].reason != meta->reason))
        i++;
    if (i == META_WAYS_MAX) return;
    if (i == t->way_count)
        t->ways[t->way_count++] = (struct meta_way){meta->backend, meta->reason, 0};
    t->ways[i].requests++;
}

static void print_scheduling(const struct meta_total *t)
{
    struct text a;
    bool predicted = t->predicted == t->requests, batched = t->batch_max > 1;
    if (batched)
        fprintf(stderr, "; batch %s%s", t->requests > 1 ? "up to " : "",
                format_count(&a, t->batch_max));
    if (!predicted) return;
    fprintf(stderr, "%s predicted %s", batched ? "," : ";", format_ns(&a, t->predicted_ns));
    if (t->compared == t->requests) fprintf(stderr, ", other %s", format_ns(&a, t->other_ns));
}

void meta_total_print(const struct meta_total *t, uint64_t n, const char *things)
{
    struct text a, b, c;
    fflush(stdout);
    fprintf(stderr, "%s %s", format_count(&a, n), things);
    fprintf(stderr, " in %s request%s:", format_count(&b, t->requests),
            t->requests == 1 ? "" : "s");
    for (unsigned i = 0; i < t->way_count; i++) {
        fprintf(stderr, "%s %s (%s)", i ? "," : "", ea_backend_name(t->ways[i].backend),
                ea_reason_name(t->ways[i].reason));
        if (t->way_count > 1) fprintf(stderr, " x %s", format_count(&a, t->ways[i].requests));
    }
    fprintf(stderr, "; queued %s, ran %s", format_ns(&a, t->queue_ns), format_ns(&b, t->run_ns));
    if (t->copy_ns) fprintf(stderr, ", %s of it copying", format_ns(&a, t->copy_ns));
    print_scheduling(t);
    if (t->screened)
        fprintf(stderr, "; int8: %s of %s scored, %s read", format_count(&a, t->survived),
                format_count(&b, t->screened), format_bytes(&c, t->read_bytes));
    fputc('\n', stderr);
}

/* Only of a kNN that asked rows in int8. */
static void screen_json(struct json *j, uint64_t screened, uint64_t survived, uint64_t read_bytes)
{
    if (!screened) return;
    json_u64(j, "screened", screened);
    json_u64(j, "survived", survived);
    json_u64(j, "read_bytes", read_bytes);
}

void meta_times_json(const ea_meta *meta, struct json *j)
{
    json_string(j, "backend", ea_backend_name(meta->backend));
    json_string(j, "reason", ea_reason_name(meta->reason));
    json_u64(j, "queue_ns", meta->queue_ns);
    json_u64(j, "run_ns", meta->run_ns);
    json_u64(j, "copy_ns", meta->copy_ns);
    json_u64(j, "version", meta->version);
    json_u64(j, "predicted_ns", meta->predicted_ns);
    json_u64(j, "other_ns", meta->other_ns);
    json_u64(j, "wait_ns", meta->wait_ns);
    json_u64(j, "batch", meta->batch);
    json_u64(j, "total_ns", meta->total_ns);
}

void meta_json(const ea_meta *meta, struct json *j)
{
    meta_times_json(meta, j);
    screen_json(j, meta->screened, meta->survived, meta->read_bytes);
}

void meta_total_json(const struct meta_total *t, struct json *j)
{
    json_u64(j, "requests", t->requests);
    json_u64(j, "queue_ns", t->queue_ns);
    json_u64(j, "run_ns", t->run_ns);
    json_u64(j, "copy_ns", t->copy_ns);
    json_u64(j, "predicted_ns", t->predicted_ns);
    json_u64(j, "other_ns", t->other_ns);
    json_u64(j, "wait_ns", t->wait_ns);
    json_u64(j, "batch_max", t->batch_max);
    screen_json(j, t->screened, t->survived, t->read_bytes);
    json_array(j, "backends");
    for (unsigned i = 0; i < t->way_count; i++) {
        json_object(j, NULL);
        json_string(j, "backend", ea_backend_name(t->ways[i].backend));
        json_string(j, "reason", ea_reason_name(t->ways[i].reason));
        json_u64(j, "requests", t->ways[i].requests);
        json_end(j);
    }
    json_end(j);
}
