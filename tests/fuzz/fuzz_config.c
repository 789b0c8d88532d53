/* fuzz_config: no text makes the reader crash, leak, or change a setting that it refuses. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config c, before;
    struct failure f = {0};
    config_defaults(&c);
    before = c;
    enum status st = config_read_text(&c, (const char *)data, size, "fuzz", &f);
    if (st && (f.code != st || memcmp(&c, &before, sizeof c) != 0 || !f.text[0])) abort();
    if (!st && !c.socket_path[0] && !c.tcp_enabled) abort();

    /* The same bytes as an assignment. */
    char *assignment = malloc(size + 1);
    if (!assignment) return 0;
    if (size) memcpy(assignment, data, size);
    assignment[size] = 0;
    before = c;
    st = config_set(&c, assignment, &f);
    if (st && memcmp(&c, &before, sizeof c) != 0) abort();
    free(assignment);
    return 0;
}
