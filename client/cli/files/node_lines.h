/* node_lines: kinds and factors of nodes, from a file of lines ID KIND [FACTOR], read as a whole.
 * Owner:  the caller keeps the struct; node_lines_free.
 * Thread: one at a time.
 * Errors: false, and error is one line that names the file and the line; an id given twice is an
 *         error.
 *
 * KIND is plain, episode or concept, FACTOR a number from 0 to 65,536; '-' leaves either
 * unchanged. */
#ifndef ENGRAM_CLI_FILES_NODE_LINES_H
#define ENGRAM_CLI_FILES_NODE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a line sets: nothing (the node is only made), a kind, a factor, both. */
enum node_gives { GIVES_ID, GIVES_KIND, GIVES_FACTOR, GIVES_BOTH, NODE_GIVES };

struct node_line {
    uint64_t id, line;
    float factor;
    uint8_t kind; /* ea_node_kind */
    uint8_t gives;
};

struct node_lines {
    struct node_line *list; /* sorted by what they set, then by id */
    size_t count, room;
    char error[400];
};

bool node_lines_read(struct node_lines *lines, const char *path);
void node_lines_free(struct node_lines *lines);

const char *node_kind_name(uint8_t kind); /* "concept" */

#endif
