/* sim_settings: what the simulated device is to be like: its settings string, and the faults that
 * it makes.
 * Owner:  device_sim.
 * Thread: the device thread only.
 * Errors: sim_settings_parse says what is wrong in `why`.
 *
 * Words of the form key=value, between spaces; all have defaults:
 *   vram_mib=256         1..65536
 *   granularity_kib=64   memory is mapped in pieces of this; a power of two, 4..2048
 *   latency_us=5         from an event's record until it can be done; 0..10000000
 *   run_us=0             whatever is recorded, or launched directly, keeps the device for so long
 *                        besides, one after the other whatever their streams; 0..10000000
 *   multiply_adds=20000  that it says it does in a microsecond; 1..100000000
 *   shadow_rows=1024     the fewest rows for which rows in int8 are of use; 12..100000000
 *   pass_sets=0          a call that may leave sets of a spread for later runs so many at most; 0:
 *                        as many as it has time for; 0..1000000
 *   slow=1               kernels take so many times as long as they do on this machine's CPU, one
 *                        after the other whatever their streams; 1..100000. The device thread does
 *                        not wait: events behind them are done that much later
 *   slow_file=PATH       while there is such a file that begins with a number (1..100000), that one
 *                        in place of slow; looked at no more than every 10 ms
 *   vmm=1                0: ranges cannot grow in place, they move
 *   managed=1            0: no unified memory
 *   direct=1             0: no query travels with a launch
 *   devices=1            that the driver shows; 0: there is none
 *   strict=0             1: abort at close when something has not been given back
 *   count=PATH           the calls made so far, u64, are kept in that file, and are counted on from
 *                        what it says: a fault at call N then comes once, not in every process
 *   fail=N:KIND[@CALL]   call N (of those that can fail, open included, from 1; an event_query that
 *                        is too early does not count) fails; N+: and all after it. With @CALL, as
 *                        in fail=2:hang@topk, only calls with that name are counted. KIND:
 *     memory   no memory; as error, if the call cannot say so
 *     error    this call fails and has done nothing: after an event_query the work that it asked
 *              about still goes on; after cells, which counts once when a direct launch's results
 *              are due, none of them ever comes
 *     sticky   this call and all later ones
 *     absent   open: no device; elsewhere as error
 *     slow     takes 300 ms, then does what it should
 *     hang     never returns
 *     crash    the process is killed */
#ifndef ENGRAM_GPU_SIM_SETTINGS_H
#define ENGRAM_GPU_SIM_SETTINGS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/gpu/device.h"

enum sim_kind {
    SIM_NONE,
    SIM_MEMORY,
    SIM_ERROR,
    SIM_STICKY,
    SIM_ABSENT,
    SIM_SLOW,
    SIM_HANG,
    SIM_CRASH,
};

struct sim_settings {
    uint64_t vram_bytes;
    uint64_t granularity;
    uint64_t latency_ns, run_ns;
    uint64_t multiply_adds;
    uint64_t shadow_rows;
    uint32_t pass_sets;
    uint32_t slow;
    char slow_path[256]; /* "": none */
    uint32_t devices;
    bool vmm, managed, direct, strict;
    char count_path[256]; /* "": none */
    uint64_t fail_from;
    bool fail_onward;
    enum sim_kind fail_kind;
    char fail_call[32]; /* "": any */
};

/* text: NULL or "": all defaults. */
bool sim_settings_parse(const char *text, struct sim_settings *out, char why[SHARE_WHY]);

/* How slow it is now. */
struct sim_pace {
    const struct sim_settings *settings;
    uint64_t read_ns; /* when the file was last looked at */
    uint32_t factor;
};
uint32_t sim_pace_factor(struct sim_pace *p, uint64_t now_ns);

/* The calls made, and what becomes of the next. */
struct sim_faults {
    const struct sim_settings *settings;
    uint64_t *calls; /* own, or mapped from the file */
    uint64_t own;
    bool sticky;
};

/* f stays where it is. False: the file cannot be used; why says it. */
bool sim_faults_init(struct sim_faults *f, const struct sim_settings *settings,
                     char why[SHARE_WHY]);
void sim_faults_finish(struct sim_faults *f);
/* Counts a call, by its name in device.h, and makes its fault. OK: go on. can_lack_memory: the call
 * can answer NO_MEMORY. */
enum device_result sim_faults_call(struct sim_faults *f, const char *call, bool can_lack_memory);

#endif
