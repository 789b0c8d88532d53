#include "tests/support/cancels.h"

#include <stdlib.h>

#include "tests/support/client_expect.h"

struct cancels {
    unsigned ended, cancelled;
};

static void count(ea_client *c, const ea_answer *answer, void *user)
{
    struct cancels *s = user;
    (void)c;
    s->ended++;
    s->cancelled += answer->status == EA_CANCELLED;
    cr_assert(answer->status == EA_CANCELLED || answer->status == EA_OK);
}

void cancels_expect(ea_client *c, unsigned times, cancels_send *send)
{
    struct cancels s = {0};
    unsigned seed = 3;
    for (unsigned i = 0; i < times; i++) {
        uint64_t id;
        OK(send(c, i, &(ea_send_options){.callback = count, .user = &s}, &id));
        for (unsigned turns = (unsigned)rand_r(&seed) % 40; turns && ea_pending(c); turns--)
            OK(ea_pump(c, 1 + rand_r(&seed) % 400));
        if (ea_pending(c)) (void)ea_cancel(c, id);
        while (ea_pending(c))
            OK(ea_pump(c, -1));
        cr_assert_eq(s.ended, i + 1);
    }
    cr_assert(s.cancelled, "some were under way");
}
