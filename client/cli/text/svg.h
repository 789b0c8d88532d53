/* svg: a picture of the nodes that a spread touched, which a browser shows as it is.
 * Owner:  nobody; the caller frees the text.
 * Thread: any.
 * Errors: NULL: no memory.
 *
 * Seeds stand in the middle, nodes of depth 1, 2 ... on rings around them, near to those that they
 * are connected with; the larger and redder a node, the more active it is. */
#ifndef ENGRAM_CLI_TEXT_SVG_H
#define ENGRAM_CLI_TEXT_SVG_H

#include "client/cli/text/dot.h"

/* Draws what dot_draw gathered; names may be NULL. */
char *svg_draw(const struct dot *dot, const char *title, const struct names *names, size_t *bytes);

#endif
