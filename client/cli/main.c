/* engram-accel: the command line tool of engram-acceld. The code is in cli_main, so that tests can
 * link it. */
#include "client/cli/cli.h"

int main(int argc, char **argv)
{
    return cli_main(argc, argv);
}
