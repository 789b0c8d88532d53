#include "daemon/base/lock_pid.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TEXT_BYTES = 24 };

void lock_pid_write(int fd)
{
    char text[TEXT_BYTES];
    int bytes = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    ssize_t written = ftruncate(fd, 0) ? 0 : pwrite(fd, text, (size_t)bytes, 0);
    (void)written;
}

long lock_pid_read(int fd)
{
    char text[TEXT_BYTES] = "";
    ssize_t bytes = pread(fd, text, sizeof text - 1, 0);
    return bytes > 0 ? strtol(text, NULL, 10) : 0;
}
