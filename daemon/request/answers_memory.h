/* answers_memory: what the loop answers by itself about memory.
 * Owner:  the pipeline.
 * Thread: the loop.
 * Errors: 0, and j's failure. */
#ifndef ENGRAM_REQUEST_ANSWERS_MEMORY_H
#define ENGRAM_REQUEST_ANSWERS_MEMORY_H

#include "daemon/report/sources.h"
#include "daemon/request/pipeline_inside.h"

/* Write the reply to Memory or MemoryHistory, and return its bytes. */
size_t answer_memory(const struct pipeline *p, const struct report_sources *from, struct job *j,
                     void *at);
size_t answer_memory_history(const struct pipeline *p, const struct report_sources *from,
                             const struct job *j, void *at);

#endif
