/* slow_sync: a library to preload, with which a sync costs ENGRAM_BENCH_SYNC_MS more, as on a disk
 * that is further away.
 * Owner:  nobody. Thread: any. Errors: those of the system call. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void wait_for_disk(void)
{
    const char *text = getenv("ENGRAM_BENCH_SYNC_MS");
    long ms = text ? strtol(text, NULL, 10) : 0;
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

int fdatasync(int fd)
{
    long rc = syscall(SYS_fdatasync, fd);
    wait_for_disk();
    return (int)rc;
}

int fsync(int fd)
{
    long rc = syscall(SYS_fsync, fd);
    wait_for_disk();
    return (int)rc;
}
