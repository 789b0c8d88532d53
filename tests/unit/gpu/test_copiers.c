/* Threads that copy: each part once, what they wrote is seen, whoever finishes it. */
#include "daemon/gpu/copiers.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/fault.h"

enum { PARTS = 37, PART_BYTES = 4096 };

struct copy {
    char from[PARTS][PART_BYTES], to[PARTS][PART_BYTES];
    unsigned runs[PARTS]; /* not atomic: a part is one thread's */
    uint32_t parts;
};

static void copy_part(void *owner, uint32_t part)
{
    struct copy *c = owner;
    cr_assert(part < c->parts);
    c->runs[part]++;
    memcpy(c->to[part], c->from[part], PART_BYTES);
}

static struct copy_work work_of(struct copy *c, uint32_t parts, int fill)
{
    memset(c, 0, sizeof *c);
    memset(c->from, fill, sizeof c->from);
    c->parts = parts;
    return (struct copy_work){.run = copy_part, .owner = c, .parts = parts};
}

static void expect_copied(const struct copy *c)
{
    for (uint32_t i = 0; i < c->parts; i++) {
        cr_assert_eq(c->runs[i], 1);
        cr_assert_eq(memcmp(c->from[i], c->to[i], PART_BYTES), 0);
    }
}

static void sleep_us(long us)
{
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

/* By polling, by finishing, in quick succession and after they have gone to sleep. */
Test(copiers, run_each_part_once)
{
    struct copy *copy = malloc(sizeof *copy);
    for (uint32_t threads = 0; threads <= 4; threads++) {
        struct copiers *c = NULL;
        cr_assert_eq(copiers_create(threads, &c), STATUS_OK);
        for (int round = 0; round < 300; round++) {
            struct copy_work w = work_of(copy, 1 + (uint32_t)round % PARTS, round % 255 + 1);
            copiers_start(c, &w);
            if (threads == 0 || round % 3 == 0) copiers_finish(c, &w);
            while (!copy_work_done(&w))
                sleep_us(10);
            expect_copied(copy);
            if (round % 50 == 7) sleep_us(2000);
        }
        copiers_destroy(c);
    }
    free(copy);
}

/* Several pieces at once, finished in another order than they were started in. */
Test(copiers, take_many_pieces)
{
    enum { PIECES = 9 };
    struct copy *copies = malloc(PIECES * sizeof *copies);
    struct copiers *c = NULL;
    cr_assert_eq(copiers_create(2, &c), STATUS_OK);
    for (int round = 0; round < 100; round++) {
        struct copy_work works[PIECES];
        for (int i = 0; i < PIECES; i++) {
            works[i] = work_of(&copies[i], 1 + (uint32_t)((round + i * 5) % PARTS), i + 1);
            copiers_start(c, &works[i]);
        }
        for (int i = 0; i < PIECES; i++)
            copiers_finish(c, &works[(i * 4 + round) % PIECES]);
        for (int i = 0; i < PIECES; i++) {
            cr_assert(copy_work_done(&works[i]));
            expect_copied(&copies[i]);
        }
    }
    copiers_destroy(c);
    free(copies);
}

struct gate {
    pthread_t finisher;
    atomic_uint waiting, done;
    atomic_bool open;
};

/* The one that the finisher runs itself lets the others through, which take a while after that. */
static void gated_part(void *owner, uint32_t part)
{
    struct gate *g = owner;
    if (pthread_equal(pthread_self(), g->finisher)) atomic_store(&g->open, true);
    atomic_fetch_add(&g->waiting, 1);
    while (!atomic_load(&g->open))
        sleep_us(100);
    if (!pthread_equal(pthread_self(), g->finisher)) sleep_us(5000);
    atomic_fetch_add(&g->done, 1);
}

Test(copiers, finish_waits_for_parts_that_others_run)
{
    struct gate g = {.finisher = pthread_self()};
    struct copiers *c = NULL;
    cr_assert_eq(copiers_create(3, &c), STATUS_OK);
    struct copy_work w = {.run = gated_part, .owner = &g, .parts = 6};
    copiers_start(c, &w);
    while (atomic_load(&g.waiting) < 3)
        sleep_us(100);
    cr_assert(!copy_work_done(&w));
    copiers_finish(c, &w);
    cr_assert(copy_work_done(&w));
    cr_assert_eq(atomic_load(&g.done), 6);
    copiers_destroy(c);
}

/* "copier N", and not one signal reaches them. */
Test(copiers, are_named_and_deaf)
{
    struct copiers *c = NULL;
    cr_assert_eq(copiers_create(3, &c), STATUS_OK);
    unsigned seen = 0;
    for (int tries = 0; seen != 7 && tries < 200; tries++) {
        seen = 0;
        sleep_us(5000);
        DIR *tasks = opendir("/proc/self/task");
        cr_assert_not_null(tasks);
        for (struct dirent *e; (e = readdir(tasks));) {
            char path[300], line[256];
            unsigned number = 9;
            unsigned long long blocked = 0;
            snprintf(path, sizeof path, "/proc/self/task/%s/status", e->d_name);
            FILE *f = fopen(path, "r");
            while (f && fgets(line, sizeof line, f)) {
                sscanf(line, "Name: copier %u", &number);
                sscanf(line, "SigBlk: %llx", &blocked);
            }
            if (f) fclose(f);
            if (number < 3 && (blocked >> (SIGTERM - 1) & 1) && (blocked >> (SIGUSR1 - 1) & 1))
                seen |= 1u << number;
        }
        closedir(tasks);
    }
    cr_assert_eq(seen, 7);
    sigset_t mine;
    pthread_sigmask(SIG_SETMASK, NULL, &mine);
    cr_assert(!sigismember(&mine, SIGTERM), "the creator's own mask is as it was");
    copiers_destroy(c);
}

Test(copiers, creation_may_fail_anywhere)
{
    for (uint32_t nth = 1;; nth++) {
        fault_arm(nth);
        struct copiers *c = NULL;
        enum status st = copiers_create(3, &c);
        bool fired = fault_hits() >= nth;
        fault_arm(0);
        cr_assert(fired ? st == STATUS_RESOURCE_EXHAUSTED && !c : st == STATUS_OK);
        copiers_destroy(c);
        if (!fired) break;
    }
    copiers_destroy(NULL);
}
