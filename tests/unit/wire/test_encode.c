#include "tests/unit/wire/reply.h"

static struct job job_of(enum operation operation)
{
    struct job j;
    memset(&j, 0, sizeof j);
    j.operation = operation;
    j.key.request_id = 41;
    j.backend = BACKEND_CPU;
    j.reason = REASON_GPU_ABSENT;
    j.received_ns = 1000;
    j.started_ns = 1500;
    j.finished_ns = 3500;
    j.copy_ns = 7;
    j.result.version = 12;
    j.ticket.cpu_ns = 20;
    j.ticket.gpu_ns = 21;
    j.ticket.wait_ns = 22;
    j.batch = 3;
    j.screen = (struct job_screen){2, 1000, 12, 4096, true, false};
    return j;
}

static void check_meta(bool present, const engram_accel_v1_Meta *m)
{
    cr_assert(present);
    cr_assert_eq((int)m->backend, BACKEND_CPU);
    cr_assert_eq((int)m->reason, REASON_GPU_ABSENT);
    cr_assert_eq(m->queue_ns, 500);
    cr_assert_eq(m->run_ns, 2000);
    cr_assert_eq(m->copy_ns, 7);
    cr_assert_eq(m->version, 12);
    cr_assert(m->predicted_ns == 20 && m->other_ns == 21 && m->wait_ns == 22);
    cr_assert_eq(m->batch, 3);
    cr_assert(m->screened == 1000 && m->survived == 12 && m->read_bytes == 4096);
}

static void check_tensor(bool present, const engram_accel_v1_Tensor *t, int dtype, uint64_t rows,
                         uint64_t columns)
{
    cr_assert(present);
    cr_assert_eq((int)t->dtype, dtype);
    cr_assert_eq(t->rows, rows);
    cr_assert_eq(t->columns, columns);
}

Test(encode, progress)
{
    struct wire_progress said = {.view = {PROGRESS_PAIRS, 5, 7},
                                 .elapsed_ns = 1999,
                                 .foreseen_ns = 5000,
                                 .backend = BACKEND_GPU};
    check_frame(encode_progress(73, 9, &said, fresh()), 73, 5, 9);
    engram_accel_v1_Progress m;
    read_message(engram_accel_v1_Progress_fields, &m);
    cr_assert((int)m.phase == 6 && m.done == 5 && m.total == 7);
    cr_assert(m.elapsed_us == 1 && m.foreseen_us == 5 && (int)m.backend == BACKEND_GPU);
    memset(&said, 0xff, sizeof said);
    said.view.phase = PROGRESS_REPLY;
    said.backend = BACKEND_BOTH;
    cr_assert_leq(encode_progress(255, UINT64_MAX, &said, fresh()), ENCODE_PROGRESS_BYTES);
}

Test(encode, error)
{
    struct failure f;
    failure_set(&f, STATUS_UNAVAILABLE, DETAIL_SHUTTING_DOWN, "going down");
    f.retry_after_ms = 250;
    f.loaded_percent = 37;
    check_frame(encode_error(33, 5, &f, fresh()), 33, 3, 5);
    engram_accel_v1_Error m;
    read_message(engram_accel_v1_Error_fields, &m);
    cr_assert_eq(m.code, 14);
    cr_assert_eq(m.detail, 28);
    cr_assert_str_eq(m.message, "going down");
    cr_assert(m.retryable);
    cr_assert_eq(m.retry_after_ms, 250);
    cr_assert_eq(m.loaded_percent, 37);

    failure_set(&f, STATUS_RESOURCE_EXHAUSTED, DETAIL_BODY_TOO_LARGE, "too large");
    check_frame(encode_error(33, 5, &f, fresh()), 33, 3, 5);
    read_message(engram_accel_v1_Error_fields, &m);
    cr_assert(!m.retryable, "the same request will never fit");

    memset(f.text, 'x', sizeof f.text - 1); /* the longest text */
    f.text[sizeof f.text - 1] = '\0';
    check_frame(encode_error(0, UINT64_MAX, &f, fresh()), 0, 3, UINT64_MAX);
    read_message(engram_accel_v1_Error_fields, &m);
    cr_assert_str_eq(m.message, f.text);
}

/* An error may name what the client sent: it is UTF-8 all the same, which readers of protobuf want,
 * and neither controls a terminal nor turns a line. */
Test(encode, text_of_an_error_is_plain)
{
    struct failure f;
    engram_accel_v1_Error m;
    failure_set(&f, STATUS_INVALID_ARGUMENT, DETAIL_BAD_SETTING, "no setting '%s'",
                "\xff\x1b[2J\xc2\x9b\xe2\x80\xae\xc3\xa9\xe2\x82");
    check_frame(encode_error(11, 5, &f, fresh()), 11, 3, 5);
    read_message(engram_accel_v1_Error_fields, &m);
    cr_assert_str_eq(m.message, "no setting '\?\?[2J\?\?\?\?\?\xc3\xa9\?\?'");
}

Test(encode, ping_is_one_line)
{
    cr_assert_eq(encode_ping(9, fresh()), 64);
    check_frame(64, OPERATION_PING, 1, 9);
    cr_assert_eq(header.message_bytes, 0);
}

Test(encode, predictions_follow_the_backend)
{
    struct job j = job_of(OPERATION_UPSERT);
    engram_accel_v1_UpsertReply m;
    j.backend = BACKEND_GPU;
    encode_result(&j, fresh());
    memcpy(&header, buffer, sizeof header);
    read_message(engram_accel_v1_UpsertReply_fields, &m);
    cr_assert(m.meta.predicted_ns == 21 && m.meta.other_ns == 20 && m.meta.wait_ns == 22);
    j.backend = BACKEND_BOTH;
    encode_result(&j, fresh());
    memcpy(&header, buffer, sizeof header);
    read_message(engram_accel_v1_UpsertReply_fields, &m);
    cr_assert(m.meta.predicted_ns == 21 && m.meta.other_ns == 20);
}

Test(encode, cancel)
{
    check_frame(encode_cancel(4, true, fresh()), OPERATION_CANCEL, 1, 4);
    engram_accel_v1_CancelReply m;
    read_message(engram_accel_v1_CancelReply_fields, &m);
    cr_assert(m.found);
    check_frame(encode_cancel(4, false, fresh()), OPERATION_CANCEL, 1, 4);
    cr_assert_eq(header.message_bytes, 0);
}

Test(encode, collections)
{
    struct collection_info info = {
        .name = "rows",
        .dimension = 768,
        .metric = METRIC_COSINE,
        .rows = 10,
        .version = 3,
        .row_bytes = 30720,
        .index_bytes = 160,
        .vram_bytes = 40960,
        .vram_version = 2,
        .shadow = {.rows = 9,
                   .bytes = 780,
                   .lost = 0.0075,
                   .age_ns = 5000000,
                   .screened = 900,
                   .passed = 12,
                   .rests = 6},
        .vram_shadow = {.rows = 8, .bytes = 790, .lost = 0.0076, .age_ns = 7000000, .rests = 11},
        .vram_card = 3,
        .screens = {{1, 2, 3, 4, 5, 6, 7}, {.rested = 17}}};
    struct job j = job_of(OPERATION_COLLECTION_CREATE);
    check_frame(encode_collection(j.operation, 6, &j, &info, fresh()), 16, 1, 6);
    engram_accel_v1_CollectionCreateReply create;
    read_message(engram_accel_v1_CollectionCreateReply_fields, &create);
    check_meta(create.has_meta, &create.meta);
    cr_assert_str_eq(create.collection.name, "rows");
    check_frame(encode_collection(OPERATION_COLLECTION_DESCRIBE, 7, NULL, &info, fresh()), 19, 1,
                7);
    engram_accel_v1_CollectionDescribeReply describe;
    read_message(engram_accel_v1_CollectionDescribeReply_fields, &describe);
    cr_assert_eq(describe.collection.dimension, 768);
    cr_assert_eq(describe.collection.row_bytes, 30720);
    cr_assert_eq(describe.collection.vram_bytes, 40960);
    cr_assert_eq(describe.collection.vram_version, 2);
    cr_assert_eq(describe.collection.shadow_rows, 9);
    cr_assert_eq(describe.collection.shadow_bytes, 780);
    cr_assert_eq(describe.collection.shadow_lost, 0.0075);
    cr_assert_eq(describe.collection.shadow_age_ms, 5);
    cr_assert_eq(describe.collection.shadow_screened, 900);
    cr_assert_eq(describe.collection.shadow_passed, 12);
    cr_assert_eq(describe.shadow_rests, 6);
    const engram_accel_v1_CardShadow *card = &describe.card_shadow;
    cr_assert(card->gpu == 3 && card->rows == 8 && card->bytes == 790 && card->lost == 0.0076);
    cr_assert(card->age_ms == 7 && card->rests == 11);
    const engram_accel_v1_Screens *cpu = &describe.screens.cpu, *gpu = &describe.screens.gpu;
    cr_assert(cpu->searches == 1 && cpu->queries == 2 && cpu->screened == 3);
    cr_assert(cpu->survived == 4 && cpu->read_bytes == 5 && cpu->useless == 6 && cpu->rested == 7);
    cr_assert(gpu->searches == 0 && gpu->rested == 17);
    info.vram_shadow.rows = 0;
    check_frame(encode_collection(OPERATION_COLLECTION_DESCRIBE, 7, NULL, &info, fresh()), 19, 1,
                7);
    read_message(engram_accel_v1_CollectionDescribeReply_fields, &describe);
    cr_assert_not(describe.has_card_shadow);

    struct collection_info many[65];
    for (size_t i = 0; i < 65; i++) {
        memset(&many[i], 0xff, sizeof many[i]);
        many[i].name = "0123456789012345678901234567890123456789012345678901234567890123";
        many[i].metric = METRIC_SQUARED_EUCLIDEAN;
    }
    static engram_accel_v1_CollectionListReply list;
    check_frame(encode_collection_list(8, many, 64, false, fresh()), 18, 1, 8);
    read_message(engram_accel_v1_CollectionListReply_fields, &list);
    cr_assert_eq(list.collections_count, 64);
    cr_assert(!list.more);
    cr_assert_str_eq(list.collections[63].name, many[63].name);
    check_frame(encode_collection_list(8, many, 65, false, fresh()), 18, 1, 8);
    read_message(engram_accel_v1_CollectionListReply_fields, &list);
    cr_assert_eq(list.collections_count, 64);
    cr_assert(list.more);
    check_frame(encode_collection_list(8, NULL, 0, false, fresh()), 18, 1, 8);
}

Test(encode, counts_of_writes)
{
    struct job j = job_of(OPERATION_UPSERT);
    j.result.counts[0] = 3;
    j.result.counts[1] = 4;
    j.result.rows = 5;
    check_frame(encode_result(&j, fresh()), OPERATION_UPSERT, 1, 41);
    engram_accel_v1_UpsertReply upsert;
    read_message(engram_accel_v1_UpsertReply_fields, &upsert);
    check_meta(upsert.has_meta, &upsert.meta);
    cr_assert(upsert.inserted == 3 && upsert.replaced == 4 && upsert.rows == 5);
    j.operation = OPERATION_DELETE;
    check_frame(encode_result(&j, fresh()), OPERATION_DELETE, 1, 41);
    engram_accel_v1_DeleteReply delete;
    read_message(engram_accel_v1_DeleteReply_fields, &delete);
    cr_assert(delete.deleted == 3 && delete.missing == 4 && delete.rows == 5);
    j.operation = OPERATION_COLLECTION_DROP;
    j.started_ns = 0; /* never ran */
    check_frame(encode_result(&j, fresh()), OPERATION_COLLECTION_DROP, 1, 41);
    engram_accel_v1_CollectionDropReply drop;
    read_message(engram_accel_v1_CollectionDropReply_fields, &drop);
    cr_assert_eq(drop.rows, 3);
    cr_assert_eq(drop.meta.run_ns, 0);
}

static void set_tensor(struct job *j, size_t i, enum dtype dtype, uint64_t rows, uint64_t columns)
{
    j->result.tensors[i] = (struct tensor){.dtype = dtype, .rows = rows, .columns = columns};
}

Test(encode, tensors_find_their_fields)
{
    struct job j = job_of(OPERATION_KNN);
    j.result.body_bytes = 192;
    set_tensor(&j, 0, DTYPE_UINT64, 2, 3);
    set_tensor(&j, 1, DTYPE_FLOAT32, 2, 3);
    set_tensor(&j, 2, DTYPE_UINT32, 2, 1);
    check_frame(encode_result(&j, fresh()), OPERATION_KNN, 1, 41);
    cr_assert_eq(header.body_bytes, 192);
    engram_accel_v1_KnnReply knn;
    read_message(engram_accel_v1_KnnReply_fields, &knn);
    check_meta(knn.has_meta, &knn.meta);
    check_tensor(knn.has_ids, &knn.ids, DTYPE_UINT64, 2, 3);
    check_tensor(knn.has_scores, &knn.scores, DTYPE_FLOAT32, 2, 3);
    check_tensor(knn.has_counts, &knn.counts, DTYPE_UINT32, 2, 1);
    j.operation = OPERATION_SCORE_CANDIDATES;
    check_frame(encode_result(&j, fresh()), OPERATION_SCORE_CANDIDATES, 1, 41);
    engram_accel_v1_ScoreCandidatesReply score;
    read_message(engram_accel_v1_ScoreCandidatesReply_fields, &score);
    check_tensor(score.has_counts, &score.counts, DTYPE_UINT32, 2, 1);

    j = job_of(OPERATION_SIMILARITY);
    set_tensor(&j, 0, DTYPE_UINT64, 9, 1);
    set_tensor(&j, 1, DTYPE_FLOAT32, 9, 1);
    set_tensor(&j, 2, DTYPE_UINT64, 3, 1);
    check_frame(encode_result(&j, fresh()), OPERATION_SIMILARITY, 1, 41);
    engram_accel_v1_SimilarityReply similarity;
    read_message(engram_accel_v1_SimilarityReply_fields, &similarity);
    check_tensor(similarity.has_ids, &similarity.ids, DTYPE_UINT64, 9, 1);
    check_tensor(similarity.has_scores, &similarity.scores, DTYPE_FLOAT32, 9, 1);
    check_tensor(similarity.has_offsets, &similarity.offsets, DTYPE_UINT64, 3, 1);
}

Test(encode, a_left_out_tensor_stays_out)
{
    struct job j = job_of(OPERATION_SIMILARITY);
    set_tensor(&j, RESULT_SIMILARITY_SCORES, DTYPE_FLOAT32, 2, 9);
    check_frame(encode_result(&j, fresh()), OPERATION_SIMILARITY, 1, 41);
    engram_accel_v1_SimilarityReply similarity;
    read_message(engram_accel_v1_SimilarityReply_fields, &similarity);
    cr_assert(!similarity.has_ids && !similarity.has_offsets);
    check_tensor(similarity.has_scores, &similarity.scores, DTYPE_FLOAT32, 2, 9);

    j = job_of(OPERATION_FETCH);
    j.result.counts[0] = 2;
    set_tensor(&j, RESULT_FETCH_IDS, DTYPE_UINT64, 5, 1);
    set_tensor(&j, RESULT_FETCH_ROWS, DTYPE_FLOAT32, 5, 4);
    check_frame(encode_result(&j, fresh()), OPERATION_FETCH, 1, 41);
    engram_accel_v1_FetchReply fetch;
    read_message(engram_accel_v1_FetchReply_fields, &fetch);
    cr_assert(!fetch.has_found);
    check_tensor(fetch.has_ids, &fetch.ids, DTYPE_UINT64, 5, 1);
    check_tensor(fetch.has_rows, &fetch.rows, DTYPE_FLOAT32, 5, 4);
    cr_assert_eq(fetch.missing, 2);

    j = job_of(OPERATION_NORMS);
    set_tensor(&j, 0, DTYPE_FLOAT32, 0, 1); /* of no rows: there, and empty */
    set_tensor(&j, 1, DTYPE_UINT8, 1, 1);   /* one that the reply has no field for */
    check_frame(encode_result(&j, fresh()), OPERATION_NORMS, 1, 41);
    engram_accel_v1_NormsReply norms;
    read_message(engram_accel_v1_NormsReply_fields, &norms);
    check_tensor(norms.has_norms, &norms.norms, DTYPE_FLOAT32, 0, 1);
    j.operation = OPERATION_WEIGHTED_AVERAGE;
    set_tensor(&j, 0, DTYPE_FLOAT32, 1, 768);
    check_frame(encode_result(&j, fresh()), OPERATION_WEIGHTED_AVERAGE, 1, 41);
    engram_accel_v1_WeightedAverageReply average;
    read_message(engram_accel_v1_WeightedAverageReply_fields, &average);
    check_tensor(average.has_average, &average.average, DTYPE_FLOAT32, 1, 768);
}
