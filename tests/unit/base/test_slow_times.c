#include <criterion/criterion.h>

#include "daemon/base/slow_times.h"

Test(slow_times, by_operation_and_for_all_others)
{
    uint64_t over[OPERATION_MAX];
    cr_assert(slow_times_parse("  knn=20 cluster=3600000  ping=0 ", 100, over));
    cr_expect_eq(over[OPERATION_KNN], 20000000);
    cr_expect_eq(over[OPERATION_CLUSTER], UINT64_C(3600000000000));
    cr_expect_eq(over[OPERATION_PING], UINT64_MAX, "never");
    cr_expect_eq(over[OPERATION_SPREAD], 100000000);
    cr_expect_eq(over[OPERATION_NONE], UINT64_MAX, "no request is of that");
    cr_assert(slow_times_parse("", 0, over));
    cr_expect_eq(over[OPERATION_KNN], UINT64_MAX);
}

Test(slow_times, what_is_wrong_changes_nothing)
{
    static const char *const wrong[] = {
        "knn",      "knn=",         "knn=x",        "knn=20ms",
        "=20",      "kn=20",        "knn =20",      "knn= 20",
        "knn=-1",   "knn=3600001",  "knn=12345678", "knn_batch=5",
        "upload=1", "knn=1,ping=2", "knn=1 x",      "knn=99999999999999999999",
    };
    uint64_t over[OPERATION_MAX] = {[OPERATION_KNN] = 7};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cr_expect_not(slow_times_parse(wrong[i], 100, over), "'%s'", wrong[i]);
        cr_expect_not(slow_times_valid(wrong[i]));
    }
    cr_expect_eq(over[OPERATION_KNN], 7);
    cr_expect_eq(over[OPERATION_PING], 0);
}
