/* progress: frames that say how far a request is. They are kept with the request, the newest alone,
 * until the handle's user can be called back. */
#include "client/client.h"

const char *ea_phase_name(uint32_t phase)
{
    switch ((ea_phase)phase) {
    case EA_PHASE_WAITING: return "waiting";
    case EA_PHASE_RUNNING: return "running";
    case EA_PHASE_ROWS: return "rows";
    case EA_PHASE_MEAN: return "mean";
    case EA_PHASE_PRODUCTS: return "products";
    case EA_PHASE_PAIRS: return "pairs";
    case EA_PHASE_MERGES: return "merges";
    case EA_PHASE_SCORES: return "scores";
    case EA_PHASE_REPLY: return "reply";
    case EA_PHASE_SAVING: return "saving";
    }
    return "?";
}

ea_status ea_on_progress(ea_client *c, ea_progress_callback callback, void *user)
{
    if (!c) return EA_INVALID_ARGUMENT;
    c->on_progress = callback;
    c->on_progress_user = user;
    return EA_OK;
}

ea_status ea_progress_take(ea_client *c, const struct wire_head *h, const uint8_t *message,
                           struct note *note)
{
    ea_progress_report report;
    if (ea_reply_progress(message, h->message_bytes, &report, note)) return EA_DATA_LOSS;
    struct client_request *r = ea_request_find(c, h->request_id);
    if (!r || r->kind != h->kind || !r->begun || r->answered || !r->progress) return EA_OK;
    report.request_id = r->id;
    report.operation = ea_operation_name(r->kind);
    r->report = report;
    r->reported = true;
    c->reports = true;
    return EA_OK;
}

void ea_progress_tell(ea_client *c)
{
    c->reports = false;
    /* A callback may send requests, and give up those that have not begun; this one has. */
    for (struct client_request *r = c->pending.first; r; r = r->next) {
        if (!r->reported) continue;
        r->reported = false;
        if (!r->progress(c, &r->report, r->user)) ea_submit_cancel(c, r->id);
    }
}
