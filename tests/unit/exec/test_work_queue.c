/* Which job CPU workers take next, from what each has had. */
#include "daemon/exec/work_queue.h"

#include <criterion/criterion.h>
#include <string.h>

#define MS(n) (UINT64_C(1000000) * (n))

static struct job jobs[8];
static struct work_queue queue;

static void begin(int count)
{
    memset(jobs, 0, sizeof jobs);
    queue = (struct work_queue){0};
    for (int i = 0; i < count; i++)
        work_queue_add(&queue, &jobs[i]);
}

static int chosen(void)
{
    struct job *j = work_queue_choose(&queue);
    return j ? (int)(j - jobs) : -1;
}

/* Who interrupts jobs [0, count), the last of which has had that much. */
static int interrupts(int count, uint64_t worked_ns)
{
    struct job *others[8];
    for (int i = 0; i < count; i++)
        others[i] = &jobs[i];
    struct job *j =
        work_queue_choose_shorter(&queue, work_queue_level(worked_ns), others, (unsigned)count);
    return j ? (int)(j - jobs) : -1;
}

Test(work_queue, levels_double)
{
    cr_assert_eq(work_queue_level(0), 0);
    cr_assert_eq(work_queue_level(MS(2)), 0);
    cr_assert_eq(work_queue_level(MS(3)), 1);
    cr_assert_eq(work_queue_level(MS(5)), 2);
    cr_assert_eq(work_queue_level(MS(10)), 3);
    cr_assert_eq(work_queue_level(UINT64_MAX), 43);
}

Test(work_queue, is_first_in_first_out_for_equals)
{
    begin(3);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(chosen(), i);
        jobs[i].worked_ns = MS(1);
        cr_assert_eq(chosen(), i, "1 ms more makes no difference");
        work_queue_remove(&queue, &jobs[i]);
    }
    cr_assert_eq(chosen(), -1);
    cr_assert_null(queue.tail);
}

Test(work_queue, whoever_had_least_passes)
{
    begin(3);
    jobs[0].worked_ns = MS(100);
    jobs[1].worked_ns = MS(20);
    cr_assert_eq(chosen(), 2);
    work_queue_remove(&queue, &jobs[2]);
    cr_assert_eq(chosen(), 1);
    jobs[1].worked_ns = MS(130);
    cr_assert_eq(chosen(), 0, "of one level, the older");
}

Test(work_queue, a_job_that_comes_back_keeps_its_place)
{
    begin(4);
    work_queue_remove(&queue, &jobs[1]);
    work_queue_remove(&queue, &jobs[0]);
    work_queue_add_again(&queue, &jobs[1]);
    cr_assert_eq(chosen(), 1);
    work_queue_add_again(&queue, &jobs[0]);
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(chosen(), i);
        work_queue_remove(&queue, &jobs[i]);
    }
}

Test(work_queue, the_oldest_has_a_quarter_whatever_comes)
{
    begin(2);
    jobs[0].worked_ns = MS(500);
    uint64_t oldest_ns = 0, others_ns = 0;
    for (int i = 0; i < 4000; i++) {
        bool oldest = chosen() == 0; /* the other is another fresh job each time */
        work_queue_spent(&queue, &jobs[oldest ? 0 : 1], MS(1));
        *(oldest ? &oldest_ns : &others_ns) += MS(1);
    }
    cr_assert(oldest_ns >= MS(995) && oldest_ns <= MS(1005), "%llu", (unsigned long long)oldest_ns);
    work_queue_remove(&queue, &jobs[0]);
    cr_assert_eq(queue.others_ns, 0, "the next oldest starts anew");
}

Test(work_queue, only_less_may_interrupt)
{
    begin(4);
    jobs[0].worked_ns = MS(50);
    jobs[1].worked_ns = MS(30);
    jobs[2].worked_ns = MS(3);
    cr_assert_eq(interrupts(1, MS(50)), 3);
    jobs[3].plan.part_ns = MS(20);
    cr_assert_eq(interrupts(1, MS(50)), 2, "a long part could not be interrupted by its victim");
    cr_assert_eq(interrupts(3, MS(50)), 3, "its victim had more");
    jobs[3].plan.part_ns = UINT64_MAX;
    cr_assert_eq(interrupts(3, MS(3)), -1);
    cr_assert_eq(interrupts(1, MS(3)), -1, "of the same level");
    cr_assert_eq(interrupts(3, MS(50)), -1, "not those that are interrupted themselves");
    cr_assert_eq(interrupts(1, 0), -1);
}
