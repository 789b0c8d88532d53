/* The text that Prometheus reads, and the counters behind it. */
#include "daemon/report/metrics.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "daemon/report/stats.h"

static struct metrics_text text;
static struct metrics_view view;
static struct config config;

static void expect(const char *line)
{
    size_t bytes = strlen(line);
    char *whole = malloc(text.bytes + 2);
    whole[0] = '\n';
    memcpy(whole + 1, text.data, text.bytes);
    whole[text.bytes + 1] = 0;
    bool found = false;
    for (const char *at = whole; (at = strstr(at + 1, line)) && !found;)
        found = at[-1] == '\n' && at[bytes] == '\n';
    free(whole);
    cr_expect(found, "no line: %s", line);
}

/* ---------------------------------------------------------------- buckets */

Test(durations, bounds_that_do_not_rise_are_refused)
{
    struct duration_bounds b = {.count = 7};
    static const char *const bad[] = {"",
                                      " ",
                                      "0",
                                      "5 5",
                                      "9 3",
                                      "1,2",
                                      "1.5",
                                      "-1 2",
                                      "1000000001",
                                      "x",
                                      "1 99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect(!durations_parse(bad[i], &b), "'%s'", bad[i]);
    cr_assert_eq(b.count, 7);
    cr_assert(durations_parse("  1 20  1000000000 ", &b));
    cr_assert(b.count == 3 && b.ns[0] == 1000 && b.ns[1] == 20000 && b.ns[2] == 1000000000000u);
    char many[200] = "";
    for (int i = 1; i <= DURATIONS_BOUNDS_MAX + 1; i++)
        sprintf(many + strlen(many), "%d ", i);
    cr_assert(!durations_parse(many, &b));
}

Test(durations, histogram_counts_what_lies_below_each_bound)
{
    struct duration_bounds b;
    struct durations d = {0};
    cr_assert(durations_parse("50 1000", &b));
    durations_add(&d, &b, 50000); /* on the bound */
    durations_add(&d, &b, 50001);
    durations_add(&d, &b, 2000000000);
    metrics_text_family(&text, "t", "histogram", "T.");
    metrics_text_histogram(&text, "a=\"b\"", &b, &d);
    metrics_text_histogram(&text, NULL, &b, &d);
    cr_assert(!text.failed);
    expect("# HELP t T.");
    expect("# TYPE t histogram");
    expect("t_bucket{a=\"b\",le=\"0.00005\"} 1");
    expect("t_bucket{a=\"b\",le=\"0.001\"} 2");
    expect("t_bucket{a=\"b\",le=\"+Inf\"} 3");
    expect("t_sum{a=\"b\"} 2.000100001");
    expect("t_count{a=\"b\"} 3");
    expect("t_bucket{le=\"+Inf\"} 3");
    expect("t_count 3");
    metrics_text_finish(&text);
}

/* ---------------------------------------------------------------- cards */

Test(card_totals, rise_over_restarts)
{
    struct card_totals t = {0};
    struct share_usage u;
    memset(&u, 0, sizeof u);
    atomic_store(&u.runs, 10);
    card_totals_look(&t, &u);
    atomic_store(&u.runs, 12);
    card_totals_end_life(&t, &u);
    cr_assert_eq(card_totals_of(&t, TOTAL_RUNS), 12);
    atomic_store(&u.runs, 3); /* the next life */
    card_totals_look(&t, &u);
    cr_assert_eq(card_totals_of(&t, TOTAL_RUNS), 15);
    atomic_store(&u.runs, 1); /* nonsense: it fell */
    card_totals_look(&t, &u);
    cr_assert_eq(card_totals_of(&t, TOTAL_RUNS), 15);
    atomic_store(&u.runs, UINT64_MAX); /* nonsense: it leapt */
    card_totals_look(&t, &u);
    cr_assert_eq(card_totals_of(&t, TOTAL_RUNS), 15);
    card_totals_look(&t, NULL);
    card_totals_end_life(&t, NULL);
    cr_assert_eq(card_totals_of(&t, TOTAL_RUNS), 15);
}

/* ---------------------------------------------------------------- spaces */

static struct job answered(struct space *s, enum status code)
{
    struct job j = {.space = s,
                    .operation = OPERATION_KNN,
                    .received_ns = 100,
                    .started_ns = 130,
                    .finished_ns = 200,
                    .backend = BACKEND_CPU,
                    .reason = REASON_VRAM_PRESSURE,
                    .failure = {.code = code}};
    return j;
}

Test(space_counts, more_spaces_than_places_are_others)
{
    struct spaces_counted t;
    struct space spaces[4] = {
        {.name = "first"}, {.name = "second"}, {.name = "other"}, {.name = "listed"}};
    config_defaults(&config);
    config.space_count = 1;
    strcpy(config.spaces[0].name, "listed");
    cr_assert(!space_counts_init(&t, 2, &config));
    for (int i = 0; i < 4; i++) {
        struct job j = answered(&spaces[i], i == 1 ? STATUS_RESOURCE_EXHAUSTED : STATUS_OK);
        space_counts_add(&t, &j, 210);
    }
    cr_assert_eq(t.count, 3);
    cr_assert_str_eq(t.rows[1].name, "listed");
    cr_assert_str_eq(t.rows[2].name, "first");
    cr_assert(t.rows[0].requests == 2 && t.rows[0].errors == 1 && t.rows[0].refused == 1);
    const struct space_counts *first = &t.rows[2];
    cr_assert(first->requests == 1 && first->queue_ns == 30 && first->run_ns == 70);
    cr_assert(first->gpu_no_memory == 1 && first->fallbacks == 1 && first->gpu_runs == 0);
    struct space again = {.name = "first"}; /* it was forgotten, and is back */
    struct job j = answered(&again, STATUS_OK);
    space_counts_add(&t, &j, 210);
    cr_assert_eq(t.rows[2].requests, 2);
    space_counts_finish(&t);
}

/* ---------------------------------------------------------------- all of it */

static void know(struct share_sensors *s, enum share_sensor which, uint64_t value)
{
    atomic_store(&s->values[which], value);
    atomic_store(&s->known, atomic_load(&s->known) | UINT64_C(1) << which);
}

Test(metrics, sensors_of_two_cards)
{
    static struct share_sensors s;
    view.card_count = 2;
    know(&s, SENSOR_CELSIUS, 61);
    know(&s, SENSOR_MILLIWATTS, 312500);
    know(&s, SENSOR_MEGAHERTZ, 1980);
    know(&s, SENSOR_BUSY_PERCENT, 87);
    know(&s, SENSOR_ECC_UNCORRECTED, 2);
    know(&s, SENSOR_SLOWED, SLOWED_BY_POWER_CAP | 1);
    cards_report_sensors(&s, 5, &view.cards[1].now);
    cr_assert_eq(view.cards[1].now.sensors_known, 0, "nobody looked yet");
    atomic_store(&s.seen_ns, 100);
    cards_report_sensors(&s, 101 + SHARE_SENSORS_OLD_NS, &view.cards[1].now);
    cr_assert_eq(view.cards[1].now.sensors_known, 0, "too old");
    atomic_store(&s.seen_ns, UINT64_MAX);
    cards_report_sensors(&s, 101 + SHARE_SENSORS_OLD_NS, &view.cards[1].now);
    cr_assert_eq(view.cards[1].now.sensors_known, 0, "nonsense");
    metrics_render_sensors(&view, &text);
    cr_assert_eq(text.bytes, 0, "no family without a sample");
    atomic_store(&s.seen_ns, 100);
    cards_report_sensors(&s, 100 + SHARE_SENSORS_OLD_NS, &view.cards[1].now);
    metrics_render_sensors(&view, &text);
    expect("# TYPE engram_accel_gpu_temperature_celsius gauge");
    expect("engram_accel_gpu_temperature_celsius{gpu=\"1\"} 61");
    expect("engram_accel_gpu_power_watts{gpu=\"1\"} 312.5");
    expect("engram_accel_gpu_clock_hertz{gpu=\"1\",of=\"sm\"} 1980000000");
    expect("engram_accel_gpu_busy_ratio{gpu=\"1\",of=\"sm\"} 0.87");
    expect("engram_accel_gpu_ecc_errors_total{gpu=\"1\",kind=\"uncorrected\"} 2");
    expect("engram_accel_gpu_slowed{gpu=\"1\",reason=\"power_cap\"} 1");
    expect("engram_accel_gpu_slowed{gpu=\"1\",reason=\"heat\"} 0");
    cr_expect(!strstr(text.data, "gpu=\"0\"") && !strstr(text.data, "limit_watts"));
    metrics_text_finish(&text);
}

Test(metrics, text)
{
    view.space_count = 2;
    strcpy(view.spaces[0].counts.name, "other");
    strcpy(view.spaces[1].counts.name, "alpha");
    view.spaces[1].counts.queue_ns = 1500000000;
    view.spaces[1].counts.gpu_runs = 5;
    view.spaces[1].vram_bytes = 77;
    view.operations[OPERATION_KNN].requests = 3;
    view.operations[OPERATION_KNN].errors = 1;
    durations_parse("100", &view.bounds);
    view.timed[view.timed_count++] =
        (struct metrics_timed){OPERATION_KNN, BACKEND_GPU, {.sum_ns = 9, .buckets = {2, 1}}};
    view.routes[BACKEND_GPU][REASON_CHOSEN_FASTER] = 8;
    view.card_count = 1;
    view.cards[0].now.state = WIRE_GPU_READY;
    view.cards[0].now.replica_bytes = 4096;
    view.cards[0].memory_bytes = 1000;
    view.cards[0].totals.past[TOTAL_RUN_NS] = 2000000000;
    view.cards[0].totals.last[TOTAL_RUN_NS] = 500000000;
    view.heap = (struct heap_usage){.bytes_asked = 5, .bytes_free = 1000, .bytes_largest = 250};
    view.cards[0].now.slab_bytes = 100;
    view.cards[0].now.request_bytes = 60;
    view.cards[0].now.asked_bytes = 44;
    view.cards[0].now.largest_bytes = 20;
    view.screens[SCREENS_GPU] =
        (struct screen_counts){.screened = 900, .survived = 9, .useless = 2};
    view.shadow_bytes = 4711;
    view.reloads_refused = 3;
    view.journal = (struct wire_journal){.mode = WIRE_JOURNAL_ALWAYS,
                                         .state = WIRE_NO_ROOM,
                                         .files = 2,
                                         .records = 12,
                                         .group_last = 4,
                                         .lag_ns = 1500000000};
    view.snapshots = (struct wire_snapshots){.kept = true,
                                             .number = 9,
                                             .saved_s = 1700000000,
                                             .duration_ns = 2500000000,
                                             .failed = 3,
                                             .lag_ns = 7000000000,
                                             .failing = true};
    view.observed = true;
    cr_assert(metrics_render(&view, &text));
    metrics_render_process(&text);
    expect("engram_accel_build_info{version=\"" ENGRAM_VERSION "\"} 1");
    expect("engram_accel_requests_total{operation=\"knn\"} 3");
    expect("engram_accel_request_errors_total{operation=\"knn\"} 1");
    expect("engram_accel_request_duration_seconds_bucket{operation=\"knn\",backend=\"gpu\","
           "le=\"0.0001\"} 2");
    expect("engram_accel_request_duration_seconds_count{operation=\"knn\",backend=\"gpu\"} 3");
    expect("engram_accel_routes_total{backend=\"gpu\",reason=\"chosen_faster\"} 8");
    expect("engram_accel_space_queue_seconds_total{memory_space=\"alpha\"} 1.5");
    expect("engram_gpu_launch_total{memory_space=\"alpha\"} 5");
    expect("engram_gpu_memory_used_bytes{memory_space=\"alpha\"} 77");
    expect("engram_gpu_available 1");
    expect("engram_gpu_memory_total_bytes 1000");
    expect("engram_accel_gpu_state{gpu=\"0\",state=\"ready\"} 1");
    expect("engram_accel_gpu_state{gpu=\"0\",state=\"down\"} 0");
    expect("engram_accel_gpu_replica_bytes{gpu=\"0\"} 4096");
    expect("engram_accel_gpu_run_seconds_total{gpu=\"0\"} 2.5");
    expect("engram_accel_memory_asked_bytes 5");
    expect("engram_accel_memory_fragmentation_ratio 0.75");
    expect("engram_accel_gpu_request_asked_bytes{gpu=\"0\"} 44");
    expect("engram_accel_gpu_slab_fragmentation_ratio{gpu=\"0\"} 0.5");
    expect("engram_accel_screen_pairs_total{backend=\"gpu\"} 900");
    expect("engram_accel_screen_survivors_total{backend=\"gpu\"} 9");
    expect("engram_accel_screen_useless_total{backend=\"gpu\"} 2");
    expect("engram_accel_screen_useless_total{backend=\"cpu\"} 0");
    expect("engram_accel_shadow_bytes 4711");
    expect("engram_accel_config_reloads_total{result=\"refused\"} 3");
    expect("engram_accel_journal_refusing 1");
    expect("engram_accel_journal_records_total 12");
    expect("engram_accel_journal_group_records 4");
    expect("engram_accel_journal_lag_seconds 1.5");
    expect("engram_accel_journal_files 2");
    expect("engram_accel_snapshots_total{result=\"failed\"} 3");
    expect("engram_accel_snapshots_total{result=\"given_up\"} 0");
    expect("engram_accel_snapshot_failing 1");
    expect("engram_accel_snapshot_number 9");
    expect("engram_accel_snapshot_timestamp_seconds 1700000000");
    expect("engram_accel_snapshot_duration_seconds 2.5");
    expect("engram_accel_snapshot_lag_seconds 7");
    expect("engram_accel_log_lines_lost_total 0");
    expect("engram_accel_observed 1");
    expect("# TYPE process_resident_memory_bytes gauge");
    metrics_text_finish(&text);
}

/* As EngramAccelRestarting counts starts. */
Test(metrics, start_of_the_process_is_the_same_in_every_text)
{
    char first[64] = "";
    for (int i = 0; i < 1000; i++) {
        metrics_render_process(&text);
        const char *line = strstr(text.data, "\nprocess_start_time_seconds ");
        cr_assert(line);
        size_t bytes = strcspn(line + 1, "\n");
        if (!*first) snprintf(first, sizeof first, "%.*s", (int)bytes, line + 1);
        cr_assert(strlen(first) == bytes && memcmp(first, line + 1, bytes) == 0, "%.*s after %s",
                  (int)bytes, line + 1, first);
        metrics_text_finish(&text);
    }
}
