/* How the server's thread gets the loop's counters. */
#include "daemon/http/exchange.h"

#include <pthread.h>
#include <sched.h>

#include <criterion/criterion.h>

#include "daemon/base/fault.h"

#define FOREVER_NS UINT64_C(300000000000)

static struct exchange x;
static atomic_uint wakes, turns;
static atomic_bool over;

static void wake(void *owner)
{
    atomic_fetch_add((atomic_uint *)owner, 1);
}

static void look(void *owner, struct look *out)
{
    out->metrics.frames = atomic_fetch_add(&turns, 1) + 1;
}

static void *turn(void *unused)
{
    while (!atomic_load(&over)) {
        exchange_serve(&x, look, NULL);
        sched_yield();
    }
    return NULL;
}

Test(exchange, each_call_gets_a_copy_made_for_it)
{
    pthread_t loop;
    cr_assert(exchange_init(&x, wake, &wakes));
    cr_assert_eq(pthread_create(&loop, NULL, turn, NULL), 0);
    for (uint64_t i = 1; i <= 1000; i++) {
        const struct look *v = exchange_take(&x, LOOK_METRICS, FOREVER_NS);
        cr_assert(v && v->metrics.frames == i);
    }
    atomic_store(&over, true);
    pthread_join(loop, NULL);
    cr_assert(atomic_load(&turns) == 1000 && atomic_load(&wakes) == 1000);
    exchange_finish(&x);
}

Test(exchange, nobody_waits_twice_for_a_loop_that_stands)
{
    cr_assert(exchange_init(&x, wake, &wakes));
    cr_assert(!exchange_take(&x, LOOK_METRICS, 1));
    cr_assert(!exchange_take(&x, LOOK_METRICS, FOREVER_NS), "it must return at once");
    cr_assert_eq(atomic_load(&wakes), 1);
    exchange_serve(&x, look, NULL); /* late; what it copied is old by now */
    exchange_serve(&x, look, NULL);
    cr_assert_eq(atomic_load(&turns), 1, "nothing was wanted the second time");
    cr_assert(!exchange_take(&x, LOOK_METRICS, 1));
    cr_assert_eq(atomic_load(&wakes), 2);
    exchange_serve(&x, look, NULL);
    cr_assert_eq(atomic_load(&turns), 2);
    exchange_close(&x);
    cr_assert(!exchange_take(&x, LOOK_METRICS, FOREVER_NS));
    exchange_finish(&x);
}

static void note_kind(void *kind, struct look *out)
{
    *(enum look_kind *)kind = out->kind;
}

static void *serve_one(void *kind)
{
    while (!atomic_load(&x.wanted))
        sched_yield();
    exchange_serve(&x, note_kind, kind);
    return NULL;
}

Test(exchange, the_loop_copies_what_is_wanted)
{
    cr_assert(exchange_init(&x, wake, &wakes));
    for (int i = 0; i < 2; i++) {
        enum look_kind wanted = i ? LOOK_SLOW : LOOK_METRICS, seen = i ? LOOK_METRICS : LOOK_SLOW;
        pthread_t loop;
        cr_assert_eq(pthread_create(&loop, NULL, serve_one, &seen), 0);
        cr_assert(exchange_take(&x, wanted, FOREVER_NS));
        pthread_join(loop, NULL);
        cr_assert_eq(seen, wanted);
    }
    exchange_finish(&x);
}

static void *take(void *out)
{
    *(const struct look **)out = exchange_take(&x, LOOK_METRICS, FOREVER_NS);
    return NULL;
}

Test(exchange, close_ends_the_wait)
{
    pthread_t server;
    const struct look *v = (const struct look *)&x;
    cr_assert(exchange_init(&x, wake, &wakes));
    cr_assert_eq(pthread_create(&server, NULL, take, &v), 0);
    while (!atomic_load(&wakes))
        sched_yield();
    exchange_close(&x);
    pthread_join(server, NULL);
    cr_assert_null(v);
    exchange_finish(&x);
}

Test(exchange, no_memory)
{
    fault_arm(1);
    cr_assert(!exchange_init(&x, wake, NULL));
    fault_arm(0);
    exchange_finish(&x);
}
