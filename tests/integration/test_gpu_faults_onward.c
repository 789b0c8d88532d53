/* Devices on which a call fails for ever, from the first or the second time on. */
#include <criterion/criterion.h>

#include "tests/support/gpu_scene.h"
#include "tests/support/gpu_trials.h"

Test(gpu_faults_onward, that_last, .timeout = 900)
{
    static const char *const kinds[] = {"memory", "error", "sticky", "crash"};
    for (int i = 0; i < 4; i++) {
        trials_fail_onward(kinds[i], 1);
        if (i < 2 || gpu_scene_long()) trials_fail_onward(kinds[i], 2);
    }
}
