/* knn: five vectors into a collection, one question, the answer. README.md shows it.
 *   cc knn.c $(pkg-config --cflags --libs engram-accel) -o knn && ./knn [SOCKET] */
#include <engram_accel.h>
#include <inttypes.h>
#include <stdio.h>

enum { ROWS = 5, DIMENSION = 3 };

static int failed(ea_client *c, const char *what)
{
    fprintf(stderr, "%s: %s\n", what, ea_error_text(c));
    ea_close(c);
    return 1;
}

int main(int argc, char **argv)
{
    static const uint64_t ids[ROWS] = {10, 20, 30, 40, 50};
    static const float rows[ROWS * DIMENSION] = {
        1, 0, 0, /* 10 */
        0, 1, 0, /* 20 */
        0, 0, 1, /* 30 */
        1, 1, 0, /* 40 */
        1, 1, 1, /* 50 */
    };
    static const float query[DIMENSION] = {2, 1, 0};

    ea_client *c;
    ea_options options = {.socket_path = argc > 1 ? argv[1] : NULL, .timeout_us = 1000000};
    if (ea_open(&options, &c)) return 1;

    ea_status status = ea_collection_create(c, "example", DIMENSION, EA_COSINE, NULL);
    if (status && status != EA_ALREADY_EXISTS) return failed(c, "create");
    ea_rows facts = {
        .collection = "example", .ids = ids, .rows = rows, .count = ROWS, .dimension = DIMENSION};
    if (ea_upsert(c, &facts, NULL)) return failed(c, "upsert");

    ea_result result = {0};
    ea_knn_question question = {.collection = "example",
                                .queries = query,
                                .query_count = 1,
                                .dimension = DIMENSION,
                                .k = 3};
    if (ea_knn(c, &question, &result)) return failed(c, "knn");
    for (uint32_t i = 0; i < result.counts[0]; i++)
        printf("%" PRIu64 "  %.6f\n", result.ids[i], (double)result.scores[i]);
    printf("by %s (%s) in %" PRIu64 " ns\n", ea_backend_name(result.meta->backend),
           ea_reason_name(result.meta->reason), result.meta->run_ns);

    ea_result_free(&result);
    ea_close(c);
    return 0;
}
