/* The same as test_gpu_faults.c, for calls that take long or never return. */
#include <criterion/criterion.h>

#include "tests/support/gpu_scene.h"
#include "tests/support/gpu_trials.h"

Test(gpu_faults_late, slow, .timeout = 7200)
{
    trials_fail_all("slow", 100);
}

Test(gpu_faults_late, hang, .timeout = 7200)
{
    trials_fail_all("hang", 100);
}
