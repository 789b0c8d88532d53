/* The client's numbers and names are the daemon's. */
#include <criterion/criterion.h>
#include <string.h>

#include "client/engram_accel.h"
#include "daemon/base/status.h"
#include "kernels/vectors.h"
#include "proto/engram_accel.pb.h"

Test(codes, details_are_the_daemons)
{
    for (uint32_t i = 0; i < 256; i++) {
        bool named = strcmp(ea_detail_name(i), "?") != 0;
        cr_assert_str_eq(ea_detail_name(i), detail_name((enum detail)i));
        cr_assert(named == (ea_detail_text(i)[0] > '?'), "%u: a name without a text", i);
        cr_assert(named || i > EA_DETAIL_NO_INVERSE, "%u has no name", i);
    }
    cr_assert_str_eq(ea_detail_text(UINT32_MAX), "?");
}

Test(codes, the_largest_dimension_is_the_kernels)
{
    cr_assert_eq(EA_DIMENSION_MAX, VECTOR_DIMENSION_MAX);
}

Test(codes, statuses_are_the_daemons)
{
    for (int i = 0; i <= EA_UNAUTHENTICATED; i++)
        cr_assert_str_eq(ea_status_name((ea_status)i), status_name((enum status)i));
    cr_assert_str_eq(ea_status_name((ea_status)(EA_UNAUTHENTICATED + 1)), "?");
}

Test(codes, reasons_are_the_wires)
{
    cr_assert_eq((int)EA_REASON_SHADOW_ONLY, (int)_engram_accel_v1_Reason_MAX);
    for (uint32_t i = 0; i <= EA_REASON_SHADOW_ONLY; i++)
        cr_assert(ea_reason_name(i)[0] != '?' && ea_reason_text(i)[0] != '?');
    cr_assert_str_eq(ea_reason_name(EA_REASON_PROBE), "probe");
    cr_assert_str_eq(ea_reason_name(EA_REASON_SHADOW_ONLY), "shadow_only");
    cr_assert_str_eq(ea_reason_name(EA_REASON_SHADOW_ONLY + 1), "?");
}
