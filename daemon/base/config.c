#include "daemon/base/config.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cjson/cJSON.h>

#include "daemon/base/config_table.h"
#include "daemon/base/fault.h"

enum { FILE_BYTES_MAX = 1 << 20, DEPTH_MAX = 8, KEY_BYTES_MAX = 128 };

static const struct setting *find(const char *key)
{
    for (size_t i = 0; i < config_table_count; i++)
        if (strcmp(config_table[i].key, key) == 0) return &config_table[i];
    return NULL;
}

static void *place(struct config *c, const struct setting *s)
{
    return (char *)c + s->offset;
}

static enum status refuse(struct failure *f, const char *where, const char *key, const char *why)
{
    return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_NONE, "%s: %s: %s", where, key, why);
}

/* ---------------------------------------------------------------- one value */

static enum status set_number(struct config *c, const struct setting *s, uint64_t value,
                              const char *where, struct failure *f)
{
    if (value < s->least || value > s->most) {
        char why[96];
        snprintf(why, sizeof why, "%llu is out of range, %llu to %llu", (unsigned long long)value,
                 (unsigned long long)s->least, (unsigned long long)s->most);
        return refuse(f, where, s->key, why);
    }
    if (s->type == SETTING_U64)
        *(uint64_t *)place(c, s) = value;
    else
        *(uint32_t *)place(c, s) = (uint32_t)value;
    return STATUS_OK;
}

static enum status set_octal(struct config *c, const struct setting *s, const char *text,
                             const char *where, struct failure *f)
{
    char *end;
    unsigned long value = strtoul(text, &end, 8);
    if (!text[0] || strspn(text, "01234567") != strlen(text) || *end || value > s->most)
        return refuse(f, where, s->key, "not an octal mode such as \"0660\"");
    *(uint32_t *)place(c, s) = (uint32_t)value;
    return STATUS_OK;
}

static enum status set_text(struct config *c, const struct setting *s, const char *text,
                            const char *where, struct failure *f)
{
    char why[160];
    size_t bytes = strlen(text);
    if (s->type == SETTING_OCTAL) return set_octal(c, s, text, where, f);
    if (bytes < s->least || bytes > s->most) {
        snprintf(why, sizeof why, "%zu bytes, %llu to %llu are allowed", bytes,
                 (unsigned long long)s->least, (unsigned long long)s->most);
        return refuse(f, where, s->key, why);
    }
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return refuse(f, where, s->key, "has a control character");
    if (s->choices) {
        char wanted[32];
        snprintf(wanted, sizeof wanted, "|%s|", text);
        if (strchr(text, '|') || !strstr(s->choices, wanted)) {
            snprintf(why, sizeof why, "'%s' is not one of %s", text, s->choices);
            return refuse(f, where, s->key, why);
        }
    }
    memcpy(place(c, s), text, bytes + 1);
    return STATUS_OK;
}

static bool is_loopback(const char *host)
{
    unsigned a, b, d, e;
    char rest;
    if (strcmp(host, "::1") == 0) return true;
    return sscanf(host, "%3u.%3u.%3u.%3u%c", &a, &b, &d, &e, &rest) == 4 && a == 127 && b < 256 &&
           d < 256 && e < 256;
}

/* What one setting alone cannot show. */
static enum status check_whole(const struct config *c, const char *where, struct failure *f)
{
    if (!is_loopback(c->tcp_host))
        return refuse(f, where, "tcp.host", "not a loopback address (127.0.0.0/8 or ::1)");
    if (!c->socket_path[0] && !c->tcp_enabled)
        return refuse(f, where, "socket.path",
                      "empty while tcp.enabled is false: nothing to listen on");
    return STATUS_OK;
}

void config_defaults(struct config *out)
{
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < config_table_count; i++) {
        const struct setting *s = &config_table[i];
        if (s->type == SETTING_TEXT)
            memcpy(place(out, s), s->initial, strlen(s->initial) + 1);
        else if (s->type == SETTING_BOOL)
            *(bool *)place(out, s) = s->initial[0] == 't';
        else if (s->type == SETTING_U64)
            *(uint64_t *)place(out, s) = strtoull(s->initial, NULL, 10);
        else
            *(uint32_t *)place(out, s) =
                (uint32_t)strtoul(s->initial, NULL, s->type == SETTING_OCTAL ? 8 : 10);
    }
}

/* ---------------------------------------------------------------- JSON */

struct reader {
    struct config *config;
    const char *name;
    bool seen[64]; /* by place in the table */
    struct failure *f;
};

static enum status read_value(struct reader *r, const char *key, const cJSON *item)
{
    const struct setting *s = find(key);
    if (!s) return refuse(r->f, r->name, key, "unknown key");
    if (r->seen[s - config_table]) return refuse(r->f, r->name, key, "given twice");
    r->seen[s - config_table] = true;
    if (s->type == SETTING_TEXT || s->type == SETTING_OCTAL) {
        if (!cJSON_IsString(item)) return refuse(r->f, r->name, key, "must be a text in quotes");
        return set_text(r->config, s, item->valuestring, r->name, r->f);
    }
    if (s->type == SETTING_BOOL) {
        if (!cJSON_IsBool(item)) return refuse(r->f, r->name, key, "must be true or false");
        *(bool *)place(r->config, s) = cJSON_IsTrue(item);
        return STATUS_OK;
    }
    if (!cJSON_IsNumber(item)) return refuse(r->f, r->name, key, "must be a number");
    double value = item->valuedouble;
    if (!(value >= 0 && value < 9007199254740992.0) || value != floor(value))
        return refuse(r->f, r->name, key, "must be a whole number, not negative");
    return set_number(r->config, s, (uint64_t)value, r->name, r->f);
}

/* Objects nest at most DEPTH_MAX deep, so the recursion is bounded. */
static enum status read_object(struct reader *r, const char *prefix, const cJSON *object, int depth)
{
    for (const cJSON *item = object->child; item; item = item->next) {
        char key[KEY_BYTES_MAX];
        int n = snprintf(key, sizeof key, "%s%s%s", prefix, prefix[0] ? "." : "", item->string);
        if (n < 0 || (size_t)n >= sizeof key || depth >= DEPTH_MAX)
            return refuse(r->f, r->name, prefix[0] ? prefix : "object", "no such key below it");
        enum status st = cJSON_IsObject(item) && !find(key) ? read_object(r, key, item, depth + 1)
                                                            : read_value(r, key, item);
        if (st) return st;
    }
    return STATUS_OK;
}

static enum status not_json(const char *name, const char *text, const char *at, struct failure *f)
{
    unsigned line = 1, column = 1;
    for (const char *p = text; at && p < at; p++) {
        column++;
        if (*p == '\n') {
            line++;
            column = 1;
        }
    }
    return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_NONE,
                       "%s: line %u, column %u: not valid JSON", name, line, column);
}

enum status config_read_text(struct config *c, const char *text, size_t bytes, const char *name,
                             struct failure *f)
{
    struct config fresh = *c;
    struct reader r = {.config = &fresh, .name = name, .f = f};
    if (memchr(text, 0, bytes))
        return failure_set(f, STATUS_INVALID_ARGUMENT, DETAIL_NONE, "%s: has a NUL byte", name);
    char *copy = fault_here("config: copy") ? NULL : malloc(bytes + 1);
    if (!copy)
        return failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "%s: no memory", name);
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    const char *end = NULL;
    cJSON *root = cJSON_ParseWithOpts(copy, &end, 1);
    enum status st = STATUS_OK;
    if (!root)
        st = not_json(name, copy, end, f);
    else if (!cJSON_IsObject(root))
        st = refuse(f, name, "the whole", "must be an object: { ... }");
    else
        st = read_object(&r, "", root, 0);
    cJSON_Delete(root);
    free(copy);
    if (!st) st = check_whole(&fresh, name, f);
    if (!st) *c = fresh;
    return st;
}

enum status config_read_file(struct config *c, const char *path, struct failure *f)
{
    FILE *file = fopen(path, "re");
    int why = errno;
    struct stat sb;
    if (file && fstat(fileno(file), &sb) == 0 && S_ISDIR(sb.st_mode)) {
        fclose(file);
        file = NULL;
        why = EISDIR;
    }
    if (!file)
        return failure_set(f, status_from_errno(-why), DETAIL_SYSTEM, "%s: %s", path,
                           strerror(why));
    char *text = fault_here("config: file") ? NULL : malloc(FILE_BYTES_MAX + 1);
    enum status st;
    if (!text) {
        st = failure_set(f, STATUS_RESOURCE_EXHAUSTED, DETAIL_MEMORY, "%s: no memory", path);
    } else {
        size_t n = fread(text, 1, FILE_BYTES_MAX + 1, file);
        if (ferror(file))
            st = failure_set(f, STATUS_INTERNAL, DETAIL_SYSTEM, "%s: cannot read", path);
        else if (n > FILE_BYTES_MAX)
            st = refuse(f, path, "the whole", "larger than 1 MiB");
        else
            st = config_read_text(c, text, n, path, f);
    }
    free(text);
    fclose(file);
    return st;
}

/* ---------------------------------------------------------------- command line, SIGHUP */

enum status config_set(struct config *c, const char *assignment, struct failure *f)
{
    static const char where[] = "command line";
    const char *equals = strchr(assignment, '=');
    char key[KEY_BYTES_MAX];
    if (!equals || (size_t)(equals - assignment) >= sizeof key)
        return refuse(f, where, assignment, "not KEY=VALUE");
    memcpy(key, assignment, (size_t)(equals - assignment));
    key[equals - assignment] = 0;
    const char *value = equals + 1;
    const struct setting *s = find(key);
    if (!s) return refuse(f, where, key, "unknown key (--help-config lists them)");
    struct config fresh = *c;
    enum status st = STATUS_OK;
    if (s->type == SETTING_TEXT || s->type == SETTING_OCTAL) {
        st = set_text(&fresh, s, value, where, f);
    } else if (s->type == SETTING_BOOL) {
        bool yes = strcmp(value, "true") == 0;
        if (!yes && strcmp(value, "false") != 0)
            return refuse(f, where, key, "must be true or false");
        *(bool *)place(&fresh, s) = yes;
    } else {
        if (!value[0] || strspn(value, "0123456789") != strlen(value) || strlen(value) > 15)
            return refuse(f, where, key, "must be a whole number, not negative");
        st = set_number(&fresh, s, strtoull(value, NULL, 10), where, f);
    }
    if (!st && s->offset == offsetof(struct config, tcp_host)) st = check_whole(&fresh, where, f);
    if (!st) *c = fresh;
    return st;
}

static size_t value_bytes(const struct setting *s, const void *value)
{
    switch (s->type) {
    case SETTING_TEXT: return strlen(value) + 1;
    case SETTING_BOOL: return sizeof(bool);
    case SETTING_U64: return sizeof(uint64_t);
    default: return sizeof(uint32_t);
    }
}

uint32_t config_apply_live(struct config *c, const struct config *from, uint32_t *ignored)
{
    uint32_t changed = 0, others = 0;
    for (size_t i = 0; i < config_table_count; i++) {
        const struct setting *s = &config_table[i];
        const void *fresh = (const char *)from + s->offset;
        size_t bytes = value_bytes(s, fresh);
        if (memcmp(place(c, s), fresh, bytes) == 0) continue;
        if (s->live) {
            memcpy(place(c, s), fresh, bytes);
            changed++;
        } else {
            others++;
        }
    }
    if (ignored) *ignored = others;
    return changed;
}
