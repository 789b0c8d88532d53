#include <stdio.h>
#include <stdlib.h>

#include <criterion/criterion.h>

Test(header, is_cxx_clean)
{
    if (system("g++ --version >/dev/null 2>&1")) cr_skip_test("SKIP: no g++ here");
    cr_assert_eq(system("g++ -std=c++11 -Wall -Wextra -pedantic -Werror -I. -fsyntax-only "
                        "tests/unit/client/header.cpp"),
                 0, "run from the repository's root");
}

Test(header, is_c11_clean)
{
    for (int graph = 0; graph < 2; graph++) { /* whichever comes first brings the other */
        char command[200];
        snprintf(
            command, sizeof command,
            "printf '#include \"client/engram_accel%s.h\"\nea_spread_options o;ea_options p;' | "
            "${CC:-cc} -std=c11 -Wall -Wextra -pedantic -Werror -I. -fsyntax-only -x c -",
            graph ? "_graph" : "");
        cr_assert_eq(system(command), 0, "run from the repository's root");
    }
}
