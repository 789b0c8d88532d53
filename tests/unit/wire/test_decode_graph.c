/* Graphs and spreading through the decoder. */
#include <math.h>
#include <stdio.h>

#include "tests/unit/wire/request.h"

Test(decode_graph, names_reach_the_job)
{
    static const char *const named[] = {"graph_create", "graph_drop",   "graph_describe",
                                        "add_edges",    "add_csr",      "remove_edges",
                                        "set_nodes",    "remove_nodes", "fetch_nodes",
                                        "spread",       "spread_plain"};
    struct sample s;
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        sample_find(named[i], &s);
        cr_assert_eq(decode(&s), STATUS_OK, "%s: %s", s.name, job.failure.text);
        cr_assert_str_eq(job.request.names[0], "links");
    }
    sample_find("graph_list", &s);
    cr_assert_eq(decode(&s), STATUS_OK);
    cr_assert_str_eq(job.request.names[0], "g");
    uint8_t m[80] = {0x0a, 65};
    memset(m + 2, 'x', 65);
    static const uint8_t kinds[] = {37, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57};
    for (size_t i = 0; i < sizeof kinds; i++) {
        cr_assert_eq(decode_bytes(kinds[i], m, 67, NULL, 0), STATUS_INVALID_ARGUMENT);
        cr_assert_eq(job.failure.detail, DETAIL_BAD_NAME, "kind %u", kinds[i]);
        cr_assert(strstr(job.failure.text, "65 bytes, at most 64"), "%s", job.failure.text);
    }
    for (size_t i = 1; i < 5; i++) { /* what has no tensors takes no body */
        static const uint8_t body[64];
        cr_assert_eq(decode_bytes(kinds[i], "\x0a\x01g", 3, body, 64), STATUS_INVALID_ARGUMENT);
        cr_assert_eq(job.failure.detail, DETAIL_BODY_MISMATCH);
    }
}

Test(decode_graph, changes_reach_the_job)
{
    const struct job_request *q = &job.request;
    struct sample s;
    sample_find("add_edges", &s);
    cr_assert_eq(decode(&s), STATUS_OK);
    cr_assert(q->replace);
    cr_assert(q->ids.rows == 9 && q->targets.rows == 9 && q->weights.rows == 9);
    cr_assert_eq((char *)q->targets.data - (char *)q->ids.data, 128);
    cr_assert_eq((char *)q->weights.data - (char *)q->ids.data, 256);
    s.message.add_edges.replace = false;
    cr_assert_eq(decode(&s), STATUS_OK);
    cr_assert(!q->replace);

    sample_find("add_csr", &s);
    cr_assert_eq(decode(&s), STATUS_OK);
    cr_assert(q->ids.rows == 2 && q->offsets.rows == 3 && q->targets.rows == 3);
    cr_assert_eq((char *)q->offsets.data - (char *)q->ids.data, 64);
    cr_assert_eq((char *)q->weights.data - (char *)q->targets.data, 64);
    s.message.add_csr.replace = true;
    cr_assert_eq(decode(&s), STATUS_OK);
    cr_assert(q->replace);

    sample_find("set_nodes", &s);
    cr_assert_eq(decode(&s), STATUS_OK);
    cr_assert(q->kinds.dtype == DTYPE_UINT8 && q->factors.dtype == DTYPE_FLOAT32);
    s.message.set_nodes.has_kinds = s.message.set_nodes.has_factors = false;
    s.body_bytes -= 128;
    cr_assert_eq(decode(&s), STATUS_OK);
    cr_assert(q->kinds.dtype == DTYPE_NONE && q->factors.dtype == DTYPE_NONE);

    sample_find("fetch_nodes", &s);
    cr_assert_eq(decode(&s), STATUS_OK);
    cr_assert(q->edges && q->ids.rows == 4);
}

Test(decode_graph, columns_must_agree)
{
    struct sample s;
    sample_find("add_edges", &s);
    s.message.add_edges.targets.rows = 10;
    refused(&s, DETAIL_BAD_SHAPE, "targets: 10 rows, sources have 9");
    sample_find("add_edges", &s);
    s.message.add_edges.weights.rows = 8;
    refused(&s, DETAIL_BAD_SHAPE, "weights: 8 rows, sources have 9");
    sample_find("add_edges", &s);
    s.message.add_edges.weights.dtype = engram_accel_v1_Dtype_DTYPE_UINT32;
    refused(&s, DETAIL_BAD_SHAPE, "weights: dtype 3, 1 (float32) wanted");
    sample_find("add_edges", &s);
    s.message.add_edges.has_weights = false;
    refused(&s, DETAIL_BAD_SHAPE, "weights: missing");
    sample_find("add_edges", &s);
    s.message.add_edges.sources.columns = 2;
    refused(&s, DETAIL_BAD_SHAPE, "sources: 2 columns, 1 wanted");
    sample_find("remove_edges", &s);
    s.message.remove_edges.targets.rows = 2;
    refused(&s, DETAIL_BAD_SHAPE, "targets: 2 rows, sources have 3");
    sample_find("set_nodes", &s);
    s.message.set_nodes.kinds.rows = 4;
    refused(&s, DETAIL_BAD_SHAPE, "kinds: 4 rows, ids have 5");
    sample_find("set_nodes", &s);
    s.message.set_nodes.factors.rows = 6;
    refused(&s, DETAIL_BAD_SHAPE, "factors: 6 rows, ids have 5");
    sample_find("set_nodes", &s);
    s.message.set_nodes.has_ids = false;
    refused(&s, DETAIL_BAD_SHAPE, "ids: missing");
    sample_find("remove_nodes", &s);
    s.message.remove_nodes.has_ids = false;
    refused(&s, DETAIL_BAD_SHAPE, "ids: missing");
    sample_find("fetch_nodes", &s);
    s.message.fetch_nodes.has_ids = false; /* by position, which brings no body */
    refused(&s, DETAIL_BODY_MISMATCH, "body: 64 bytes, the tensors fill 0");
    sample_find("add_csr", &s);
    s.message.add_csr.weights.rows = 4;
    refused(&s, DETAIL_BAD_SHAPE, "weights: 4 rows, columns have 3");
    sample_find("add_csr", &s);
    s.message.add_csr.offsets.rows = 2;
    refused(&s, DETAIL_BAD_OFFSETS, "offsets: 2 for 2 ids, one more wanted");
    sample_find("add_csr", &s);
    s.message.add_csr.has_ids = false;
    s.message.add_csr.offsets.rows = 0;
    s.body_bytes -= 128;
    refused(&s, DETAIL_BAD_OFFSETS, "offsets: 0, one more than rows wanted");
    s.message.add_csr.offsets.rows = 8; /* without ids any number of rows will do */
    s.body_bytes += 64;
    cr_assert_eq(decode(&s), STATUS_OK, "%s", job.failure.text);
}

Test(decode_graph, nothing_changes_nothing)
{
    struct sample s;
    sample_find("add_edges", &s);
    s.message.add_edges.sources.rows = s.message.add_edges.targets.rows = 0;
    s.message.add_edges.weights.rows = s.body_bytes = 0;
    cr_assert_eq(decode(&s), STATUS_OK, "%s", job.failure.text);
    sample_find("add_csr", &s);
    s.message.add_csr.ids.rows = s.message.add_csr.columns.rows = 0;
    s.message.add_csr.weights.rows = 0;
    s.message.add_csr.offsets.rows = 1;
    s.body_bytes = 64;
    memset(s.body, 0, 64);
    cr_assert_eq(decode(&s), STATUS_OK, "%s", job.failure.text);
    sample_find("fetch_nodes", &s);
    s.message.fetch_nodes.ids.rows = s.body_bytes = 0;
    cr_assert_eq(decode(&s), STATUS_OK, "%s", job.failure.text);
    sample_find("spread_plain", &s); /* one empty set */
    s.message.spread.seeds.rows = s.body_bytes = 0;
    cr_assert_eq(decode(&s), STATUS_OK, "%s", job.failure.text);
}

/* ---- spread ---- */

Test(decode_graph, spread_reaches_the_job)
{
    const struct job_request *q = &job.request;
    const struct job_spread *p = &job.request.spread;
    struct sample s;
    sample_find("spread", &s);
    cr_assert_eq(decode(&s), STATUS_OK, "%s", job.failure.text);
    cr_assert(p->mode == 1 && p->hops == 3 && p->decay == DECAY_TABLE && p->fan == 0);
    cr_assert(!p->last_hop && p->paths && !p->ignore_kinds);
    cr_assert(q->k == 7 && p->touched_max == 1000 && p->time_max_us == 5000);
    cr_assert_eq(p->thresholds[0], 0.25F);
    cr_assert(q->offsets.rows == 4 && q->ids.rows == 5 && q->weights.rows == 5);
    cr_assert(q->table.rows == 3 && q->filter_bitmap.rows == 70 && q->filter_bitmap_first == 8);
    cr_assert_eq((char *)q->ids.data - (char *)q->offsets.data, 64);
    cr_assert_eq((char *)q->weights.data - (char *)q->offsets.data, 128);
    cr_assert_eq((char *)q->table.data - (char *)q->offsets.data, 192);
    cr_assert_eq((char *)q->filter_bitmap.data - (char *)q->offsets.data, 256);

    sample_find("spread_plain", &s); /* and what is not said */
    s.message.spread.ignore_kinds = true;
    s.message.spread.fan = engram_accel_v1_FanEffect_FAN_DIVIDE;
    cr_assert_eq(decode(&s), STATUS_OK, "%s", job.failure.text);
    cr_assert(p->mode == 2 && p->hops == 4 && p->fan == 2 && p->ignore_kinds && !p->paths);
    cr_assert(p->decay == DECAY_EXPONENTIAL && p->decay_parameter == 0.7F);
    cr_assert(p->thresholds[0] == 0.01F && p->thresholds[1] == 0.05F && p->thresholds[2] == 0.1F);
    cr_assert(q->k == 0 && p->touched_max == 0 && p->time_max_us == 0);
    cr_assert(q->offsets.dtype == DTYPE_NONE && q->weights.dtype == DTYPE_NONE);
    cr_assert(q->table.dtype == DTYPE_NONE && q->filter_ids.dtype == DTYPE_NONE);
    cr_assert_str_eq(q->names[1], "");
    sample_find("spread_embeddings", &s);
    cr_assert_eq(decode(&s), STATUS_OK, "%s", job.failure.text);
    cr_assert_str_eq(q->names[0], "links");
    cr_assert_str_eq(q->names[1], "rows");
}

Test(decode_graph, modes_and_what_belongs_to_them)
{
    struct sample s;
    sample_find("spread_plain", &s);
    s.message.spread.mode = engram_accel_v1_SpreadMode_SPREAD_MODE_UNSPECIFIED;
    refused(&s, DETAIL_BAD_MODE, "mode: 0, 1 (linear) or 2 (engram) wanted");
    s.message.spread.mode = (engram_accel_v1_SpreadMode)3;
    refused(&s, DETAIL_BAD_MODE, "mode: 3");
    sample_find("spread_plain", &s);
    s.message.spread.fan = (engram_accel_v1_FanEffect)3;
    refused(&s, DETAIL_BAD_MODE, "fan: 3, 0 to 2 wanted");
    sample_find("spread_plain", &s);
    s.message.spread.last_hop = true;
    refused(&s, DETAIL_BAD_MODE, "last_hop: only in mode linear");
    sample_find("spread", &s);
    s.message.spread.last_hop = true;
    refused(&s, DETAIL_BAD_MODE, "paths: not together with last_hop");
    s.message.spread.paths = false;
    cr_assert_eq(decode(&s), STATUS_OK, "%s", job.failure.text);
    cr_assert(job.request.spread.last_hop && !job.request.spread.paths);
    sample_find("spread", &s);
    s.message.spread.ignore_kinds = true;
    refused(&s, DETAIL_BAD_MODE, "ignore_kinds: only in mode engram");
    sample_find("spread", &s);
    s.message.spread.fan = engram_accel_v1_FanEffect_FAN_SQRT;
    refused(&s, DETAIL_BAD_MODE, "fan: only in mode engram");
    sample_find("spread", &s);
    strcpy(s.message.spread.embeddings, "rows");
    refused(&s, DETAIL_BAD_MODE, "embeddings: only in mode engram");
    sample_find("spread_embeddings", &s);
    memset(s.message.spread.embeddings, 'x', 65);
    refused(&s, DETAIL_BAD_NAME, "65 bytes, at most 64");
}

Test(decode_graph, hops_and_k)
{
    struct sample s;
    sample_find("spread_plain", &s);
    s.message.spread.hops = 100;
    cr_assert_eq(decode(&s), STATUS_OK);
    cr_assert_eq(job.request.spread.hops, 100);
    s.message.spread.hops = 101;
    refused(&s, DETAIL_BAD_HOPS, "hops: 101, 1 to 100 wanted, or 0 for 4");
    s.message.spread.hops = UINT32_MAX;
    refused(&s, DETAIL_BAD_HOPS, "hops: 4294967295");
    s.message.spread.hops = 1;
    s.message.spread.k = UINT32_C(1) << 31;
    cr_assert_eq(decode(&s), STATUS_OK);
    s.message.spread.k++;
    refused(&s, DETAIL_BAD_K, "k: 2147483649, 0 to 2147483648 wanted");
}

Test(decode_graph, decay)
{

    struct sample s;
    for (unsigned law = 1; law <= 5; law++) {
        if (law == 4) continue;
        sample_find("spread_plain", &s);
        s.message.spread.decay = (engram_accel_v1_DecayLaw)law;
        cr_assert_eq(decode(&s), STATUS_OK, "%s", job.failure.text);
        cr_assert_eq(job.request.spread.decay, law);
        cr_assert_eq(job.request.spread.decay_parameter, 0);
        s.message.spread.decay_parameter = 0.5F;
        if (law == 5) {
            refused(&s, DETAIL_BAD_DECAY, "decay_parameter: 0.5, this law takes none");
            continue;
        }
        cr_assert_eq(decode(&s), STATUS_OK);
        cr_assert_eq(job.request.spread.decay_parameter, 0.5F);
        const float bad[] = {-1, NAN, INFINITY, -INFINITY};
        for (size_t i = 0; i < 4; i++) {
            s.message.spread.decay_parameter = bad[i];
            refused(&s, DETAIL_BAD_DECAY, "finite and at least 0 wanted");
        }
    }
    sample_find("spread_plain", &s);
    s.message.spread.decay = (engram_accel_v1_DecayLaw)6;
    refused(&s, DETAIL_BAD_DECAY, "decay: 6, 0 to 5 wanted");
    sample_find("spread_plain", &s);
    s.message.spread.decay_parameter = 0.5F;
    refused(&s, DETAIL_BAD_DECAY, "decay_parameter: 0.5, but no law is named");
    s.message.spread.decay_parameter = NAN;
    refused(&s, DETAIL_BAD_DECAY, "but no law is named");
}

Test(decode_graph, decay_tables)
{
    struct sample s;
    sample_find("spread", &s);
    s.message.spread.decay_parameter = 1;
    refused(&s, DETAIL_BAD_DECAY, "decay_parameter: 1, this law takes none");
    sample_find("spread", &s);
    s.message.spread.decay = engram_accel_v1_DecayLaw_DECAY_CONSTANT;
    refused(&s, DETAIL_BAD_DECAY, "decay_table: only with the law table");
    s.message.spread.decay = engram_accel_v1_DecayLaw_DECAY_UNSPECIFIED;
    refused(&s, DETAIL_BAD_DECAY, "decay_table: only with the law table");
    sample_find("spread", &s);
    s.message.spread.hops = 4;
    refused(&s, DETAIL_BAD_DECAY, "decay_table: 3 values for 4 hops");
    s.message.spread.hops = 0; /* which means 4 */
    refused(&s, DETAIL_BAD_DECAY, "decay_table: 3 values for 4 hops");
    s.message.spread.decay_table.rows = 4;
    cr_assert_eq(decode(&s), STATUS_OK);
    sample_find("spread_plain", &s);
    s.message.spread.decay = engram_accel_v1_DecayLaw_DECAY_TABLE;
    refused(&s, DETAIL_BAD_DECAY, "decay_table: 0 values for 4 hops");
    const float bad[] = {-0.5F, NAN, INFINITY};
    for (size_t i = 0; i < 3; i++) {
        sample_find("spread", &s);
        memcpy(s.body + 192 + 8, &bad[i], 4);
        refused(&s, DETAIL_BAD_DECAY, "decay_table: value 2 is ");
    }
    sample_find("spread", &s); /* nothing passes a hop of 0 */
    memset(s.body + 192, 0, 12);
    cr_assert_eq(decode(&s), STATUS_OK);
}

Test(decode_graph, thresholds)
{
    struct sample s;
    const float bad[] = {-0.01F, NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 4; i++) {
        sample_find("spread_plain", &s);
        s.message.spread.has_threshold = true;
        s.message.spread.threshold = bad[i];
        refused(&s, DETAIL_BAD_THRESHOLD, "threshold: ");
        s.message.spread.threshold = 0;
        s.message.spread.has_threshold_warm = true;
        s.message.spread.threshold_warm = bad[i];
        refused(&s, DETAIL_BAD_THRESHOLD, "threshold_warm: ");
        s.message.spread.threshold_warm = 3;
        s.message.spread.has_threshold_cold = true;
        s.message.spread.threshold_cold = bad[i];
        refused(&s, DETAIL_BAD_THRESHOLD, "threshold_cold: ");
    }
    s.message.spread.threshold_cold = 0.5F;
    cr_assert_eq(decode(&s), STATUS_OK);
    const float *t = job.request.spread.thresholds;
    cr_assert(t[0] == 0 && t[1] == 3 && t[2] == 0.5F);
}

Test(decode_graph, seed_sets)
{
    const struct {
        uint64_t offsets[4];
        const char *text;
    } cases[] = {
        {{1, 2, 2, 5}, "seed_offsets: the first is 1, 0 wanted"},
        {{0, 3, 2, 5}, "seed_offsets: number 2 goes back from 3 to 2"},
        {{0, 2, 2, 4}, "seed_offsets: the last is 4, 5 seeds given"},
        {{0, 2, 2, UINT64_MAX}, "seed_offsets: the last is 18446744073709551615"},
    };
    struct sample s;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sample_find("spread", &s);
        memcpy(s.body, cases[i].offsets, sizeof cases[i].offsets);
        refused(&s, DETAIL_BAD_OFFSETS, cases[i].text);
    }
    sample_find("spread", &s);
    s.message.spread.seed_offsets.rows = 1;
    refused(&s, DETAIL_BAD_OFFSETS, "seed_offsets: 1, one more than 1 to 65536 sets wanted");
    sample_find("spread", &s);
    s.message.spread.has_seeds = false;
    refused(&s, DETAIL_BAD_SHAPE, "seeds: missing");
    sample_find("spread", &s);
    s.message.spread.seed_offsets.rows = 0;
    memmove(s.body, s.body + 64, sizeof s.body - 64);
    s.body_bytes -= 64;
    refused(&s, DETAIL_BAD_OFFSETS, "seed_offsets: 0, one more than 1 to 65536 sets wanted");
}

/* 65,536 empty sets are as many as there may be. */
Test(decode_graph, how_many_sets)
{
    enum { ROWS = 65538, BYTES = (ROWS * 8 + 63) / 64 * 64 };
    uint8_t message[256];
    struct sample s;
    sample_find("spread_plain", &s);
    s.message.spread.seeds.rows = 0;
    s.message.spread.has_seed_offsets = true;
    void *body = aligned_alloc(64, BYTES);
    memset(body, 0, BYTES);
    s.message.spread.seed_offsets = sample_tensor(DTYPE_UINT64, ROWS, 1);
    uint32_t bytes = sample_message(&s, message, sizeof message);
    cr_assert_eq(decode_bytes(s.kind, message, bytes, body, BYTES), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(job.failure.detail, DETAIL_BAD_OFFSETS);
    cr_assert(strstr(job.failure.text, "seed_offsets: 65538, "), "%s", job.failure.text);
    s.message.spread.seed_offsets.rows--;
    bytes = sample_message(&s, message, sizeof message);
    cr_assert_eq(decode_bytes(s.kind, message, bytes, body, BYTES), STATUS_OK, "%s",
                 job.failure.text);
    free(body);
}

Test(decode_graph, activations)
{
    struct sample s;
    sample_find("spread", &s);
    s.message.spread.activations.rows = 4;
    refused(&s, DETAIL_BAD_SHAPE, "activations: 4 rows, seeds have 5");
    /* Their values exec looks at, on a worker. */
    sample_find("spread", &s);
    const float any[5] = {1e-45F, 3e38F, 2, NAN, -1};
    memcpy(s.body + 128, any, sizeof any);
    cr_assert_eq(decode(&s), STATUS_OK, "%s", job.failure.text);
}

Test(decode_graph, node_sets)
{
    struct sample s;
    sample_find("spread", &s);
    s.message.spread.within.has_ids = true;
    s.message.spread.within.ids = sample_tensor(DTYPE_UINT64, 8, 1);
    s.body_bytes += 64;
    refused(&s, DETAIL_BAD_FILTER, "within: ids and bitmap exclude each other");
    sample_find("spread", &s);
    s.message.spread.within.has_bitmap = false;
    s.message.spread.within.has_ids = true;
    s.message.spread.within.ids = sample_tensor(DTYPE_UINT64, 0, 1);
    s.body_bytes -= 128;
    cr_assert_eq(decode(&s), STATUS_OK, "%s", job.failure.text);
    cr_assert_eq(job.request.filter_ids.dtype, DTYPE_UINT64);
    sample_find("spread", &s);
    s.message.spread.within.bitmap.dtype = engram_accel_v1_Dtype_DTYPE_UINT64;
    refused(&s, DETAIL_BAD_SHAPE, "within.bitmap: dtype 2, 4 (uint8) wanted");
}
