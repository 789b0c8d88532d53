/* sim_range: the simulated device's ranges: they grow in place and can be mapped twice, or move and
 * are copied, as the settings say (vmm).
 * Owner:  device_sim.
 * Thread: the device thread only.
 * Errors: as device.h. */
#ifndef ENGRAM_GPU_SIM_RANGE_H
#define ENGRAM_GPU_SIM_RANGE_H

#include "daemon/gpu/device.h"
#include "daemon/gpu/sim_memory.h"
#include "daemon/gpu/sim_settings.h"
#include "daemon/gpu/sim_stream.h"

struct sim_ranges {
    struct sim_memory *memory;
    struct sim_streams *streams;
    const struct sim_settings *settings;
};

/* Bytes [first, first + bytes) of a range, for which at most `limit` bytes may be taken. */
struct sim_part {
    uint64_t first, bytes, limit;
};

enum device_result sim_range_reserve(const struct sim_ranges *s, uint64_t bytes_max,
                                     struct device_range *r);
enum device_result sim_range_resize(const struct sim_ranges *s, struct device_range *r,
                                    uint64_t bytes);
enum device_result sim_range_fork(const struct sim_ranges *s, struct device_range *r,
                                  uint64_t bytes, struct sim_stream *on,
                                  struct device_range *second);
enum device_result sim_range_own(const struct sim_ranges *s, struct device_range *second,
                                 const struct sim_part *part, struct sim_stream *on);
void sim_range_release(const struct sim_ranges *s, struct device_range *r);

#endif
