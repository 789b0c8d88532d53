#include "daemon/base/cgroup.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Version 2 says more than version 1: where to slow a group down, and where to end it. */
static const char *const files_v2[] = {"memory.max", "memory.high", NULL};
static const char *const files_v1[] = {"memory.limit_in_bytes", NULL};

/* "max" and what is as good as no limit are none. */
static uint64_t read_limit(const char *path)
{
    char text[32] = "", *end;
    FILE *f = fopen(path, "re");
    if (!f) return UINT64_MAX;
    bool there = fgets(text, sizeof text, f) && text[0] >= '0' && text[0] <= '9';
    fclose(f);
    if (!there) return UINT64_MAX;
    errno = 0;
    unsigned long long bytes = strtoull(text, &end, 10);
    bool whole = !errno && (*end == '\n' || !*end);
    return whole && bytes < INT64_MAX / 4096 * 4096 ? bytes : UINT64_MAX;
}

/* The least of a group's limits and of those above it, up to where the hierarchy is mounted. A
 * group whose folder is not there, as in a container that sees only its own, has those above. */
static uint64_t least_of(const char *mount, char *group, const char *const *files)
{
    uint64_t least = UINT64_MAX;
    for (;;) {
        for (int i = 0; files[i]; i++) {
            char path[PATH_MAX];
            int n = snprintf(path, sizeof path, "%s%s/%s", mount, group, files[i]);
            uint64_t bytes = n < (int)sizeof path ? read_limit(path) : UINT64_MAX;
            if (bytes < least) least = bytes;
        }
        char *slash = strrchr(group, '/');
        if (!slash) return least;
        *slash = 0;
    }
}

/* True if a list such as "cpu,memory" has memory. */
static bool lists_memory(const char *list)
{
    static const char memory[] = "memory";
    for (const char *at = list; (at = strstr(at, memory)); at++) {
        char behind = at[sizeof memory - 1];
        if ((at == list || at[-1] == ',') && (!behind || behind == ',')) return true;
    }
    return false;
}

/* A line: "0::/group" of version 2, "4:cpu,memory:/group" of version 1. */
static uint64_t limit_of(const char *root, char *line)
{
    char mount[PATH_MAX];
    line[strcspn(line, "\n")] = 0;
    char *list = strchr(line, ':'), *group = list ? strchr(list + 1, ':') : NULL;
    if (!group || group[1] != '/') return UINT64_MAX;
    *group++ = 0;
    list++;
    if (strstr(group, "/..")) *group = 0; /* it lies outside of what is mounted here */
    bool v2 = !*list;
    if (!v2 && !lists_memory(list)) return UINT64_MAX;
    snprintf(mount, sizeof mount, v2 ? "%s/sys/fs/cgroup" : "%s/sys/fs/cgroup/memory", root);
    return least_of(mount, group, v2 ? files_v2 : files_v1);
}

uint64_t cgroup_memory_max(const char *root)
{
    char path[PATH_MAX], line[PATH_MAX];
    uint64_t least = UINT64_MAX;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    if (!f) return UINT64_MAX;
    while (fgets(line, sizeof line, f)) {
        uint64_t bytes = limit_of(root, line);
        if (bytes < least) least = bytes;
    }
    fclose(f);
    return least;
}
