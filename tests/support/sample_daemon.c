/* Samples of requests about the daemon itself. */
#include "tests/support/sample_inside.h"

#include <string.h>

#include "daemon/base/job.h"

void sample_make_hello(struct sample *s)
{
    sample_begin(s, OPERATION_HELLO, engram_accel_v1_HelloRequest_fields);
    engram_accel_v1_HelloRequest *m = &s->message.hello;
    m->version_min = m->version_max = 1;
    strcpy(m->client_name, "sample");
    strcpy(m->space, "default");
    m->token.size = 3;
    memcpy(m->token.bytes, "key", 3);
}

void sample_make_ping(struct sample *s)
{
    sample_begin(s, OPERATION_PING, engram_accel_v1_PingRequest_fields);
}

void sample_make_info(struct sample *s)
{
    sample_begin(s, OPERATION_INFO, engram_accel_v1_InfoRequest_fields);
}

void sample_make_stats(struct sample *s)
{
    sample_begin(s, OPERATION_STATS, engram_accel_v1_StatsRequest_fields);
}

void sample_make_cancel(struct sample *s)
{
    sample_begin(s, OPERATION_CANCEL, engram_accel_v1_CancelRequest_fields);
    s->message.cancel.request_id = 77;
}

void sample_make_explain(struct sample *s)
{
    sample_begin(s, OPERATION_EXPLAIN, engram_accel_v1_ExplainRequest_fields);
    s->message.explain.last = 20;
}

void sample_make_config_get(struct sample *s)
{
    sample_begin(s, OPERATION_CONFIG_GET, engram_accel_v1_ConfigGetRequest_fields);
    s->message.config_get.first = 3;
}

void sample_make_config_set(struct sample *s)
{
    sample_begin(s, OPERATION_CONFIG_SET, engram_accel_v1_ConfigSetRequest_fields);
    strcpy(s->message.config_set.name, "weight");
    strcpy(s->message.config_set.space, "rows");
    strcpy(s->message.config_set.value, "1");
}

void sample_make_config_reload(struct sample *s)
{
    sample_begin(s, OPERATION_CONFIG_RELOAD, engram_accel_v1_ConfigReloadRequest_fields);
}

void sample_make_save(struct sample *s)
{
    sample_begin(s, OPERATION_SAVE, engram_accel_v1_SaveRequest_fields);
    s->message.save.dry_run = true;
    ADD(s->message.save, to, DTYPE_UINT8, 4, 1);
    ADD(s->message.save, spaces, DTYPE_UINT8, 5, 1);
}

void sample_make_slowlog(struct sample *s)
{
    sample_begin(s, OPERATION_SLOWLOG, engram_accel_v1_SlowlogRequest_fields);
    s->message.slowlog.before = 3;
}

void sample_make_memory(struct sample *s)
{
    sample_begin(s, OPERATION_MEMORY, engram_accel_v1_MemoryRequest_fields);
    strcpy(s->message.memory.space, "rows");
    s->message.memory.after = 1;
}

void sample_make_memory_history(struct sample *s)
{
    sample_begin(s, OPERATION_MEMORY_HISTORY, engram_accel_v1_MemoryHistoryRequest_fields);
    s->message.memory_history.before = 2;
}

void sample_make_spaces(struct sample *s)
{
    sample_begin(s, OPERATION_SPACES, engram_accel_v1_SpacesRequest_fields);
    strcpy(s->message.spaces.after, "aardvark");
}
