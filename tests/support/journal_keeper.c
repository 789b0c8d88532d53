#include "tests/support/journal_keeper.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/persist_house.h"
#include "tests/support/scene.h"
#include "tests/support/sets.h"

void journal_keeper_open(struct journal_keeper *k, const char *journal)
{
    memset(k, 0, sizeof *k);
    persist_house_folder(k->folder);
    snprintf(k->setting, sizeof k->setting, "persist.dir=%s", k->folder);
    const char *settings[] = {k->setting,         journal,
                              "workers.count=2",  "workers.pin=false",
                              "gpu.devices=none", "persist.on_stop=false"};
    memcpy(k->settings, settings, sizeof settings);
    daemon_start(&k->daemon, k->settings);
    ea_options options = {.socket_path = k->daemon.socket_path,
                          .space = "kept",
                          .timeout_us = GIVE_UP_MS * UINT64_C(1000)};
    cr_assert_eq(ea_open(&options, &k->client), EA_OK);
    k->rows = malloc(sizeof(float) * KEEPER_ROWS * KEEPER_D);
    k->ids = malloc(sizeof(uint64_t) * KEEPER_ROWS);
    reference_fill(7, k->rows, (size_t)KEEPER_ROWS * KEEPER_D);
    for (uint64_t i = 0; i < KEEPER_ROWS; i++)
        k->ids[i] = 3 * i + 1;
}

void journal_keeper_close(struct journal_keeper *k)
{
    ea_close(k->client);
    cr_assert_eq(daemon_stop(&k->daemon), 0);
    persist_house_remove(k->folder);
    free(k->rows);
    free(k->ids);
}

void journal_keeper_need(const struct journal_keeper *k, ea_status st, const char *what)
{
    cr_assert_eq(st, EA_OK, "%s: %s", what, ea_error_text(k->client));
}

/* The first request finds the old connection closed. */
void journal_keeper_wait(const struct journal_keeper *k)
{
    int64_t until = give_up_ms();
    ea_info info = {0};
    while (ea_get_info(k->client, &info) != EA_OK || !info.ready)
        cr_assert(now_ms() < until, "%s", ea_error_text(k->client));
}

void journal_keeper_put(const struct journal_keeper *k, const char *name, uint64_t first,
                        uint64_t count)
{
    const ea_rows rows = {.collection = name,
                          .ids = k->ids + first,
                          .rows = k->rows + first * KEEPER_D,
                          .count = count,
                          .dimension = KEEPER_D};
    journal_keeper_need(k, ea_upsert(k->client, &rows, NULL), name);
}

void journal_keeper_create(const struct journal_keeper *k, const char *name)
{
    journal_keeper_need(k, ea_collection_create(k->client, name, KEEPER_D, EA_COSINE, NULL), name);
}

void journal_keeper_kill(struct journal_keeper *k)
{
    daemon_kill(&k->daemon);
    daemon_restart(&k->daemon, k->settings);
    journal_keeper_wait(k);
}
