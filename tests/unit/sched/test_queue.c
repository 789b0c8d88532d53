/* The queue: first come, first served, and back to the front when there is no memory yet. */
#include "daemon/sched/queue.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static struct job jobs[64];

Test(queue, empty_gives_nothing)
{
    struct queue q = {0};
    cr_assert_null(queue_pop(&q));
    cr_assert_eq(q.depth, 0);
}

Test(queue, keeps_arrival_order)
{
    struct queue q = {0};
    for (int i = 0; i < 64; i++)
        queue_push(&q, &jobs[i]);
    cr_assert_eq(q.depth, 64);
    for (int i = 0; i < 64; i++)
        cr_assert_eq(queue_pop(&q), &jobs[i]);
    cr_assert_null(queue_pop(&q));
    cr_assert_eq(q.depth, 0);
    cr_assert_null(q.head);
    cr_assert_null(q.tail);
}

Test(queue, takes_a_job_back_at_its_front)
{
    struct queue q = {0};
    queue_push_front(&q, &jobs[0]); /* into an empty one: also its tail */
    queue_push(&q, &jobs[1]);
    queue_push(&q, &jobs[2]);
    struct job *first = queue_pop(&q);
    cr_assert_eq(first, &jobs[0]);
    queue_push_front(&q, first);
    cr_assert_eq(q.depth, 3);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(queue_pop(&q), &jobs[i]);
    cr_assert_null(queue_pop(&q));
}

Test(queue, pops_unlinked_jobs)
{
    struct queue q = {0};
    queue_push(&q, &jobs[0]);
    queue_push(&q, &jobs[1]);
    struct job *j = queue_pop(&q);
    cr_assert_null(j->next);
    cr_assert_null(j->previous);
    cr_assert_null(q.head->previous);
}

/* Against a plain array, 20,000 random steps. */
Test(queue, equals_an_array)
{
    struct queue q = {0};
    struct job *model[64];
    size_t count = 0;
    bool inside[64] = {false};
    unsigned seed = 7;
    for (int step = 0; step < 20000; step++) {
        unsigned i = (unsigned)rand_r(&seed) % 64, what = (unsigned)rand_r(&seed) % 4;
        if (what == 2) {
            struct job *j = queue_pop(&q);
            cr_assert_eq(j, count ? model[0] : NULL);
            if (!j) continue;
            inside[j - jobs] = false;
            count--;
            for (size_t k = 0; k < count; k++)
                model[k] = model[k + 1];
        } else if (what == 3) {
            if (!inside[i]) continue;
            queue_remove(&q, &jobs[i]);
            inside[i] = false;
            size_t k = 0;
            while (model[k] != &jobs[i])
                k++;
            for (count--; k < count; k++)
                model[k] = model[k + 1];
        } else if (!inside[i]) {
            inside[i] = true;
            if (what == 0) {
                queue_push(&q, &jobs[i]);
                model[count++] = &jobs[i];
            } else {
                queue_push_front(&q, &jobs[i]);
                for (size_t k = count++; k > 0; k--)
                    model[k] = model[k - 1];
                model[0] = &jobs[i];
            }
        }
        cr_assert_eq(q.depth, count);
    }
}
