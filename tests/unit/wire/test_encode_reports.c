/* Hello, Info, Stats and Explain. */
#include "tests/unit/wire/reply.h"

Test(encode_reports, hello)
{
    struct wire_hello h = {.version = 1,
                           .features = 6,
                           .instance = 99,
                           .server_version = "0.1.0",
                           .space = "default",
                           .limits = {1, 2, 3, 4, 5}};
    check_frame(encode_hello(1, &h, fresh()), OPERATION_HELLO, 1, 1);
    engram_accel_v1_HelloReply m;
    read_message(engram_accel_v1_HelloReply_fields, &m);
    cr_assert_eq(m.version, 1);
    cr_assert_eq(m.features, 6);
    cr_assert_eq(m.instance, 99);
    cr_assert_str_eq(m.server_version, "0.1.0");
    cr_assert_str_eq(m.space, "default");
    cr_assert_eq(m.limits.message_bytes_max, 65536);
    cr_assert_eq(m.limits.body_bytes_max, 1);
    cr_assert_eq(m.limits.reply_bytes_max, 2);
    cr_assert_eq(m.limits.dimension_max, 3);
    cr_assert_eq(m.limits.k_max, 4);
    cr_assert_eq(m.limits.in_flight_max, 5);
}

Test(encode_reports, info_cuts_long_text)
{
    char text[400];
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    struct wire_info i = {.server_version = "0.1.0",
                          .build = text,
                          .workers = 2,
                          .uptime_ns = 3,
                          .instance = 4,
                          .process_id = 5};
    check_frame(encode_info(2, &i, fresh()), OPERATION_INFO, 1, 2);
    engram_accel_v1_InfoReply m;
    read_message(engram_accel_v1_InfoReply_fields, &m);
    cr_assert_eq(strlen(m.build), 128);
    cr_assert_str_eq(m.gpu, "");
    cr_assert_eq(m.workers, 2);
    cr_assert_eq(m.process_id, 5);
}

Test(encode_reports, gpus_of_info)
{
    static struct wire_info i; /* every text at its longest */
    i = (struct wire_info){.server_version = "0.1.0", .gpu = "absent: why", .gpu_count = 16};
    for (uint32_t n = 0; n < WIRE_GPUS_MAX; n++) {
        struct wire_gpu *g = &i.gpus[n];
        *g = (struct wire_gpu){.number = n,
                               .state = WIRE_GPU_BREAKER,
                               .capability_major = UINT32_MAX,
                               .memory_bytes = UINT64_MAX,
                               .budget_bytes = UINT64_MAX - 1,
                               .uptime_ns = 7,
                               .ecc = true,
                               .virtual_memory = true};
        memset(g->why, 'w', sizeof g->why - 1);
        memset(g->name, 'n', sizeof g->name - 1);
        memset(g->uuid, 'u', sizeof g->uuid - 1);
    }
    check_frame(encode_info(2, &i, fresh()), OPERATION_INFO, 1, 2);
    static engram_accel_v1_InfoReply m;
    read_message(engram_accel_v1_InfoReply_fields, &m);
    cr_assert_eq(m.gpus_count, 16);
    const engram_accel_v1_GpuInfo *g = &m.gpus[15];
    cr_assert_eq(g->number, 15);
    cr_assert_eq((int)g->state, WIRE_GPU_BREAKER);
    cr_assert(strlen(g->why) == 256 && strlen(g->name) == 128 && strlen(g->uuid) == 64);
    cr_assert_eq(g->capability_major, UINT32_MAX);
    cr_assert(g->memory_bytes == UINT64_MAX && g->budget_bytes == UINT64_MAX - 1);
    cr_assert(g->ecc && g->virtual_memory && !g->managed && !g->simulated);
    cr_assert_eq(g->uptime_ns, 7);
    i.gpu_count = 1000; /* more than there are */
    i.loading = true;
    i.load_bytes = UINT64_MAX;
    i.load_bytes_done = 12;
    i.load_objects = 3;
    i.load_objects_done = 2;
    i.left_out_count = 1000;
    for (uint32_t n = 0; n < WIRE_LEFT_OUT_MAX; n++)
        memset(i.left_out[n], 'l', sizeof i.left_out[n] - 1);
    check_frame(encode_info(2, &i, fresh()), OPERATION_INFO, 1, 2);
    read_message(engram_accel_v1_InfoReply_fields, &m);
    cr_assert(m.loading && m.load_bytes == UINT64_MAX && m.load_bytes_done == 12);
    cr_assert(m.load_objects == 3 && m.load_objects_done == 2 && m.left_out == 1000);
    cr_assert(m.left_out_names_count == 16 && strlen(m.left_out_names[15]) == 144);
    i.left_out_count = 0;
    check_frame(encode_info(2, &i, fresh()), OPERATION_INFO, 1, 2);
    i.gpu_count = 0;
    check_frame(encode_info(2, &i, fresh()), OPERATION_INFO, 1, 2);
    read_message(engram_accel_v1_InfoReply_fields, &m);
    cr_assert_eq(m.gpus_count, 0);
    cr_assert_str_eq(m.gpu, "absent: why");
}

Test(encode_reports, stats_at_their_largest)
{
    static struct wire_stats s;
    memset(&s, 0xff, sizeof s); /* every number at its longest */
    s.scheduler.calibrated = s.pressure.low = s.snapshots.kept = s.snapshots.failing = true;
    s.journal.mode = WIRE_JOURNAL_ALWAYS;
    s.journal.state = WIRE_FAILED;
    char *text = calloc(1, 501);
    s.journal.why = s.snapshots.error = memset(text, 't', 500);
    s.operation_count = WIRE_OPERATIONS_MAX;
    s.gpu_count = WIRE_GPUS_MAX;
    s.route_count = WIRE_ROUTES_MAX;
    s.peer_count = WIRE_PEERS_MAX;
    for (size_t i = 0; i < WIRE_PEERS_MAX; i++) {
        memset(s.peers[i].name, 'p', sizeof s.peers[i].name); /* without an end */
        s.peers[i].own = true;
    }
    for (size_t i = 0; i < WIRE_GPUS_MAX; i++)
        s.gpus[i].state = WIRE_GPU_READY;
    s.gpus[14].sensors_known = 1 << SENSOR_CELSIUS;
    s.gpus[14].sensors[SENSOR_CELSIUS] = 61;
    s.gpus[13].sensors_known = 0;
    for (size_t i = 0; i < WIRE_ROUTES_MAX; i++)
        s.routes[i] = (struct wire_route){BACKEND_GPU, REASON_PROBE, UINT64_MAX - i};
    for (size_t i = 0; i < WIRE_OPERATIONS_MAX; i++)
        s.operations[i].operation = OPERATION_KNN;
    check_frame(encode_stats(3, &s, fresh()), OPERATION_STATS, 1, 3);
    static engram_accel_v1_StatsReply m;
    read_message(engram_accel_v1_StatsReply_fields, &m);
    cr_assert_eq(m.operations_count, 64);
    cr_assert_eq(m.operations[63].max_ns, UINT64_MAX);
    cr_assert_eq((int)m.operations[63].kind, OPERATION_KNN);
    cr_assert_eq(m.bytes_out, UINT64_MAX);
    cr_assert(m.graphs == UINT64_MAX && m.graph_bytes == UINT64_MAX);
    cr_assert_eq(m.gpus_count, 16);
    cr_assert_eq((int)m.gpus[15].state, WIRE_GPU_READY);
    cr_assert_eq(m.gpus[15].jobs_in_flight, UINT64_MAX);
    cr_assert_eq(m.gpus[15].replica_bytes, UINT64_MAX);
    cr_assert_eq(m.routes_count, 52);
    cr_assert_eq((int)m.routes[51].backend, BACKEND_GPU);
    cr_assert_eq((int)m.routes[51].reason, REASON_PROBE);
    cr_assert_eq(m.routes[51].requests, UINT64_MAX - 51);
    cr_assert(m.gpus[15].shrunk == UINT64_MAX && m.gpus[15].split == UINT64_MAX);
    cr_assert(m.gpus[15].has_sensors && m.gpus[15].sensors.has_slowed);
    cr_assert_eq(m.gpus[15].sensors.slowed, UINT64_MAX);
    cr_assert(m.gpus[14].has_sensors && m.gpus[14].sensors.celsius == 61);
    cr_assert(!m.gpus[14].sensors.has_milliwatts && !m.gpus[13].has_sensors);
    cr_assert(m.has_space && m.has_scheduler && m.has_pressure);
    cr_assert_eq(m.space.weight, UINT32_MAX);
    cr_assert_eq(m.space.backends_count, 2);
    cr_assert_eq((int)m.space.backends[1].backend, BACKEND_GPU);
    cr_assert_eq(m.space.backends[1].batched_requests, UINT64_MAX);
    cr_assert(m.scheduler.calibrated && m.pressure.low);
    cr_assert_eq(m.peers_count, 16);
    cr_assert_eq(strlen(m.peers[15].name), 55);
    cr_assert(m.peers[15].own && m.peers[15].refused_bodies == UINT64_MAX);
    cr_assert(m.screens_count == 10 && m.screens_left_out == UINT32_MAX);
    cr_assert_eq(strlen(m.screens[9].name), 64);
    cr_assert_eq(m.screens[9].gpu.rested, UINT64_MAX);
    s.operation_count = s.gpu_count = s.route_count = 1000; /* more than there are */
    s.peer_count = 1000;
    check_frame(encode_stats(3, &s, fresh()), OPERATION_STATS, 1, 3);
    free(text);
}

Test(encode_reports, stats_of_what_is_kept)
{
    static struct wire_stats s;
    static engram_accel_v1_StatsReply m;
    memset(&s, 0, sizeof s);
    s.journal =
        (struct wire_journal){WIRE_JOURNAL_SECOND, WIRE_FAILED, "EIO", 1, 2, 3, 4, 5, 6, 7, 8};
    s.snapshots =
        (struct wire_snapshots){true, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, true, "no space"};
    check_frame(encode_stats(3, &s, fresh()), OPERATION_STATS, 1, 3);
    read_message(engram_accel_v1_StatsReply_fields, &m);
    const engram_accel_v1_JournalStats *j = &m.journal;
    const engram_accel_v1_SnapshotStats *k = &m.snapshots;
    cr_assert(m.has_journal && m.has_snapshots);
    cr_assert_eq((int)j->mode, WIRE_JOURNAL_SECOND);
    cr_assert_eq((int)j->state, WIRE_FAILED);
    cr_assert_str_eq(j->why, "EIO");
    cr_assert(j->files == 1 && j->file_bytes == 2 && j->records == 3 && j->bytes == 4);
    cr_assert(j->syncs == 5 && j->group_records == 6 && j->queued_bytes == 7 && j->lag_ns == 8);
    cr_assert(k->number == 11 && k->age_ns == 13 && k->bytes == 14 && k->duration_ns == 15);
    cr_assert(k->done == 16 && k->failed == 17 && k->given_up == 18 && k->written_bytes == 19);
    cr_assert(k->lag_ns == 20 && k->every_ns == 21 && k->failing);
    cr_assert_str_eq(k->error, "no space");
    s.journal.why = s.snapshots.error = NULL; /* as anybody but the operator is told */
    check_frame(encode_stats(3, &s, fresh()), OPERATION_STATS, 1, 3);
    read_message(engram_accel_v1_StatsReply_fields, &m);
    cr_assert(!m.journal.why[0] && !m.snapshots.error[0]);
    s.snapshots.kept = false;
    check_frame(encode_stats(3, &s, fresh()), OPERATION_STATS, 1, 3);
    read_message(engram_accel_v1_StatsReply_fields, &m);
    cr_assert(!m.has_journal && !m.has_snapshots);
}

/* Each number of its own, so that one in another's place shows. */
Test(encode_reports, stats_of_the_scheduler)
{
    static struct wire_stats s;
    memset(&s, 0, sizeof s);
    s.space = (struct wire_space_stats){.host_bytes = 1,
                                        .host_bytes_max = 2,
                                        .vram_bytes_max = 3,
                                        .queue_depth = 4,
                                        .queue_max = 5,
                                        .connections = 6,
                                        .connections_max = 7,
                                        .refused_queue = 8,
                                        .refused_connections = 9,
                                        .weight = 10,
                                        .use = {{11, 12, 13, 14}, {15, 16, 17, 18}}};
    s.scheduler = (struct wire_scheduler_stats){.decisions = 20,
                                                .decide_p50_ns = 21,
                                                .decide_p99_ns = 22,
                                                .decide_max_ns = 23,
                                                .batches = 24,
                                                .batched_requests = 25,
                                                .splits = 26,
                                                .steals = 27,
                                                .probes = 28,
                                                .aged = 29,
                                                .passes = 30,
                                                .gpu_success_permille = 950};
    s.pressure = (struct wire_pressure){
        .shrunk_batches = 31, .shrunk_runs = 32, .split_runs = 33, .evictions = 34, .cpu = 35};
    s.peer_count = 1;
    s.peers[0] = (struct wire_peer_stats){"uid 7", false, 41, 42, 43, 44, 45, 46, 47, 48};
    s.peers_left_out = 49;
    check_frame(encode_stats(3, &s, fresh()), OPERATION_STATS, 1, 3);
    static engram_accel_v1_StatsReply m;
    read_message(engram_accel_v1_StatsReply_fields, &m);
    const engram_accel_v1_PeerStats *e = m.peers;
    cr_assert(m.peers_count == 1 && strcmp(e->name, "uid 7") == 0 && !e->own);
    cr_assert(e->connections == 41 && e->requests == 42 && e->in_line == 43);
    cr_assert(e->in_line_max == 44 && e->body_bytes == 45 && e->refused_queue == 46);
    cr_assert(e->refused_connections == 47 && e->refused_bodies == 48 && m.peers_left_out == 49);
    const engram_accel_v1_SpaceStats *p = &m.space;
    cr_assert(p->host_bytes == 1 && p->host_bytes_max == 2 && p->vram_bytes_max == 3);
    cr_assert(p->queue_depth == 4 && p->queue_max == 5 && p->connections == 6);
    cr_assert(p->connections_max == 7 && p->refused_queue == 8 && p->refused_connections == 9);
    cr_assert_eq(p->weight, 10);
    const engram_accel_v1_BackendUse *u = p->backends;
    cr_assert(u[0].requests == 11 && u[0].busy_ns == 12 && u[0].batches == 13);
    cr_assert(u[1].requests == 15 && u[1].busy_ns == 16 && u[1].batches == 17);
    cr_assert(u[0].batched_requests == 14 && u[1].batched_requests == 18);
    const engram_accel_v1_SchedulerStats *c = &m.scheduler;
    cr_assert(c->decisions == 20 && c->decide_p50_ns == 21 && c->decide_p99_ns == 22);
    cr_assert(c->decide_max_ns == 23 && c->batches == 24 && c->batched_requests == 25);
    cr_assert(c->splits == 26 && c->steals == 27 && c->probes == 28 && c->aged == 29);
    cr_assert(c->passes == 30 && c->gpu_success_permille == 950 && !c->calibrated);
    const engram_accel_v1_Pressure *r = &m.pressure;
    cr_assert(r->shrunk_batches == 31 && r->shrunk_runs == 32 && r->split_runs == 33);
    cr_assert(r->evictions == 34 && r->cpu == 35 && !r->low);
}

static struct wire_explain explain;

Test(encode_reports, explain_at_its_largest)
{
    memset(&explain, 0xff, sizeof explain); /* every number at its longest */
    explain.calibrated = explain.settings.split = true;
    explain.settings.force = BACKEND_GPU;
    memset(explain.gpu, 'g', sizeof explain.gpu - 1);
    explain.gpu[sizeof explain.gpu - 1] = 0;
    explain.cost_count = explain.decision_count = 1000; /* more than there are */
    for (size_t i = 0; i < WIRE_COSTS_MAX; i++) {
        explain.costs[i].operation = OPERATION_SCORE_CANDIDATES;
        explain.costs[i].crossover_count = 1000;
    }
    for (size_t i = 0; i < WIRE_DECISIONS_MAX; i++) {
        struct wire_decision *d = &explain.decisions[i];
        d->well = d->work.listed = d->work.filtered = d->work.gpu_able = true;
        d->work.operation = OPERATION_KNN;
        d->reason = REASON_PROBE;
        d->took_ns = UINT64_MAX - i;
    }
    size_t bytes = encode_explain(7, &explain, fresh());
    check_frame(bytes, OPERATION_EXPLAIN, 1, 7);
    cr_assert_gt(bytes, 10000, "it holds them all");
    static engram_accel_v1_ExplainReply m;
    read_message(engram_accel_v1_ExplainReply_fields, &m);
    cr_assert_eq(m.operations_count, WIRE_COSTS_MAX);
    cr_assert_eq(m.operations[7].crossovers_count, WIRE_CROSSOVERS_MAX);
    cr_assert_eq(m.decisions_count, WIRE_DECISIONS_MAX);
    cr_assert_eq(m.decisions[63].took_ns, UINT64_MAX - 63);
    cr_assert(m.calibrated && m.settings.split);
    cr_assert_eq(strlen(m.gpu), 320);
}

Test(encode_reports, explain_keeps_each_number_in_its_place)
{
    explain = (struct wire_explain){
        .calibrated = true,
        .workers = 2,
        .upload_byte_ns = 0.02,
        .upload_ns = 33,
        .decisions_total = 5,
        .cost_count = 1,
        .decision_count = 1,
        .settings = {BACKEND_CPU, 1, 2, 9, 3, 4, 5, 6, 7, 8, 150, 95, 2, true},
        .costs = {{.operation = OPERATION_SIMILARITY,
                   .backends = {[1] = {1, 2, 3, 4, 5, 6, 10, 1.5F, 0.25F, 0.5F, 1.25F, 990, 64, 7,
                                       8, 9}},
                   .crossover_count = 1,
                   .crossovers = {{8, 100, 200, 300}}}},
        .decisions = {{.work = {.operation = OPERATION_KNN,
                                .stride = 768,
                                .k = 10,
                                .filtered = true,
                                .queries = 12,
                                .rows = 13},
                       .server = SERVER_GPU + 1,
                       .members = 14,
                       .reason = REASON_PROBE,
                       .ago_ns = 15,
                       .cpu_ns = 16,
                       .gpu_ns = 17,
                       .wait_ns = 18,
                       .took_ns = 19,
                       .cpu_row_bytes = 20,
                       .gpu_row_bytes = 21,
                       .well = true}},
    };
    check_frame(encode_explain(7, &explain, fresh()), OPERATION_EXPLAIN, 1, 7);
    static engram_accel_v1_ExplainReply m;
    read_message(engram_accel_v1_ExplainReply_fields, &m);
    cr_assert(m.workers == 2 && m.upload_byte_ns == 0.02 && m.upload_ns == 33);
    cr_assert(m.decisions_total == 5 && m.operations_count == 1 && m.decisions_count == 1);
    const engram_accel_v1_SchedulerSettings *s = &m.settings;
    cr_assert(m.has_settings && (int)s->force == BACKEND_CPU && s->pairs_min == 1);
    cr_assert_eq(s->nodes_min, 9);
    cr_assert(s->candidates_min == 2 && s->window_ns == 3 && s->quantum_ns == 4 && s->age_ns == 5);
    cr_assert(s->batch_wait_ns == 6 && s->batch_queries_max == 7 && s->batch_requests_max == 8);
    cr_assert(s->speedup_percent == 150 && s->success_percent == 95 && s->probe_percent == 2);
    const engram_accel_v1_OperationCost *o = &m.operations[0];
    cr_assert((int)o->kind == OPERATION_SIMILARITY && o->backends_count == 2);
    cr_assert((int)o->backends[0].backend == BACKEND_CPU && o->backends[0].fixed_ns == 0);
    const engram_accel_v1_BackendCost *b = &o->backends[1];
    cr_assert((int)b->backend == BACKEND_GPU && b->fixed_ns == 1 && b->row_byte_ns == 2);
    cr_assert(b->product_ns == 3 && b->query_ns == 4 && b->moved_byte_ns == 5 && b->pair_ns == 6);
    cr_assert(b->handed_ns == 10);
    cr_assert(b->drift == 1.5F && b->spread == 0.25F && b->confidence == 0.5F);
    cr_assert_eq(b->screened, 1.25F);
    cr_assert(b->success_permille == 990 && b->outcomes == 64 && b->seen == 7);
    cr_assert(b->probes == 8 && b->surprises == 9);
    cr_assert(o->crossovers_count == 1 && o->crossovers[0].queries == 8);
    cr_assert(o->crossovers[0].rows == 100 && o->crossovers[0].cpu_ns == 200);
    cr_assert_eq(o->crossovers[0].gpu_ns, 300);
    const engram_accel_v1_Decision *d = &m.decisions[0];
    cr_assert((int)d->kind == OPERATION_KNN && d->server == 2 && (int)d->reason == REASON_PROBE);
    cr_assert(d->queries == 12 && d->rows == 13 && d->dimension == 768 && d->k == 10);
    cr_assert(d->members == 14 && d->ago_ns == 15 && d->cpu_ns == 16 && d->gpu_ns == 17);
    cr_assert(d->wait_ns == 18 && d->took_ns == 19 && d->well && d->filtered);
    cr_assert(d->cpu_row_bytes == 20 && d->gpu_row_bytes == 21);
}
