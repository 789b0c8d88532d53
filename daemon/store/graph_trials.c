/* graph_trials: whether spreads of a kind are worth a trial on the loop. */
#include "daemon/store/graph_inside.h"

bool graph_wants_trial(const struct graph_edition *e, uint32_t trial)
{
    struct graph_trial *t = &e->of->trials[trial];
    if (!t->left) return true;
    t->left--;
    return false;
}

void graph_note_trial(const struct graph_edition *e, uint32_t trial, bool failed)
{
    struct graph_trial *t = &e->of->trials[trial];
    t->skip = !failed ? 0 : t->skip < UINT8_MAX / 2 ? (uint8_t)(2 * t->skip + 1) : UINT8_MAX;
    t->left = t->skip;
}
