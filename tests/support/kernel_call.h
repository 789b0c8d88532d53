/* kernel_call: a launch in one expression: ops->launch(d, CALL(.kernel = KERNEL_NORMS, ...),
 * stream).
 * Owner:  the test. Thread: any. Errors: none. */
#ifndef ENGRAM_TESTS_SUPPORT_KERNEL_CALL_H
#define ENGRAM_TESTS_SUPPORT_KERNEL_CALL_H

#include "daemon/gpu/device_call.h"

#define CALL(...) (&(struct device_call){__VA_ARGS__})

#endif
