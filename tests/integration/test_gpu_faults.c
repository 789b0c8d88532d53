/* Every call of the device failing, at every place that makes it, in every way: the answers are
 * those of a daemon without a GPU, nobody sees an error, the GPU comes back, nothing leaks.
 * ENGRAM_TEST_LONG=1 fails every single call in turn. */
#include <criterion/criterion.h>

#include "tests/support/gpu_scene.h"
#include "tests/support/gpu_trials.h"

Test(gpu_faults, memory, .timeout = 7200)
{
    trials_fail_all("memory", 8);
}

Test(gpu_faults, error, .timeout = 7200)
{
    trials_fail_all("error", 8);
}

Test(gpu_faults, sticky, .timeout = 7200)
{
    trials_fail_all("sticky", 8);
}

Test(gpu_faults, crash, .timeout = 7200)
{
    trials_fail_all("crash", 8);
}
