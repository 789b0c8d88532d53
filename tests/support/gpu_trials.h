/* gpu_trials: the script of gpu_scene.h against devices that fail, call by call. Each call is
 * reached by its name; answers are compared with those of a daemon without a GPU.
 * Owner:  the test.
 * Thread: one.
 * Errors: fail the test. */
#ifndef ENGRAM_TESTS_GPU_TRIALS_H
#define ENGRAM_TESTS_GPU_TRIALS_H

#include <stdint.h>

/* One failure in all, of that kind (sim_settings.h): every call's first, and by strides up to its
 * ninth; with ENGRAM_TEST_LONG every single one. The GPU comes back, and nothing stays behind. */
void trials_fail_all(const char *kind, uint64_t stride);
/* From each call's nth on, for ever. Whether the GPU ever answers is another matter; but nothing
 * takes long for it. */
void trials_fail_onward(const char *kind, uint64_t nth);

#endif
