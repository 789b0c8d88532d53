/* The share: sealed, zeroed, both sides' rings in it; what another build or another file gets. */
#include "daemon/heap/share.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/fault.h"

static struct share *make(const char *version, int *fd)
{
    struct share *s = NULL;
    cr_assert_eq(share_create(123456, version, fd, &s), STATUS_OK);
    return s;
}

Test(share, is_seen_by_both_sides)
{
    int fd = -1;
    struct share *front = make("1.2.3", &fd), *gpu = NULL;
    struct failure f = {0};
    cr_assert_eq(share_map(fd, "1.2.3", &gpu, &f), STATUS_OK);
    cr_assert_neq((void *)front, (void *)gpu);
    cr_assert_eq(gpu->heap_bytes, 123456);
    cr_assert_eq(atomic_load(&gpu->state), SHARE_STARTING);
    cr_assert_str_eq(front->gpu_version, "1.2.3");
    cr_assert_eq((uintptr_t)front->orders % 64, 0);
    cr_assert_eq((uintptr_t)front->completions % 64, 0);

    int wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct ring to, from, back, home;
    share_orders(front, wake, &to);
    share_orders(gpu, wake, &from);
    share_completions(gpu, wake, &back);
    share_completions(front, wake, &home);
    for (uint64_t i = 0; i < 3 * SHARE_COMPLETIONS; i++) {
        struct order *order = ring_reserve(&to);
        *order = (struct order){.kind = ORDER_RUN, .token = i};
        ring_publish(&to);
        const struct order *got = ring_peek(&from);
        cr_assert(got && got->token == i && got->kind == ORDER_RUN);
        struct completion *completion = ring_reserve(&back);
        *completion = (struct completion){.kind = COMPLETION_DONE, .token = got->token};
        ring_release(&from);
        ring_publish(&back);
        const struct completion *done = ring_peek(&home);
        cr_assert(done && done->token == i);
        ring_release(&home);
    }
    cr_assert_eq(ring_room(&to), SHARE_ORDERS);
    cr_assert_eq(ring_room(&back), SHARE_COMPLETIONS);
    share_unmap(gpu);
    share_unmap(front);
    share_unmap(NULL);
    close(wake);
    close(fd);
}

Test(share, cannot_be_resized)
{
    int fd = -1;
    struct share *s = make("1", &fd);
    cr_assert_eq(ftruncate(fd, 4096), -1);
    cr_assert_eq(ftruncate(fd, 64 << 20), -1);
    cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    share_unmap(s);
    close(fd);
}

/* Executables of two builds refuse each other, and the front learns why. */
Test(share, refuses_another_version)
{
    int fd = -1;
    struct share *front = make("0.1.0", &fd), *gpu = NULL;
    struct failure f = {0};
    cr_assert_eq(share_map(fd, "9.8.7", &gpu, &f), STATUS_FAILED_PRECONDITION);
    cr_assert_null(gpu);
    cr_assert_eq(f.detail, DETAIL_BAD_VERSION);
    static const char text[] =
        "engram-accel-gpu is 9.8.7, engram-acceld 0.1.0: install both from one build";
    cr_assert_str_eq(f.text, text);
    cr_assert_eq(atomic_load(&front->state), SHARE_ABSENT);
    cr_assert_str_eq(front->why, text);
    cr_assert_str_eq(front->gpu_version, "9.8.7");
    share_unmap(front);
    close(fd);
}

/* A version that fills its field, without an end. */
Test(share, reads_no_further_than_the_version)
{
    int fd = -1;
    struct share *front = make("1", &fd), *gpu = NULL;
    struct failure f = {0};
    memset(front->front_version, 'v', sizeof front->front_version);
    cr_assert_eq(share_map(fd, "2", &gpu, &f), STATUS_FAILED_PRECONDITION);
    cr_assert(strlen(f.text) < sizeof f.text);
    share_unmap(front);
    close(fd);
}

/* Another layout of struct share, told by its size. */
Test(share, refuses_another_layout)
{
    int fd = -1;
    struct share *front = make("1", &fd), *gpu = NULL;
    struct failure f = {0};
    front->bytes += 8;
    cr_assert_eq(share_map(fd, "1", &gpu, &f), STATUS_FAILED_PRECONDITION);
    cr_assert_eq(f.detail, DETAIL_BAD_VERSION);
    cr_assert_not_null(strstr(f.text, "not of one build"));
    share_unmap(front);
    close(fd);

    uint64_t words[512] = {SHARE_MAGIC, sizeof *front};
    fd = memfd_create("short", MFD_CLOEXEC);
    cr_assert_eq(write(fd, words, sizeof words), (ssize_t)sizeof words);
    cr_assert_eq(share_map(fd, "1", &gpu, &f), STATUS_FAILED_PRECONDITION);
    cr_assert_null(gpu);
    close(fd);
}

static void expect_by_hand(int fd)
{
    struct share *gpu = NULL;
    struct failure f = {0};
    cr_assert_eq(share_map(fd, "1", &gpu, &f), STATUS_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(f.text, "started by hand"));
    cr_assert_null(gpu);
}

Test(share, knows_when_it_was_started_by_hand)
{
    expect_by_hand(-1);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), ends[2];
    expect_by_hand(null);
    close(null);
    cr_assert_eq(pipe(ends), 0);
    expect_by_hand(ends[0]);
    close(ends[0]), close(ends[1]);
    int other = memfd_create("other", MFD_CLOEXEC);
    cr_assert_eq(ftruncate(other, sizeof(struct share)), 0);
    expect_by_hand(other);
    cr_assert_eq(ftruncate(other, 8), 0);
    expect_by_hand(other);
    close(other);
}

Test(share, creation_may_fail_anywhere)
{
    for (uint32_t nth = 1;; nth++) {
        fault_arm(nth);
        struct share *s = NULL;
        int fd = -1;
        enum status st = share_create(1, "1", &fd, &s);
        bool fired = fault_hits() >= nth;
        fault_arm(0);
        cr_assert(fired ? st == STATUS_RESOURCE_EXHAUSTED && !s && fd == -1 : st == STATUS_OK);
        share_unmap(s);
        if (!fired) {
            close(fd);
            break;
        }
    }
}
