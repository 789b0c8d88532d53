/* json: writes JSON as it goes, so that output of any length needs no memory. (cJSON, which the
 * daemon reads its config with, keeps numbers as doubles, which would round a u64 id.)
 * Owner:  the caller's struct.
 * Thread: one at a time.
 * Errors: those of the stream; look at ferror. Keys and nesting are the caller's care (asserted).
 *
 * A key of NULL is for elements of an array and for the outermost value. */
#ifndef ENGRAM_CLI_TEXT_JSON_H
#define ENGRAM_CLI_TEXT_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_DEPTH_MAX 8

struct json {
    FILE *out;
    unsigned depth;
    bool filled[JSON_DEPTH_MAX];
    char closing[JSON_DEPTH_MAX];
};

void json_init(struct json *j, FILE *out);
void json_object(struct json *j, const char *key);
void json_array(struct json *j, const char *key);
/* Closes the innermost object or array; the outermost also ends the line. */
void json_end(struct json *j);

/* Bytes that are not UTF-8 become U+FFFD. NULL text becomes null. */
void json_string(struct json *j, const char *key, const char *text);
void json_u64(struct json *j, const char *key, uint64_t value);
/* An id: a number, or text after json_ids_are_strings. */
void json_id(struct json *j, const char *key, uint64_t id);
void json_ids_are_strings(void);
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);
/* Prints with %.9g, which reads back as the same float32. Not finite: null. */
void json_float(struct json *j, const char *key, float value);
/* Prints with %.17g, the same for float64. */
void json_double(struct json *j, const char *key, double value);

#endif
