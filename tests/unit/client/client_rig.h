/* client_rig: a client and the fake daemon that it talks to, one of each in a test.
 * Owner:  the test's process.
 * Thread: one; the daemon has one of its own.
 * Errors: none; what fails, fails the test. */
#ifndef ENGRAM_TESTS_CLIENT_RIG_H
#define ENGRAM_TESTS_CLIENT_RIG_H

#include <string.h>

#include <criterion/criterion.h>

#include "client/engram_accel.h"
#include "tests/support/fake_daemon.h"

static struct fake_daemon daemon_;
static ea_client *client;

#define OK(call)  cr_assert_eq((call), EA_OK, "%s", ea_error_text(client))
#define BAD(call) cr_assert_eq((call), EA_INVALID_ARGUMENT)

static inline void open_client(void)
{
    ea_options o = {.socket_path = daemon_.path,
                    .space = "default",
                    .timeout_us = 5000000,
                    .token = "key",
                    .token_bytes = 3};
    cr_assert_eq(ea_open(&o, &client), EA_OK);
}

static inline void begin(void (*script)(struct fake_daemon *d, int fd))
{
    fake_start(&daemon_, script);
    open_client();
}

static inline void begin_served(void)
{
    begin(fake_serve);
}

static inline void end(void)
{
    ea_close(client);
    fake_stop(&daemon_);
    daemon_ = (struct fake_daemon){0};
}

#endif
