/* How long a connection over HTTP may take. */
#include "daemon/http/places.h"

#include <sys/socket.h>
#include <unistd.h>

#include <criterion/criterion.h>

static bool is_open(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) < 0; /* nothing yet; 0: its end */
}

Test(places, who_leaves_in_the_middle_of_a_request_keeps_no_place)
{
    struct http_places p;
    int pair[2];
    char byte;
    places_init(&p, 1000, 100);
    for (int asked = 0; asked < 2; asked++) {
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        struct http_place *mine = places_take(&p, pair[0], 5000);
        mine->asked = asked;
        places_sweep(&p, 5001);
        cr_assert(!mine->cut && is_open(pair[1]));
        cr_assert_eq(write(pair[1], "G", 1), 1);
        cr_assert_eq(shutdown(pair[1], SHUT_WR), 0);
        places_sweep(&p, 5002);
        cr_assert(!mine->cut, "its last byte is not read yet");
        cr_assert_eq(read(pair[0], &byte, 1), 1);
        places_sweep(&p, 5003);
        cr_assert_eq(mine->cut, !asked, "who has asked may be waiting for the answer");
        places_give(&p, mine);
        close(pair[0]);
        close(pair[1]);
    }
    cr_assert_eq(p.cut_total, 0, "its time was not over");
}

Test(places, time_is_bounded_and_shorter_in_a_crowd)
{
    struct http_places p;
    struct http_place *mine[PLACES];
    int pairs[PLACES][2];
    places_init(&p, 1000, 100);
    for (int i = 0; i < PLACES; i++) {
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]), 0);
        mine[i] = places_take(&p, pairs[i][0], 5000 + (uint64_t)i);
        cr_assert(mine[i]);
        if (i + 1 == PLACES) break;
        places_sweep(&p, 5000 + 500); /* there are places left: all have 1000 */
        cr_assert(is_open(pairs[0][1]));
    }
    cr_assert(!places_take(&p, 77, 5000));
    places_sweep(&p, 5000 + 99);
    cr_assert(is_open(pairs[0][1]) && p.cut_total == 0);
    places_sweep(&p, 5000 + 100);
    cr_assert(!is_open(pairs[0][1]) && is_open(pairs[1][1]) && p.cut_total == 1);
    places_sweep(&p, 5000 + 100);
    cr_assert_eq(p.cut_total, 1, "one is cut once");
    places_give(&p, mine[0]);
    places_sweep(&p, 5000 + 999); /* no crowd any more */
    cr_assert(is_open(pairs[1][1]));
    places_sweep(&p, 5000 + 1001);
    cr_assert(!is_open(pairs[1][1]) && is_open(pairs[2][1]));
    cr_assert(places_take(&p, pairs[0][0], 6002) == mine[0] && !mine[0]->cut);
    cr_assert_eq(p.taken_total, PLACES + 1);
    for (int i = 0; i < PLACES; i++) {
        close(pairs[i][0]);
        close(pairs[i][1]);
    }
}
