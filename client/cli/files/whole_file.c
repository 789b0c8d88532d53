#include "client/cli/files/whole_file.h"

#include "client/cli/interrupt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool whole_file_fail(struct whole_file *f, const char *what)
{
    int error = errno;
    snprintf(f->error, sizeof f->error, "%s: %s: %s", f->path ? f->path : "?", what,
             strerror(error));
    whole_file_abandon(f);
    return false;
}

static bool open_standard_output(struct whole_file *f)
{
    f->path = strdup("standard output");
    int fd = f->path ? dup(STDOUT_FILENO) : -1;
    f->stream = fd < 0 ? NULL : fdopen(fd, "wb");
    if (fd >= 0 && !f->stream) close(fd);
    return f->stream != NULL;
}

static bool open_temporary(struct whole_file *f, mode_t mode)
{
    if (asprintf(&f->temporary, "%s.XXXXXX", f->path) < 0) {
        f->temporary = NULL;
        return false;
    }
    int fd = mkostemp(f->temporary, 0);
    if (fd < 0) {
        free(f->temporary);
        f->temporary = NULL;
        return false;
    }
    interrupt_guard(f->temporary);
    fchmod(fd, mode);
    f->stream = fdopen(fd, "wb");
    if (!f->stream) close(fd);
    return f->stream != NULL;
}

static bool open_stream(struct whole_file *f, const char *path)
{
    struct stat about;
    if (strcmp(path, "-") == 0) return open_standard_output(f);
    bool there = stat(path, &about) == 0;
    char *resolved = there ? realpath(path, NULL) : NULL;
    f->path = resolved ? resolved : strdup(path);
    if (!f->path) return false;
    if (there && S_ISDIR(about.st_mode)) {
        errno = EISDIR;
        return false;
    }
    if (there && !S_ISREG(about.st_mode)) {
        f->stream = fopen(f->path, "wbe");
        return f->stream != NULL;
    }
    mode_t mask = umask(0);
    umask(mask);
    return open_temporary(f, there ? about.st_mode & 0777 : 0666 & ~mask);
}

bool whole_file_open(struct whole_file *f, const char *path)
{
    *f = (struct whole_file){0};
    return open_stream(f, path) || whole_file_fail(f, "cannot create");
}

bool whole_file_write(struct whole_file *f, const void *data, size_t bytes)
{
    return fwrite(data, 1, bytes, f->stream) == bytes || whole_file_fail(f, "cannot write");
}

bool whole_file_finish(struct whole_file *f)
{
    /* EINVAL: a pipe or a device cannot be synced. */
    if (fflush(f->stream) != 0 || (fsync(fileno(f->stream)) != 0 && errno != EINVAL))
        return whole_file_fail(f, "cannot write");
    int closed = fclose(f->stream);
    f->stream = NULL;
    if (closed != 0) return whole_file_fail(f, "cannot write");
    if (f->temporary) {
        if (rename(f->temporary, f->path) != 0) return whole_file_fail(f, "cannot rename");
        interrupt_release(f->temporary);
        free(f->temporary);
        f->temporary = NULL;
    }
    free(f->path);
    f->path = NULL;
    return true;
}

void whole_file_abandon(struct whole_file *f)
{
    if (f->stream) fclose(f->stream);
    if (f->temporary) {
        unlink(f->temporary);
        interrupt_release(f->temporary);
    }
    free(f->temporary);
    free(f->path);
    f->stream = NULL;
    f->temporary = NULL;
    f->path = NULL;
}
