#include <stdio.h>
#include <stdlib.h>

#include <criterion/criterion.h>

Test(header, is_cxx_clean)
{
    if (system("g++ --version >/dev/null 2>&1")) cr_skip_test("SKIP: no g++ here");
    static const char *const standards[] = {"c++11", "c++14", "c++17", "c++20"};
    for (size_t i = 0; i < sizeof standards / sizeof *standards; i++) {
        char command[200];
        snprintf(command, sizeof command,
                 "g++ -std=%s -Wall -Wextra -pedantic -Werror -I. -fsyntax-only "
                 "tests/unit/client/header.cpp",
                 standards[i]);
        cr_assert_eq(system(command), 0, "run from the repository's root");
    }
}

Test(header, is_c11_clean)
{
    static const char *const topics[] = {"",        "_codes",   "_graph",  "_hrr",
                                         "_recall", "_reports", "_vectors"};
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++) { /* whichever comes first */
        char command[250];
        snprintf(command, sizeof command,
                 "printf '#include \"client/engram_accel%s.h\"\n%s' | "
                 "${CC:-cc} -std=c11 -Wall -Wextra -pedantic -Werror -I. -fsyntax-only -x c -",
                 topics[i], i == 1 ? "ea_detail d;" : "ea_spread_options o;ea_options p;");
        cr_assert_eq(system(command), 0, "run from the repository's root");
    }
}
