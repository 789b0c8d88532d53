#include "client/cli/commands/replacement.h"

#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#include "client/cli/text/progress.h"

void replacement_name(struct replacement *r)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != sizeof number) number = clock_ns();
    *r = (struct replacement){0};
    snprintf(r->hidden, sizeof r->hidden, "~load-%016" PRIx64, number);
}

int replacement_end(struct replacement *r, struct cli *cli, ea_object object, const char *name)
{
    ea_next_write(cli->client, cli_expectation(cli));
    ea_status status = ea_swap(cli->client, object, name, r->hidden, &r->done);
    if (status) return cli_failed(cli, status, name);
    cli->expects = false;
    return CLI_OK;
}
