/* criterion: what our tests use of Criterion, for SAN=thread alone. Criterion runs each test in a
 * process that it clones and maps by hand, which ThreadSanitizer's runtime does not survive; here
 * each test is a forked child. The same tests, the same TAP report.
 * Owner:  the test executable. Thread: assertions from any. Errors: a failed assertion ends the
 * test's process. */
#ifndef ENGRAM_TESTS_THREAD_CRITERION_H
#define ENGRAM_TESTS_THREAD_CRITERION_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test_case {
    const char *suite, *name;
    void (*run)(void);
    struct test_case *next;
    /* What tests may set. */
    double timeout;
    int signal, exit_code;
    bool disabled;
    void (*init)(void), (*fini)(void);
    const char *description;
};

/* Set up and torn down around each test of the suite. */
struct test_suite {
    const char *name;
    struct test_suite *next;
    void (*init)(void), (*fini)(void);
    double timeout;
    const char *description;
};

void test_case_add(struct test_case *t);
void test_suite_add(struct test_suite *s);
/* fatal: the test ends; otherwise it goes on and fails at its end. */
void test_case_failed(bool fatal, const char *file, int line, const char *what, const char *format,
                      ...) __attribute__((format(printf, 5, 6)));
void test_case_skip(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#define Test(s, n, ...)                                              \
    static void s##_##n##_run(void);                                 \
    static struct test_case s##_##n##_case = {                       \
        .suite = #s, .name = #n, .run = s##_##n##_run, __VA_ARGS__}; \
    __attribute__((constructor)) static void s##_##n##_add(void)     \
    {                                                                \
        test_case_add(&s##_##n##_case);                              \
    }                                                                \
    static void s##_##n##_run(void)
#define TestSuite(s, ...)                                           \
    static struct test_suite s##_suite = {.name = #s, __VA_ARGS__}; \
    __attribute__((constructor)) static void s##_suite_add(void)    \
    {                                                               \
        test_suite_add(&s##_suite);                                 \
    }                                                               \
    _Static_assert(1, #s)

#define TEST_CASE_CHECK(fatal, ok, what, ...) \
    ((ok) ? (void)0 : test_case_failed(fatal, __FILE__, __LINE__, what, "" __VA_ARGS__))

#define cr_assert(c, ...)          TEST_CASE_CHECK(true, (c), #c, __VA_ARGS__)
#define cr_expect(c, ...)          TEST_CASE_CHECK(false, (c), #c, __VA_ARGS__)
#define cr_assert_not(c, ...)      TEST_CASE_CHECK(true, !(c), "not " #c, __VA_ARGS__)
#define cr_expect_not(c, ...)      TEST_CASE_CHECK(false, !(c), "not " #c, __VA_ARGS__)
#define cr_assert_eq(a, b, ...)    TEST_CASE_CHECK(true, (a) == (b), #a " == " #b, __VA_ARGS__)
#define cr_expect_eq(a, b, ...)    TEST_CASE_CHECK(false, (a) == (b), #a " == " #b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...)   TEST_CASE_CHECK(true, (a) != (b), #a " != " #b, __VA_ARGS__)
#define cr_expect_neq(a, b, ...)   TEST_CASE_CHECK(false, (a) != (b), #a " != " #b, __VA_ARGS__)
#define cr_assert_lt(a, b, ...)    TEST_CASE_CHECK(true, (a) < (b), #a " < " #b, __VA_ARGS__)
#define cr_expect_lt(a, b, ...)    TEST_CASE_CHECK(false, (a) < (b), #a " < " #b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...)   TEST_CASE_CHECK(true, (a) <= (b), #a " <= " #b, __VA_ARGS__)
#define cr_expect_leq(a, b, ...)   TEST_CASE_CHECK(false, (a) <= (b), #a " <= " #b, __VA_ARGS__)
#define cr_assert_gt(a, b, ...)    TEST_CASE_CHECK(true, (a) > (b), #a " > " #b, __VA_ARGS__)
#define cr_expect_gt(a, b, ...)    TEST_CASE_CHECK(false, (a) > (b), #a " > " #b, __VA_ARGS__)
#define cr_assert_geq(a, b, ...)   TEST_CASE_CHECK(true, (a) >= (b), #a " >= " #b, __VA_ARGS__)
#define cr_expect_geq(a, b, ...)   TEST_CASE_CHECK(false, (a) >= (b), #a " >= " #b, __VA_ARGS__)
#define cr_assert_null(p, ...)     TEST_CASE_CHECK(true, (p) == NULL, #p " is null", __VA_ARGS__)
#define cr_expect_null(p, ...)     TEST_CASE_CHECK(false, (p) == NULL, #p " is null", __VA_ARGS__)
#define cr_assert_not_null(p, ...) TEST_CASE_CHECK(true, (p) != NULL, #p " not null", __VA_ARGS__)
#define cr_expect_not_null(p, ...) TEST_CASE_CHECK(false, (p) != NULL, #p " not null", __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) \
    TEST_CASE_CHECK(true, strcmp((a), (b)) == 0, #a " equals " #b, __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...) \
    TEST_CASE_CHECK(false, strcmp((a), (b)) == 0, #a " equals " #b, __VA_ARGS__)
#define cr_assert_str_neq(a, b, ...) \
    TEST_CASE_CHECK(true, strcmp((a), (b)) != 0, #a " differs from " #b, __VA_ARGS__)
#define cr_expect_str_neq(a, b, ...) \
    TEST_CASE_CHECK(false, strcmp((a), (b)) != 0, #a " differs from " #b, __VA_ARGS__)
#define cr_assert_arr_eq(a, b, n, ...) \
    TEST_CASE_CHECK(true, memcmp((a), (b), (n)) == 0, #a " equals " #b, __VA_ARGS__)
#define cr_expect_arr_eq(a, b, n, ...) \
    TEST_CASE_CHECK(false, memcmp((a), (b), (n)) == 0, #a " equals " #b, __VA_ARGS__)
#define cr_assert_float_eq(a, b, e, ...) \
    TEST_CASE_CHECK(true, fabs((double)(a) - (double)(b)) <= (e), #a " near " #b, __VA_ARGS__)
#define cr_assert_fail(...) test_case_failed(true, __FILE__, __LINE__, "failed", "" __VA_ARGS__)
#define cr_skip_test(...)   test_case_skip("" __VA_ARGS__)
#define cr_log_info(...)    (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr))

#endif
