/* long_call: a blocking call that may last: on a terminal a line says how far it is, and Ctrl-C
 * cancels it at the daemon and says how far it came.
 * Owner:  the caller's struct.
 * Thread: the main thread.
 * Errors: long_call_end gives the command's exit code. */
#ifndef ENGRAM_CLI_LONG_CALL_H
#define ENGRAM_CLI_LONG_CALL_H

#include "client/cli/cli.h"

struct long_call {
    bool shown;   /* standard error is a terminal */
    bool drawn;   /* a line is on the screen */
    bool told;    /* the daemon has said how far it is: `last` */
    bool stopped; /* by Ctrl-C */
    ea_progress_report last;
    ea_progress_report first; /* of the phase that `last` is of: its rate counts from there */
};

/* Until long_call_end, calls of cli->client are watched. */
void long_call_begin(struct long_call *l, struct cli *cli);
/* To be asked between two calls: a Ctrl-C that came when a call was as good as done has not ended
 * it. Gives CLI_OK or, having said so, CLI_INTERRUPTED. */
int long_call_between(const char *what);
/* Clears the line. status: of the call; `what`: as in cli_failed; `undone`: what a call that was
 * interrupted has not done, "nothing was clustered". */
int long_call_end(struct long_call *l, struct cli *cli, ea_status status, const char *what,
                  const char *undone);

/* Prints what a dry run was told. */
void long_call_predicted(const struct cli *cli, const char *name, const ea_meta *meta,
                         const char *undone);

/* Writes the line, at most `width` columns: "[===>   ]  31 %  pairs 1,550 / 4,999, 129/s  12.3 s,
 * some 27 s left". first: the first report of this phase. */
void long_call_line(char *out, size_t out_bytes, const ea_progress_report *r,
                    const ea_progress_report *first, unsigned width);

#endif
