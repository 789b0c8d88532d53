/* fields: a text file of lines whose fields stand between tabs or spaces.
 * Owner:  the caller keeps the struct; fields_close frees what it holds.
 * Thread: one at a time per struct.
 * Errors: false, and error is one line that names the file and the line.
 *
 * Lines end in LF or CRLF. Empty lines, and lines that begin with the comment's character, are passed
 * over. A field has no spaces in it and a line at most FIELDS_LINE_MAX bytes; comments may be longer. */
#ifndef ENGRAM_CLI_TEXT_FIELDS_H
#define ENGRAM_CLI_TEXT_FIELDS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define FIELDS_LINE_MAX 1024u
#define FIELDS_MAX      5u

struct fields {
    FILE *stream;
    char *name;
    char comment;
    uint64_t line, bytes, size; /* number of the last line; read so far; in the file, 0: unknown */
    unsigned count;
    char *at[FIELDS_MAX]; /* of the last line */
    char text[FIELDS_LINE_MAX + 2];
    char error[400];
};

bool fields_open(struct fields *f, const char *path, char comment);
/* The same over a stream, which it takes, also when it fails. */
bool fields_open_stream(struct fields *f, FILE *stream, const char *name, char comment);
/* The next line that has any: count and at. count 0 is the end. */
bool fields_next(struct fields *f);
/* The next line as it is, whatever it begins with: count is 0, also at the end. */
bool fields_head(struct fields *f);
/* "edges.tsv: line 7: ..." into error; false. Without the line before the first, as when empty. */
bool fields_fail(struct fields *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Field i as a node's id (2^64 - 1 is nobody's) or as a number within float32. */
bool fields_id(struct fields *f, unsigned i, const char *what, uint64_t *out);
bool fields_number(struct fields *f, unsigned i, const char *what, float *out);
/* NULL stream is fine. */
void fields_close(struct fields *f);

#endif
