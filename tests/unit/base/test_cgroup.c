/* Limits of control groups, in folders that look like a system's. */
#include "daemon/base/cgroup.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FILES = 6 };
#define MIB   (UINT64_C(1) << 20)
#define NONE  UINT64_MAX
#define V2    "sys/fs/cgroup/"
#define V1    "sys/fs/cgroup/memory/"
#define LIMIT "/memory.limit_in_bytes"

struct machine {
    const char *says; /* /proc/self/cgroup; NULL: there is no /proc */
    struct {
        const char *path, *text;
    } files[FILES];
    uint64_t limit;
};

static const struct machine machines[] = {
    {NULL, {{V2 "memory.max", "1048576\n"}}, NONE},
    {"", {{NULL}}, NONE},
    {"0::/\n", {{NULL}}, NONE},
    {"0::/\n", {{V2 "memory.max", "536870912\n"}}, 512 * MIB}, /* in a container */
    {"0::/\n", {{V2 "memory.max", "max\n"}}, NONE},
    {"0::/a/b\n", {{V2 "a/b/memory.max", "max\n"}, {V2 "a/memory.max", "2097152\n"}}, 2 * MIB},
    {"0::/a/b\n", {{V2 "a/b/memory.max", "1048576\n"}, {V2 "a/memory.max", "2097152\n"}}, MIB},
    {"0::/a/b\n", {{V2 "a/b/memory.max", "4194304\n"}, {V2 "a/memory.max", "2097152\n"}}, 2 * MIB},
    {"0::/a\n", {{V2 "a/memory.max", "4194304\n"}, {V2 "a/memory.high", "3145728\n"}}, 3 * MIB},
    {"0::/not/here\n", {{V2 "memory.max", "1048576\n"}}, MIB},
    {"0::/../else\n", {{V2 "memory.max", "1048576\n"}, {"sys/fs/memory.max", "1\n"}}, MIB},
    {"4:memory:/a\n", {{V1 "a" LIMIT, "1048576\n"}, {V1 LIMIT, "9223372036854771712\n"}}, MIB},
    {"4:cpu,memory:/a\n", {{V1 "a" LIMIT, "9223372036854771712\n"}}, NONE},
    {"4:memoryless:/a\n", {{V1 "a" LIMIT, "1048576\n"}}, NONE},
    {"4:cpu:/a\n0::/b\n", {{V1 "a" LIMIT, "1\n"}, {V2 "b/memory.max", "1048576\n"}}, MIB},
    {"4:memory:/a\n0::/b\n", {{V1 "a" LIMIT, "1048576"}, {V2 "b/memory.max", "2097152\n"}}, MIB},
    {"0::/a\n", {{V2 "a/memory.max", "-1\n"}}, NONE},
    {"0::/a\n", {{V2 "a/memory.max", "12x\n"}}, NONE},
    {"0::/a\n", {{V2 "a/memory.max", ""}}, NONE},
    {"0::/a\n", {{V2 "a/memory.max", "99999999999999999999\n"}}, NONE},
    {"nonsense\n:\n::\n0:\n0::\n0::a\n\n", {{V2 "memory.max", "1048576\n"}}, NONE},
};

/* Makes a file below root, and the folders above it. */
static void write_below(const char *root, const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", root, path);
    for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        mkdir(whole, 0700);
        *at = '/';
    }
    FILE *f = fopen(whole, "w");
    cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0, "%s", whole);
}

Test(cgroup, the_least_limit_counts)
{
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        const struct machine *m = &machines[i];
        char root[] = "/tmp/engram-cgroup-XXXXXX", command[64];
        cr_assert(mkdtemp(root));
        if (m->says) write_below(root, "proc/self/cgroup", m->says);
        for (int f = 0; f < FILES && m->files[f].path; f++)
            write_below(root, m->files[f].path, m->files[f].text);
        cr_expect_eq(cgroup_memory_max(root), m->limit, "%zu: %llu of %s", i,
                     (unsigned long long)cgroup_memory_max(root), m->says);
        snprintf(command, sizeof command, "rm -rf %s", root);
        cr_assert_eq(system(command), 0); /* NOLINT(cert-env33-c) */
    }
}

Test(cgroup, this_machine_has_more_than_nothing)
{
    cr_assert_gt(cgroup_memory_max(""), MIB);
}
