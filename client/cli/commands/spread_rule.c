#include "client/cli/commands/spread_rule.h"

#include <inttypes.h>

void spread_rule_decay(struct argp_state *state, const char *text, struct decay *decay,
                       ea_spread_options *o)
{
    char error[200];
    if (!decay_parse(text, decay, error, sizeof error)) argp_error(state, "--decay: %s", error);
    o->decay = decay->law;
    o->decay_parameter = decay->parameter;
    if (decay->law == EA_DECAY_TABLE) o->decay_table = decay->table;
}

uint32_t spread_rule_thresholds(struct argp_state *state, const char *option, const char *text,
                                float *t, ea_spread_options *o)
{
    uint32_t count = 0;
    if (!decay_parse_list(text, t, 3, &count))
        argp_error(state, "%s: '%s' is not T or T,WARM,COLD, of numbers from 0 up", option, text);
    o->threshold = t;
    o->threshold_warm = count > 1 ? t + 1 : NULL;
    o->threshold_cold = count > 2 ? t + 2 : NULL;
    return count;
}

void spread_rule_table(struct argp_state *state, const struct decay *decay, ea_spread_options *o)
{
    if (decay->law != EA_DECAY_TABLE) return;
    if (o->hops && o->hops != decay->count)
        argp_error(state, "--decay: the table has %" PRIu32 " factors, --hops says %" PRIu32,
                   decay->count, o->hops);
    o->hops = decay->count;
}
