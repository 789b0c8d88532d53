/* What an order is given before its process counts as hanging. */
#include <criterion/criterion.h>

#include "daemon/cards/cards_inside.h"

TestSuite(order_estimate);

static const struct order_spread how = {.nodes = 1000000, .edges = 8000000, .hops = 4};

/* A recall spreads from each of its lists: each is given what a spread of one set is. */
Test(order_estimate, recall_counts_its_spreads)
{
    static struct job spread, recall;
    spread.gpu.order = (struct order){.kind = ORDER_SPREAD, .spread = how};
    spread.gpu.order.spread.set_count = 1000;
    recall.gpu.order.kind = ORDER_RUN;
    recall.gpu.order.run = order_run_of(RUN_RECALL);
    recall.gpu.order.run.list_count = 1000;
    uint64_t searched = order_estimate_ns(&recall);
    recall.gpu.spread = &how;
    cr_assert_geq(order_estimate_ns(&spread), UINT64_C(1000) * how.hops * how.edges);
    cr_assert_geq(order_estimate_ns(&recall), searched + order_estimate_ns(&spread));
}
