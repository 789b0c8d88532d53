#include "daemon/base/config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/config_inside.h"
#include "daemon/base/fault.h"
#include "daemon/base/json_scan.h"

enum {
    FILE_BYTES_MAX = 1 << 20,
    DEPTH_MAX = 8,         /* the table needs 3 */
    SHOWN_NAME_BYTES = 80, /* of a file's name, so that the reason still fits into a failure */
};

static void *field_of(const struct config *c, const struct config_key *k)
{
    return (char *)c + k->offset;
}

/* ---------------------------------------------------------------- one value */

static enum status store_number(struct config *c, const struct config_key *k, uint64_t value,
                                const struct origin *o)
{
    if (value < k->min || value > k->max)
        return refuse(o, k->name, "%" PRIu64 " is out of range, %" PRIu64 " to %" PRIu64, value,
                      k->min, k->max);
    if (k->type == CONFIG_NUMBER32)
        *(uint32_t *)field_of(c, k) = (uint32_t)value;
    else
        *(uint64_t *)field_of(c, k) = value;
    return STATUS_OK;
}

static enum status store_mode(struct config *c, const struct config_key *k, const char *text,
                              const struct origin *o)
{
    size_t digits = strspn(text, "01234567");
    unsigned long mode = digits && digits <= 4 && !text[digits] ? strtoul(text, NULL, 8) : ~0ul;
    if (mode < k->min || mode > k->max)
        return refuse(o, k->name, "'%.*s' is not an octal mode, \"0000\" to \"%04" PRIo64 "\"",
                      SHOWN_TEXT_BYTES, text, k->max);
    *(uint32_t *)field_of(c, k) = (uint32_t)mode;
    return STATUS_OK;
}

static bool is_choice(const char *choices, const char *text)
{
    size_t bytes = strlen(text);
    for (const char *at = choices; *at; at += strspn(at, " ")) {
        size_t word = strcspn(at, " ");
        if (word == bytes && memcmp(at, text, word) == 0) return true;
        at += word;
    }
    return false;
}

static enum status store_text(struct config *c, const struct config_key *k, const char *text,
                              const struct origin *o)
{
    size_t bytes = strlen(text);
    if (k->type == CONFIG_CHOICE && !is_choice(k->choices, text))
        return refuse(o, k->name, "'%.*s' is not one of: %s", SHOWN_TEXT_BYTES, text, k->choices);
    if (k->type == CONFIG_TEXT && bytes > k->max)
        return refuse(o, k->name, "%zu bytes long, at most %" PRIu64, bytes, k->max);
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return refuse(o, k->name, "a control character at byte %zu", i + 1);
    if (k->check && !k->check(text))
        return refuse(o, k->name, "'%.*s' is not %s", SHOWN_TEXT_BYTES, text, k->rule);
    char *field = field_of(c, k);
    memset(field, 0, CONFIG_TEXT_MAX);
    memcpy(field, text, bytes);
    return STATUS_OK;
}

/* ---------------------------------------------------------------- JSON */

const char *config_json_type(const cJSON *v)
{
    if (cJSON_IsBool(v)) return "a boolean";
    if (cJSON_IsNumber(v)) return "a number";
    if (cJSON_IsString(v)) return "a text";
    if (cJSON_IsArray(v)) return "a list";
    if (cJSON_IsObject(v)) return "an object";
    return "null";
}

static enum status read_number(struct config *c, const struct config_key *k, const cJSON *v,
                               const struct origin *o)
{
    double value = v->valuedouble;
    /* Far beyond every bound, and checked before a conversion could overflow. */
    if (!(value >= 0 && value <= 9e15))
        return refuse(o, k->name, "%g is out of range, %" PRIu64 " to %" PRIu64, value, k->min,
                      k->max);
    if (value != (double)(uint64_t)value)
        return refuse(o, k->name, "%g is not a whole number", value);
    return store_number(c, k, (uint64_t)value, o);
}

enum status config_store_json(struct config *c, const struct config_key *k, const cJSON *v,
                              const struct origin *o)
{
    switch (k->type) {
    case CONFIG_NUMBER32:
    case CONFIG_NUMBER64:
        if (cJSON_IsNumber(v)) return read_number(c, k, v, o);
        return refuse(o, k->name, "%s, a whole number wanted", config_json_type(v));
    case CONFIG_BOOLEAN:
        if (!cJSON_IsBool(v))
            return refuse(o, k->name, "%s, true or false wanted", config_json_type(v));
        *(bool *)field_of(c, k) = cJSON_IsTrue(v);
        return STATUS_OK;
    case CONFIG_MODE:
        if (cJSON_IsString(v)) return store_mode(c, k, v->valuestring, o);
        return refuse(o, k->name, "%s, octal digits in quotes wanted: \"0660\"",
                      config_json_type(v));
    default:
        if (cJSON_IsString(v)) return store_text(c, k, v->valuestring, o);
        return refuse(o, k->name, "%s, a text wanted", config_json_type(v));
    }
}

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

bool config_stands_before(const cJSON *first, const cJSON *v)
{
    for (; first != v; first = first->next)
        if (strcmp(first->string, v->string) == 0) return true;
    return false;
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
    const struct origin o = {.prefix = prefix, .failure = f};
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

/* Reads the file into text[size]; returns its bytes, or a negative errno. */
static ssize_t read_whole(const char *path, char *text, size_t size)
{
    int fd = fault_here("config: open") ? (errno = EMFILE, -1) : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -errno;
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
        st = failure_set(f, status_from_errno((int)n), DETAIL_SYSTEM, "%s%s", prefix,
                         strerror((int)-n));
    } else {
        st = config_read_text(c, text, (size_t)n, path, f);
    }
    free(text);
    return st;
}

/* ---------------------------------------------------------------- command line */

static enum status set_number(struct config *c, const struct config_key *k, const char *text,
                              const struct origin *o)
{
    size_t digits = strspn(text, "0123456789");
    if (!digits || text[digits])
        return refuse(o, k->name, "'%.*s' is not a whole number", SHOWN_TEXT_BYTES, text);
    /* 19 digits fit in 64 bits; longer numbers are beyond every bound. */
    return store_number(c, k, digits <= 19 ? strtoull(text, NULL, 10) : UINT64_MAX, o);
}

enum status config_store_text(struct config *c, const struct config_key *k, const char *text,
                              const struct origin *o)
{
    switch (k->type) {
    case CONFIG_NUMBER32:
    case CONFIG_NUMBER64: return set_number(c, k, text, o);
    case CONFIG_BOOLEAN:
        if (!is_choice("true false", text))
            return refuse(o, k->name, "'%.*s' is not true or false", SHOWN_TEXT_BYTES, text);
        *(bool *)field_of(c, k) = text[0] == 't';
        return STATUS_OK;
    case CONFIG_MODE: return store_mode(c, k, text, o);
    default: return store_text(c, k, text, o);
    }
}

enum status config_set(struct config *c, const char *assignment, struct failure *f)
{
    const struct origin o = {.prefix = "command line: ", .failure = f};
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
    return config_store_text(c, k, text, &o);
}

/* ---------------------------------------------------------------- defaults and live keys */

void config_defaults(struct config *out)
{
    memset(out, 0, sizeof *out);
    for (unsigned i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        void *field = field_of(out, k);
        switch (k->type) {
        case CONFIG_NUMBER32:
        case CONFIG_MODE: *(uint32_t *)field = (uint32_t)k->number; break;
        case CONFIG_NUMBER64: *(uint64_t *)field = k->number; break;
        case CONFIG_BOOLEAN: *(bool *)field = k->number; break;
        default: strcpy(field, k->text); break;
        }
    }
}

static size_t field_bytes(const struct config_key *k)
{
    switch (k->type) {
    case CONFIG_NUMBER32:
    case CONFIG_MODE: return sizeof(uint32_t);
    case CONFIG_NUMBER64: return sizeof(uint64_t);
    case CONFIG_BOOLEAN: return sizeof(bool);
    default: return CONFIG_TEXT_MAX;
    }
}

uint32_t config_apply_live(struct config *c, const struct config *from, uint32_t *ignored)
{
    uint32_t changed = 0, others = 0;
    for (unsigned i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        size_t bytes = field_bytes(k);
        if (memcmp(field_of(c, k), field_of(from, k), bytes) == 0) continue;
        if (k->live) {
            memcpy(field_of(c, k), field_of(from, k), bytes);
            changed++;
        } else {
            others++;
        }
    }
    if (c->space_count != from->space_count ||
        memcmp(c->spaces, from->spaces, sizeof c->spaces) != 0) {
        c->space_count = from->space_count;
        memcpy(c->spaces, from->spaces, sizeof c->spaces);
        changed++;
    }
    if (ignored) *ignored = others;
    return changed;
}
