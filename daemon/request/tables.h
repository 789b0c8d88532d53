/* tables: what an attractor begins with: its first weights, and the dentate matrix of its dimension
 * where the space has none yet. Workers make them, in parts, and meanwhile the attractor is closed:
 * the job that makes them is its first writer, for whom all others wait in line.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: tables_make: false, and nothing has changed. */
#ifndef ENGRAM_REQUEST_TABLES_H
#define ENGRAM_REQUEST_TABLES_H

#include "daemon/request/pipeline_inside.h"

struct attractor;

/* Begins with an attractor that was just created. False: all jobs are in use. */
bool tables_make(struct pipeline *p, struct attractor *a);

#endif
