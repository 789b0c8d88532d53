/* table: aligned columns for people.
 * Owner:  table_create to table_destroy.
 * Thread: one at a time.
 * Errors: NULL, or a table that prints less, if there is no memory. */
#ifndef ENGRAM_CLI_TEXT_TABLE_H
#define ENGRAM_CLI_TEXT_TABLE_H

#include <stdbool.h>
#include <stdio.h>

struct table;

/* heads: up to 12 names, NULL ends them; one that begins with '>' is right-aligned. */
struct table *table_create(const char *const *heads);
void table_destroy(struct table *t);
/* Adds the next cell, from left to right, row by row. Control characters become '?'. */
void table_cell(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
size_t table_rows(const struct table *t);
/* Prints header and rows, the header in bold if `bold`. Removes the rows, so that the table can be
 * filled again. width: of the terminal, to which texts are cut; where that is not enough, columns
 * that do not fit follow below, each time behind the first one. 0: any width will do. */
void table_print(struct table *t, FILE *out, int bold, size_t width);
/* The same as comma separated values, the header if `head`; first, if not NULL, is the name of a
 * column before all others, whose value is the same in each row. */
void table_print_csv(struct table *t, FILE *out, const char *first, const char *value, bool head);
/* Returns the columns that a terminal would use: wide characters two, combining ones none. */
size_t table_width(const char *text);

#endif
