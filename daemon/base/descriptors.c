#include "daemon/base/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

bool descriptors_open_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
        /* the lowest free number is fd: those below it are open; children inherit it */
        if (open("/dev/null", O_RDWR) != fd) return false;
    }
    return true;
}

uint64_t descriptors_left(int fd, uint64_t *limit)
{
    struct rlimit files = {.rlim_cur = RLIM_INFINITY};
    getrlimit(RLIMIT_NOFILE, &files);
    *limit = files.rlim_cur;
    return files.rlim_cur > (uint64_t)fd ? files.rlim_cur - (uint64_t)fd - 1 : 0;
}
