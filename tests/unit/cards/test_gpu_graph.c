/* Graphs on the GPU's road: their replicas, page by page. */
#include "tests/unit/cards/gpu_graph_house.h"

Test(gpu_graph, goes_as_a_whole_and_then_page_by_page)
{
    struct house h;
    open_with_graph(&h);
    cr_assert(replica_wants_upload(h.gpu, it()) && !replica_is_ready(h.gpu, it()));
    cr_assert_eq(replica_upload_bytes(h.gpu, it()), resident_bytes(it()));
    struct told t = upload_graph(&h, RESULT_OK);
    cr_assert_eq(t.bytes, resident_bytes(it()));
    cr_assert(t.fresh == 1 && t.versions == 1 && t.jobs == 1);
    cr_assert(replica_is_ready(h.gpu, it()));
    cr_assert_eq(replica_info(h.gpu, it()).bytes, 12345, "as the process says");
    cr_assert_eq(replica_info(h.gpu, it()).version, resident_version(it()));
    cr_assert_eq(replicas_space_bytes(h.gpu, h.space), 12345);

    uint64_t replica = t.replica;
    for (uint64_t round = 0; round < 5; round++) {
        add_edges(round * 900, 1);
        uint64_t dirty = resident_dirty_bytes(it());
        cr_assert(replica_is_ready(h.gpu, it()), "a job brings so little on its way");
        cr_assert(dirty && dirty < resident_bytes(it()));
        t = upload_graph(&h, RESULT_OK);
        cr_assert_eq(t.bytes, dirty);
        cr_assert(t.replica == replica && t.fresh == 0 && t.versions == 1);
        cr_assert_eq(resident_dirty_bytes(it()), 0);
    }
    add_edges(NODES, 60000); /* it grows */
    t = upload_graph(&h, RESULT_OK);
    cr_assert(t.replica == replica && t.versions == 1);
    close_house(&h);
}

Test(gpu_graph, a_part_that_fails_costs_the_replica)
{
    struct house h;
    open_with_graph(&h);
    struct told t = upload_graph(&h, RESULT_NO_MEMORY);
    cr_assert_eq(t.jobs, 1);
    cr_assert(replica_was_refused(h.gpu, it()) && !replica_is_ready(h.gpu, it()));
    for (int i = 0; i < 30000 && !replica_wants_upload(h.gpu, it()); i++)
        usleep(10000);
    struct told again = upload_graph(&h, RESULT_OK);
    cr_assert(again.replica > t.replica && again.fresh == 1, "under another number, anew");
    cr_assert_eq(again.bytes, resident_bytes(it()));
    replica_forget(h.gpu, it());
    struct order o = next_order(processes[0]);
    cr_assert(o.kind == ORDER_FORGET && o.replica == again.replica);
    answer(processes[0], &o, RESULT_OK, 0);
    cr_assert_eq(replicas_space_bytes(h.gpu, h.space), 0);
    close_house(&h);
}

/* Six parts of 2 MiB each, as they are mapped: there are no kinds and no factors. */
Test(gpu_graph, counts_its_parts_against_the_quota)
{
    struct house h;
    open_with_graph(&h);
    h.space->vram_bytes_max = (UINT64_C(12) << 20) - 1;
    struct job *j = graph_job(&h, OPERATION_UPLOAD);
    cr_assert_eq(h.gpu->ops->submit(h.gpu, j), STATUS_UNAVAILABLE);
    cr_assert_eq(j->gpu.gave_up, REASON_VRAM_PRESSURE);
    drop_job(j);
    cr_assert_eq(next_order(processes[0]).kind, 0);
    h.space->vram_bytes_max++;
    for (int i = 0; i < 30000 && !replica_wants_upload(h.gpu, it()); i++)
        usleep(10000);
    cr_assert_eq(upload_graph(&h, RESULT_OK).versions, 1);
    close_house(&h);
}
