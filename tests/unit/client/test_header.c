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
    cr_assert_eq(system("echo '#include \"client/engram_accel.h\"' | "
                        "${CC:-cc} -std=c11 -Wall -Wextra -pedantic -Werror -I. -fsyntax-only "
                        "-x c -"),
                 0, "run from the repository's root");
}
