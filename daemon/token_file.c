#include "daemon/token_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/fault.h"

enum status token_file_read(const char *path, uint8_t token[TOKEN_BYTES_MAX], uint32_t *bytes,
                            struct failure *f)
{
    if (!path[0]) return STATUS_OK;
    int fd = fault_here("engine: token") ? (errno = EMFILE, -1) : open(path, O_RDONLY | O_CLOEXEC);
    uint8_t text[257];
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    int why = errno;
    if (fd >= 0) close(fd);
    if (n < 0)
        return failure_set(f, status_from_errno(-why), DETAIL_SYSTEM, "auth.token_file: %s: %s",
                           path, strerror(why));
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
        n--;
    if (n < 1 || n > 255)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_SYSTEM,
                           "auth.token_file: %s: a token has 1 to 255 bytes", path);
    memcpy(token, text, (size_t)n);
    *bytes = (uint32_t)n;
    return STATUS_OK;
}
