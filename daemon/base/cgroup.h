/* cgroup: how much memory this process's control group may have, and those above it: a container's
 * or a unit's limit. The kernel kills what goes past it.
 * Owner:  nobody.
 * Thread: any.
 * Errors: what cannot be read limits nothing. */
#ifndef ENGRAM_BASE_CGROUP_H
#define ENGRAM_BASE_CGROUP_H

#include <stdint.h>

/* Returns bytes, UINT64_MAX where nothing limits them. root: "" for this machine; a test's folder
 * that has proc/self/cgroup and sys/fs/cgroup. */
uint64_t cgroup_memory_max(const char *root);

#endif
