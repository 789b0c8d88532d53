#include "daemon/base/socket_file.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/fault.h"

enum status socket_file_clear(const char *path, struct failure *f)
{
    struct stat st;
    if (lstat(path, &st)) {
        if (errno == ENOENT) return STATUS_OK;
        return failure_set(f, status_from_errno(-errno), DETAIL_SYSTEM, "%s: %s", path,
                           strerror(errno));
    }
    if (!S_ISSOCK(st.st_mode))
        return failure_set(f, STATUS_ALREADY_EXISTS, DETAIL_SYSTEM,
                           "%s exists and is not a socket; it is left alone", path);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = fault_here("listener: probe")
                 ? (errno = EMFILE, -1)
                 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return failure_set(f, status_from_errno(-errno), DETAIL_SYSTEM, "socket: %s",
                           strerror(errno));
    bool dead = connect(fd, (struct sockaddr *)&address, sizeof address) && errno == ECONNREFUSED;
    close(fd);
    if (!dead)
        return failure_set(f, STATUS_ALREADY_EXISTS, DETAIL_SYSTEM,
                           "%s: another daemon is serving there", path);
    if (unlink(path) && errno != ENOENT)
        return failure_set(f, status_from_errno(-errno), DETAIL_SYSTEM, "%s: cannot remove: %s",
                           path, strerror(errno));
    return STATUS_OK;
}
