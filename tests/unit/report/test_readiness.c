/* Whether requests are answered, in a word. */
#include "daemon/report/readiness.h"

#include <criterion/criterion.h>

#define S UINT64_C(1000000000)

static struct readiness r;

static void expect(const char *word, uint64_t now_ns)
{
    const char *said = readiness_word(&r, now_ns);
    if (word)
        cr_expect_str_eq(said ? said : "ready", word);
    else
        cr_expect_null(said, "%s", said);
}

Test(readiness, words)
{
    expect("loading", 100 * S);
    cr_expect(readiness_alive(&r, 100 * S));
    r.phase = LIFE_SERVING;
    r.turned_ns = 100 * S;
    expect("probe", 100 * S); /* none was answered yet */
    r.asked_ns = 100 * S;
    expect("workers", 101 * S);
    r.right_ns = 101 * S;
    r.asked_ns = 0;
    expect(NULL, 102 * S);
    expect(NULL, 105 * S);
    expect(NULL, 99 * S); /* a clock read before theirs */
    expect("loop", 105 * S + 1);
    cr_expect(!readiness_alive(&r, 105 * S + 1));
    r.turned_ns = 110 * S;
    expect("probe", 107 * S); /* asked by nobody for too long */
    r.asked_ns = 102 * S;
    expect("workers", 107 * S);
    r.right_ns = 108 * S;
    r.asked_ns = 0;
    expect(NULL, 109 * S);
    r.wrong = true;
    expect("probe", 109 * S);
    r.wrong = false;
    r.phase = LIFE_STOPPING;
    expect("stopping", 109 * S);
    cr_expect(readiness_alive(&r, 1000 * S));
}
