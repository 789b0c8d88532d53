#include "daemon/base/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/config_inside.h"
#include "daemon/base/fault.h"
#include "daemon/base/json_scan.h"

enum {
    FILE_BYTES_MAX = 1 << 20,
    DEPTH_MAX = 8,         /* the table needs 3 */
    SHOWN_NAME_BYTES = 80, /* of a file's name, so that the reason still fits into a failure */
};

static bool is_section(const char *name)
{
    size_t bytes = strlen(name);
    for (unsigned i = 0; i < config_key_count; i++)
        if (config_key_section(&config_keys[i]) == bytes &&
            memcmp(config_keys[i].name, name, bytes) == 0)
            return bytes > 0;
    return false;
}

/* True for "spaces": its keys are names of spaces, each with the same settings. */
static bool is_spaces(const char *name)
{
    return strcmp(name, "spaces") == 0;
}

/* Reads the keys of one object: the root (section "") or a section. It stops at the first unknown
 * key, so that an object is as short as the table and searching it for repeated keys is cheap. */
static enum status read_object(struct config *c, const char *section, const cJSON *object,
                               const struct origin *o);

static enum status read_section(struct config *c, const cJSON *section, const struct origin *o)
{
    if (!cJSON_IsObject(section))
        return refuse(o, section->string, "%s, an object of settings wanted",
                      config_json_type(section));
    if (is_spaces(section->string)) return config_spaces_read(c, section, o);
    return read_object(c, section->string, section, o);
}

static enum status read_object(struct config *c, const char *section, const cJSON *object,
                               const struct origin *o)
{
    for (const cJSON *v = object->child; v; v = v->next) {
        char name[SETTING_NAME_BYTES];
        snprintf(name, sizeof name, "%s%s%s", section, *section ? "." : "", v->string);
        bool opens_section = !*section && (is_section(v->string) || is_spaces(v->string));
        const struct config_key *k = config_key_find(name);
        /* A dotted name in the root is not a key: {"socket.path": ...} is a mistake. */
        if (!opens_section && (!k || strchr(v->string, '.')))
            return refuse(o, name, "unknown setting");
        if (config_stands_before(object->child, v)) return refuse(o, name, "given twice");
        enum status st = opens_section ? read_section(c, v, o) : config_store_json(c, k, v, o);
        if (st) return st;
        if (!opens_section) c->sources[k - config_keys] = (uint8_t)o->source;
    }
    return STATUS_OK;
}

static enum status refuse_text(const char *prefix, const char *text, size_t offset,
                               const char *reason, struct failure *f)
{
    unsigned line, column;
    json_place(text, offset, &line, &column);
    return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_NONE,
                       "%sline %u, column %u: not JSON: %s", prefix, line, column, reason);
}

/* text is zero-terminated at text[bytes]. */
static enum status parse_text(struct config *c, const char *text, size_t bytes, const char *prefix,
                              struct failure *f)
{
    struct json_fault fault;
    if (!json_scan(text, bytes, DEPTH_MAX, &fault))
        return refuse_text(prefix, text, fault.offset, fault.reason, f);
    const char *end = text;
    cJSON *root = cJSON_ParseWithLengthOpts(text, bytes + 1, &end, true);
    /* cJSON reports some errors one character too late. */
    if (!root)
        return refuse_text(prefix, text, end < text + bytes ? (size_t)(end - text) : bytes,
                           "syntax error here or just before", f);
    const struct origin o = {prefix, f, CONFIG_FILE};
    enum status st;
    if (cJSON_IsObject(root))
        st = read_object(c, "", root, &o);
    else
        st = failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_NONE,
                         "%s%s, an object of settings wanted", prefix, config_json_type(root));
    cJSON_Delete(root);
    if (!st && !c->socket_path[0] && !c->tcp_enabled)
        st = refuse(&o, "socket.path", "empty while tcp.enabled is false: nothing to listen on");
    return st;
}

/* Makes "FILE: " from the end of a long name; control characters, which would forge a log line,
 * are masked. */
static void make_prefix(const char *name, char *out, size_t size)
{
    size_t bytes = strlen(name);
    bool cut = bytes > SHOWN_NAME_BYTES;
    snprintf(out, size, "%s%s: ", cut ? "..." : "", cut ? name + bytes - SHOWN_NAME_BYTES : name);
    for (char *at = out; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f) *at = '?';
}

enum status config_read_text(struct config *c, const char *text, size_t bytes, const char *name,
                             struct failure *f)
{
    char prefix[SHOWN_NAME_BYTES + 8];
    make_prefix(name, prefix, sizeof prefix);
    if (bytes > FILE_BYTES_MAX)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_NONE, "%slarger than %d bytes",
                           prefix, FILE_BYTES_MAX);
    char *copy = fault_here("config: text") ? NULL : malloc(bytes + 1);
    if (!copy)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "%sout of memory", prefix);
    if (bytes) memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    struct config next = *c;
    enum status st = parse_text(&next, copy, bytes, prefix, f);
    free(copy);
    if (!st) *c = next;
    return st;
}

/* Returns a descriptor of a regular file, or a negative errno. A pipe that nobody writes to must
 * hold up neither the start nor, later, the loop. */
static int open_regular(const char *path)
{
    struct stat sb;
    int fd = fault_here("config: open") ? (errno = EMFILE, -1)
                                        : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return -errno;
    if (fstat(fd, &sb) == 0 && (S_ISREG(sb.st_mode) || S_ISDIR(sb.st_mode))) return fd;
    close(fd);
    return -ENOTSUP;
}

/* Reads the file into text[size]; returns its bytes, or a negative errno, ENOTSUP for what is no
 * file. */
static ssize_t read_whole(const char *path, char *text, size_t size)
{
    int fd = open_regular(path);
    if (fd < 0) return fd;
    size_t bytes = 0;
    ssize_t n = 1;
    while (n > 0 && bytes < size) {
        n = fault_here("config: read") ? (errno = EIO, -1) : read(fd, text + bytes, size - bytes);
        if (n < 0 && errno == EINTR)
            n = 1;
        else if (n > 0)
            bytes += (size_t)n;
    }
    int why = n < 0 ? -errno : 0;
    close(fd);
    return why ? why : (ssize_t)bytes;
}

enum status config_read_file(struct config *c, const char *path, struct failure *f)
{
    enum { SIZE = FILE_BYTES_MAX + 1 }; /* one byte more shows that the file is too large */
    char *text = fault_here("config: memory") ? NULL : malloc(SIZE);
    ssize_t n = text ? read_whole(path, text, SIZE) : -ENOMEM;
    enum status st;
    if (n < 0) {
        char prefix[SHOWN_NAME_BYTES + 8];
        make_prefix(path, prefix, sizeof prefix);
        enum status why = n == -ENOTSUP ? STATUS_INVALID_ARGUMENT : status_from_errno((int)n);
        st = failure_set(f, why, DETAIL_SYSTEM, "%s%s", prefix,
                         n == -ENOTSUP ? "not a regular file" : strerror((int)-n));
    } else {
        st = config_read_text(c, text, (size_t)n, path, f);
    }
    free(text);
    return st;
}

/* ---------------------------------------------------------------- command line */

enum status config_set(struct config *c, const char *assignment, struct failure *f)
{
    const struct origin o = {"command line: ", f, CONFIG_COMMAND_LINE};
    const char *equals = strchr(assignment, '=');
    char name[SETTING_NAME_BYTES];
    size_t bytes = equals ? (size_t)(equals - assignment) : 0;
    if (!bytes)
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_NONE,
                           "command line: '%.*s' is not KEY=VALUE", SHOWN_TEXT_BYTES, assignment);
    snprintf(name, sizeof name, "%.*s", bytes < 100 ? (int)bytes : 100, assignment);
    const struct config_key *k = config_key_find(name);
    const char *text = equals + 1;
    if (strncmp(name, "spaces.", strlen("spaces.")) == 0)
        return config_spaces_set(c, name, text, &o);
    if (!k) return refuse(&o, name, "unknown setting");
    enum status st = config_store_text(c, k, text, &o);
    if (!st) c->sources[k - config_keys] = (uint8_t)o.source;
    return st;
}
