/* gpu_engine: completions by an attractor for the GPU process's server, and their answers by the
 * scalar tables.
 * Owner:  the test; engine_make and engine_free pair.
 * Thread: one.
 * Errors: fail the test; engine_right says false. */
#ifndef ENGRAM_TESTS_GPU_ENGINE_H
#define ENGRAM_TESTS_GPU_ENGINE_H

#include "kernels/attractor.h"
#include "tests/support/gpu_ask.h"

/* An attractor as it is at one version. */
struct ask_engine {
    uint32_t space, dimension;
    uint64_t replica, version;
    size_t stride;
    float *matrix; /* W's columns, then the dentate matrix's rows, padded */
};

struct ask_engine engine_make(uint32_t space, uint64_t replica, uint64_t version,
                              uint32_t dimension);
void engine_free(struct ask_engine *e);
/* Other weights: random ones. */
void engine_change(struct ask_engine *e, uint64_t version, uint64_t seed);

/* Rows first .. first + count of its matrix, laid into the heap. */
struct order engine_upload(struct gpu_peer *p, const struct ask_engine *e, bool fresh,
                           uint64_t first, uint64_t count);
/* Random cues, of which half the numbers are known if `masked`, each by a line of its own if there
 * are several; stored: where the nearest rows are, or NULL. */
struct order engine_ask(struct gpu_peer *p, const struct ask_engine *e,
                        const struct ask_rows *stored, uint64_t cues, bool masked, uint64_t seed);
/* What an answered one left in the heap is right, to the bit. */
bool engine_right(struct gpu_peer *p, const struct order *o, const struct ask_engine *e,
                  const struct ask_rows *stored);

#endif
