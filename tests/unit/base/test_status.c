#include <criterion/criterion.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "daemon/base/status.h"

Test(status, numbers_are_the_wire_s)
{
    cr_expect_eq(STATUS_INVALID_ARGUMENT, 3);
    cr_expect_eq(STATUS_RESOURCE_EXHAUSTED, 8);
    cr_expect_eq(STATUS_UNAUTHENTICATED, 16);
    cr_expect_eq(DETAIL_BAD_MAGIC, 1);
    cr_expect_eq(DETAIL_SYSTEM, 35);
    cr_expect_eq(DETAIL_TOO_MANY_COLLECTIONS, 36);
    cr_expect_eq(DETAIL_QUOTA, 37);
    cr_expect_eq(DETAIL_UNKNOWN_GRAPH, 38);
    cr_expect_eq(DETAIL_NO_INVERSE, 54);
}

Test(status, every_number_has_a_name_of_its_own)
{
    for (int a = STATUS_OK; a <= STATUS_UNAUTHENTICATED; a++) {
        cr_expect_str_neq(status_name((enum status)a), "?");
        for (int b = STATUS_OK; b < a; b++)
            cr_expect_str_neq(status_name((enum status)a), status_name((enum status)b));
    }
    for (int a = DETAIL_NONE; a < 256; a++) {
        bool named = strcmp(detail_name((enum detail)a), "?") != 0;
        cr_expect(named || a > DETAIL_NO_INVERSE, "%d has no name", a);
        if (!named) continue;
        for (int b = DETAIL_NONE; b < a; b++)
            cr_expect_str_neq(detail_name((enum detail)a), detail_name((enum detail)b));
    }
    cr_expect_str_eq(status_name((enum status)17), "?");
    cr_expect_str_eq(status_name((enum status) - 1), "?");
    cr_expect_str_eq(detail_name((enum detail)256), "?");
    cr_expect_str_eq(detail_name((enum detail) - 1), "?");
}

/* It goes to a client as it is, from wherever it lay before. */
Test(status, a_failure_is_set_as_a_whole)
{
    struct failure a, b;
    memset(&a, 0xff, sizeof a);
    memset(&b, 0, sizeof b);
    failure_set(&a, STATUS_UNAVAILABLE, DETAIL_LOADING, "x");
    failure_set(&b, STATUS_UNAVAILABLE, DETAIL_LOADING, "x");
    cr_expect_eq(memcmp(&a, &b, offsetof(struct failure, text)), 0);
}

Test(status, a_failure_carries_its_words)
{
    struct failure f = {.retry_after_ms = 9};
    cr_expect_eq(failure_set(&f, STATUS_NOT_FOUND, DETAIL_UNKNOWN_ID, "id %d", 7),
                 STATUS_NOT_FOUND);
    cr_expect_eq(f.code, STATUS_NOT_FOUND);
    cr_expect_eq(f.detail, DETAIL_UNKNOWN_ID);
    cr_expect_eq(f.retry_after_ms, 0);
    cr_expect_str_eq(f.text, "id 7");
    cr_expect_eq(failure_set(NULL, STATUS_INTERNAL, DETAIL_NONE, "nobody reads it"),
                 STATUS_INTERNAL);
    char words[1000];
    memset(words, 'w', sizeof words - 1);
    words[sizeof words - 1] = 0;
    failure_set(&f, STATUS_INTERNAL, DETAIL_NONE, "%s", words);
    cr_expect_eq(strlen(f.text), sizeof f.text - 1);
}

Test(status, what_may_be_tried_again)
{
    cr_expect(status_retryable(STATUS_RESOURCE_EXHAUSTED));
    cr_expect(status_retryable(STATUS_UNAVAILABLE));
    cr_expect_not(status_retryable(STATUS_INVALID_ARGUMENT));
    cr_expect_not(status_retryable(STATUS_OK));
}

Test(status, from_errno)
{
    static const struct {
        int why;
        enum status want;
    } pairs[] = {
        {0, STATUS_OK},
        {EINVAL, STATUS_INVALID_ARGUMENT},
        {ENAMETOOLONG, STATUS_INVALID_ARGUMENT},
        {ENOENT, STATUS_NOT_FOUND},
        {EADDRINUSE, STATUS_ALREADY_EXISTS},
        {EACCES, STATUS_PERMISSION_DENIED},
        {ENOMEM, STATUS_RESOURCE_EXHAUSTED},
        {EMFILE, STATUS_RESOURCE_EXHAUSTED},
        {ECANCELED, STATUS_CANCELLED},
        {ECONNREFUSED, STATUS_UNAVAILABLE},
        {EXDEV, STATUS_INTERNAL},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        cr_expect_eq(status_from_errno(-pairs[i].why), pairs[i].want, "%s", strerror(pairs[i].why));
}
