/* sandbox: lets Criterion's sandbox start under the thread sanitizer. Criterion maps its arena at
 * an address that it draws with rand_r from 0x2000'0000'0000 up; the thread sanitizer allows fixed
 * maps only where programs lie, from 0x5500'0000'0000 to 0x5680'0000'0000, and Criterion gives up
 * ("Could not initialize inheritable arena"; Snaipe/Criterion issue 274). So its draws, and only
 * its own, are moved into that range. */
#if defined(__SANITIZE_THREAD__)

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 0x350000, COUNT = 0x18000 }; /* of 16 MiB steps above 0x2000'0000'0000 */

__attribute__((visibility("default"))) int rand_r(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    unsigned draw = (*seed ^ *seed >> 16) & RAND_MAX;
    Dl_info caller;
    bool criterion = dladdr(__builtin_return_address(0), &caller) && caller.dli_fname &&
                     strstr(caller.dli_fname, "libcriterion");
    return (int)(criterion ? FIRST + draw % COUNT : draw);
}

#else
typedef int nothing_to_do;
#endif
