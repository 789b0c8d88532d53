/* fields: a text file of lines with fields separated by tabs or spaces.
 * Owner:  the caller keeps the struct; fields_close frees what it holds.
 * Thread: one at a time per struct.
 * Errors: false, and error is one line that names the file and the line.
 *
 * Lines end in LF or CRLF. Empty lines, and lines that begin with the comment character, are
 * skipped. A field has no spaces in it, and a line at most FIELDS_LINE_MAX bytes; comments may be
 * longer. */
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
    /* number of the last line; bytes read so far; bytes of the file, 0: unknown */
    uint64_t line, bytes, size;
    unsigned count;
    char *at[FIELDS_MAX]; /* of the last line */
    char text[FIELDS_LINE_MAX + 2];
    char error[400];
};

bool fields_open(struct fields *f, const char *path, char comment);
/* The same for a stream, which it closes, also when it fails. */
bool fields_open_stream(struct fields *f, FILE *stream, const char *name, char comment);
/* Reads the next line that has fields: sets count and at. count 0: the end. */
bool fields_next(struct fields *f);
/* Reads the next line as it is, even a comment: count is 0, also at the end. */
bool fields_head(struct fields *f);
/* Writes "edges.tsv: line 7: ..." to error and returns false. Before the first line, the number is
 * left out. */
bool fields_fail(struct fields *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Parses field i as a node's id (2^64 - 1 is not an id), or as a number within float32. */
bool fields_id(struct fields *f, unsigned i, const char *what, uint64_t *out);
bool fields_number(struct fields *f, unsigned i, const char *what, float *out);
/* NULL stream is fine. */
void fields_close(struct fields *f);

#endif
