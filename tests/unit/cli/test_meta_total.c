/* meta_total: the line that says how requests ran, and its JSON, byte for byte. */
#include "client/cli/text/meta_total.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static char *printed;
static size_t printed_bytes;

static const ea_meta batched = {.backend = EA_BACKEND_GPU,
                                .reason = 1,
                                .queue_ns = 12000,
                                .run_ns = 41000,
                                .version = 7,
                                .predicted_ns = 43000,
                                .other_ns = 120000,
                                .wait_ns = 5000,
                                .batch = 12,
                                .total_ns = 60000};
static const ea_meta alone = {
    .backend = EA_BACKEND_CPU, .reason = 3, .queue_ns = 1000, .run_ns = 9000, .predicted_ns = 8000};
static const ea_meta unasked = {.backend = EA_BACKEND_CPU, .reason = 1, .run_ns = 500};

static const ea_meta screened = {.backend = EA_BACKEND_CPU,
                                 .reason = 3,
                                 .run_ns = 500,
                                 .screened = 300000,
                                 .survived = 21,
                                 .read_bytes = 75 << 20};

static void expect_line(const struct meta_total *t, const char *text)
{
    FILE *kept = stderr;
    stderr = open_memstream(&printed, &printed_bytes);
    meta_total_print(t, 3, "queries");
    fclose(stderr);
    stderr = kept;
    cr_assert_str_eq(printed, text);
    free(printed);
}

Test(meta_total, one_request)
{
    struct meta_total t = {0};
    meta_total_add(&t, &batched);
    expect_line(&t, "3 queries in 1 request: gpu (chosen_faster); queued 12.0 µs, ran 41.0 µs; "
                    "batch 12, predicted 43.0 µs, other 120 µs\n");
    t = (struct meta_total){0};
    meta_total_add(&t, &alone);
    expect_line(&t, "3 queries in 1 request: cpu (gpu_absent); queued 1.00 µs, ran 9.00 µs; "
                    "predicted 8.00 µs\n");
    t = (struct meta_total){0};
    meta_total_add(&t, &unasked);
    expect_line(&t, "3 queries in 1 request: cpu (chosen_faster); queued 0 ns, ran 500 ns\n");
}

Test(meta_total, several_requests)
{
    struct meta_total t = {0};
    meta_total_add(&t, &batched);
    meta_total_add(&t, &batched);
    expect_line(&t, "3 queries in 2 requests: gpu (chosen_faster); queued 24.0 µs, ran 82.0 µs; "
                    "batch up to 12, predicted 86.0 µs, other 240 µs\n");
    meta_total_add(&t, &alone); /* nothing to compare it with: no sum of others */
    expect_line(&t, "3 queries in 3 requests: gpu (chosen_faster) x 2, cpu (gpu_absent) x 1; "
                    "queued 25.0 µs, ran 91.0 µs; batch up to 12, predicted 94.0 µs\n");
    meta_total_add(&t, &unasked); /* nor any prediction */
    expect_line(&t, "3 queries in 4 requests: gpu (chosen_faster) x 2, cpu (gpu_absent) x 1, "
                    "cpu (chosen_faster) x 1; queued 25.0 µs, ran 91.5 µs; batch up to 12\n");
}

Test(meta_total, rows_in_int8)
{
    struct meta_total t = {0};
    meta_total_add(&t, &screened);
    expect_line(&t, "3 queries in 1 request: cpu (gpu_absent); queued 0 ns, ran 500 ns; "
                    "int8: 21 of 300,000 scored, 75.0 MiB read\n");
    meta_total_add(&t, &screened);
    meta_total_add(&t, &unasked);
    expect_line(&t, "3 queries in 3 requests: cpu (gpu_absent) x 2, cpu (chosen_faster) x 1; "
                    "queued 0 ns, ran 1.50 µs; int8: 42 of 600,000 scored, 150 MiB read\n");
}

Test(meta_total, json)
{
    struct json j;
    FILE *out = open_memstream(&printed, &printed_bytes);
    struct meta_total t = {0};
    meta_total_add(&t, &batched);
    meta_total_add(&t, &alone);
    json_init(&j, out);
    json_array(&j, NULL);
    json_object(&j, NULL);
    meta_json(&batched, &j);
    json_end(&j);
    json_object(&j, NULL);
    meta_json(&screened, &j);
    json_end(&j);
    json_object(&j, NULL);
    meta_total_json(&t, &j);
    json_end(&j);
    json_end(&j);
    fclose(out);
    cr_assert_str_eq(
        printed,
        "[{\"backend\":\"gpu\",\"reason\":\"chosen_faster\",\"queue_ns\":12000,\"run_ns\":41000,"
        "\"copy_ns\":0,\"version\":7,\"predicted_ns\":43000,\"other_ns\":120000,\"wait_ns\":5000,"
        "\"batch\":12,\"total_ns\":60000},"
        "{\"backend\":\"cpu\",\"reason\":\"gpu_absent\",\"queue_ns\":0,\"run_ns\":500,"
        "\"copy_ns\":0,\"version\":0,\"predicted_ns\":0,\"other_ns\":0,\"wait_ns\":0,"
        "\"batch\":0,\"total_ns\":0,\"screened\":300000,\"survived\":21,"
        "\"read_bytes\":78643200},"
        "{\"requests\":2,\"queue_ns\":13000,\"run_ns\":50000,\"copy_ns\":0,\"predicted_ns\":51000,"
        "\"other_ns\":120000,\"wait_ns\":5000,\"batch_max\":12,\"backends\":["
        "{\"backend\":\"gpu\",\"reason\":\"chosen_faster\",\"requests\":1},"
        "{\"backend\":\"cpu\",\"reason\":\"gpu_absent\",\"requests\":1}]}]\n");
    free(printed);
}
