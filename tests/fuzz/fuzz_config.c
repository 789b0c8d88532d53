/* fuzz_config: no text makes the reader crash, leak, or change a setting that it refuses. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was accepted keeps the rules, whoever the space is. */
static void check_spaces(const struct config *c)
{
    if (c->space_count > CONFIG_SPACES_MAX) abort();
    for (uint32_t i = 0; i < c->space_count; i++) {
        const char *name = c->spaces[i].name;
        size_t bytes = strnlen(name, sizeof c->spaces[i].name);
        if (bytes < 3 || bytes > CONFIG_SPACE_NAME_MAX) abort();
        struct space_quotas q = config_quotas(c, name);
        if (q.weight < 1 || q.weight > 1000 || q.queue < 1 || q.queue > 1 << 20) abort();
        if (q.host_mib > 1 << 30 || q.vram_mib > 1 << 24 || q.connections > 65536) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config c, before;
    struct failure f = {0};
    config_defaults(&c);
    before = c;
    enum status st = config_read_text(&c, (const char *)data, size, "fuzz", &f);
    if (st && (f.code != st || memcmp(&c, &before, sizeof c) != 0 || !f.text[0])) abort();
    if (!st && !c.socket_path[0] && !c.tcp_enabled) abort();
    check_spaces(&c);

    /* The same bytes as an assignment. */
    char *assignment = malloc(size + 1);
    if (!assignment) return 0;
    if (size) memcpy(assignment, data, size);
    assignment[size] = 0;
    before = c;
    st = config_set(&c, assignment, &f);
    if (st && memcmp(&c, &before, sizeof c) != 0) abort();
    check_spaces(&c);
    free(assignment);
    return 0;
}
