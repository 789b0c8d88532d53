/* spread_rule: the options of a spread that need more than a number, as both spread and recall
 * take them.
 * Owner:  the caller's structs, to which the options point.
 * Thread: the main thread.
 * Errors: argp_error, which ends the process, naming the option. */
#ifndef ENGRAM_CLI_COMMANDS_SPREAD_RULE_H
#define ENGRAM_CLI_COMMANDS_SPREAD_RULE_H

#include "client/cli/cli.h"
#include "client/cli/text/decay.h"

void spread_rule_decay(struct argp_state *state, const char *text, struct decay *decay,
                       ea_spread_options *o);
/* t: three numbers. Returns how many there are. */
uint32_t spread_rule_thresholds(struct argp_state *state, const char *option, const char *text,
                                float *t, ea_spread_options *o);
/* Once all options are known: a table says how many hops there are. */
void spread_rule_table(struct argp_state *state, const struct decay *decay, ea_spread_options *o);

#endif
