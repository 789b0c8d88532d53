/* faults_rig: a client, the fake daemon that fails it, and what its callbacks were told.
 * Owner:  the test's process.
 * Thread: one; the daemon has one of its own.
 * Errors: none; what fails, fails the test. */
#ifndef ENGRAM_TESTS_FAULTS_RIG_H
#define ENGRAM_TESTS_FAULTS_RIG_H

#include <criterion/criterion.h>

#include "client/engram_accel.h"
#include "tests/support/fake_daemon.h"

enum { FRAME_MAX = 1 << 20 };

static struct fake_daemon daemon_;
static ea_client *client;
static const float matrix[40] = {1, 2, 3, 4, 5, 6, 7, 8};

#define OK(call) cr_assert_eq((call), EA_OK, "%s", ea_error_text(client))

static inline void begin(void (*script)(struct fake_daemon *d, int fd), uint32_t timeout_ms)
{
    fake_start(&daemon_, script);
    ea_options o = {.socket_path = daemon_.path, .timeout_us = timeout_ms * UINT64_C(1000)};
    cr_assert_eq(ea_open(&o, &client), EA_OK);
}

static inline void end(void)
{
    ea_close(client);
    fake_stop(&daemon_);
}

static unsigned callbacks, errors;
static ea_status last_status;
static inline void note_callback(ea_client *c, const ea_answer *answer, void *user)
{
    ea_status st = answer->status;
    callbacks++;
    errors += st != EA_OK;
    last_status = st;
    if (user) *(uint64_t *)user = answer->request_id;
}

#endif
