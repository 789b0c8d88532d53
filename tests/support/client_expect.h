/* client_expect: what a call of the client library has to return.
 * Owner:  included by tests whose client is called c.
 * Thread: one.
 * Errors: fail the test. */
#ifndef ENGRAM_TESTS_CLIENT_EXPECT_H
#define ENGRAM_TESTS_CLIENT_EXPECT_H

#include <criterion/criterion.h>
#include <string.h>

#include "client/engram_accel.h"

#define OK(call) cr_assert_eq((call), EA_OK, "%s", ea_error_text(c))
#define FAILS(call, status, detail, words)                                            \
    do {                                                                              \
        cr_assert_eq((call), (status), "%s: %s", #call, ea_error_text(c));            \
        cr_assert_eq(ea_error_detail(c), (uint32_t)(detail), "%s", ea_error_text(c)); \
        cr_assert(strstr(ea_error_text(c), words), "%s", ea_error_text(c));           \
    } while (0)

#endif
