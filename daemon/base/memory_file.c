#include "daemon/base/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/fault.h"

/* Newer than the headers of systems that this is built on. */
enum { NOEXEC_SEAL = 0x8 /* MFD_NOEXEC_SEAL */, SEAL_EXEC = 0x20 /* F_SEAL_EXEC */ };

static int create(const char *name)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    if (fault_here("memory file: create")) {
        errno = EMFILE;
        return -1;
    }
    int fd = memfd_create(name, flags | NOEXEC_SEAL);
    return fd < 0 && errno == EINVAL ? memfd_create(name, flags) : fd;
}

int memory_file_create(const char *name, uint64_t bytes)
{
    int fd = create(name);
    if (fd < 0) return -1;
    errno = ENOMEM;
    if (!fault_here("memory file: size") && !ftruncate(fd, (off_t)bytes) &&
        !fault_here("memory file: mode") && !fchmod(fd, 0600) && !fault_here("memory file: seal") &&
        !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

int memory_file_begin(const char *name)
{
    int fd = create(name);
    if (fd >= 0 && fchmod(fd, 0600)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

bool memory_file_end(int fd)
{
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
    return !fault_here("memory file: seal") && !fcntl(fd, F_ADD_SEALS, seals);
}

bool memory_file_is_sealed(int fd, bool written)
{
    int seals = fcntl(fd, F_GET_SEALS), want = F_SEAL_SHRINK | F_SEAL_GROW;
    if (written) want |= F_SEAL_WRITE;
    return seals >= 0 && (seals & want) == want;
}

bool memory_file_never_runs(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && seals & SEAL_EXEC;
}
