/* Snapshots that are not what a daemon wrote: every one is found, and salvage takes what is
 * whole. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/persist/load.h"
#include "daemon/persist/manifest_text.h"
#include "daemon/persist/replay.h"
#include "tests/support/persist_house.h"
#include "tests/support/sweep.h"

#define FIRST  "snapshot-000000000001"
#define SECOND "snapshot-000000000002"

static void be_quiet(void)
{
    log_set_level_name("error");
}

TestSuite(damage, .init = be_quiet);

/* ---------------------------------------------------------------- of sums */

struct scene {
    char path[64], folder[96];
    struct manifest m;
    struct persist_house h; /* where objects are loaded to */
    int fd;
};

static void open_scene(struct scene *s)
{
    struct manifest_key none = {0};
    struct failure f = {0};
    persist_house_folder(s->path);
    persist_house_make_snapshot(s->path, false);
    snprintf(s->folder, sizeof s->folder, "%s/" FIRST, s->path);
    persist_house_open(&s->h, s->path);
    s->fd = open(s->folder, O_RDONLY | O_DIRECTORY);
    cr_assert_eq(load_manifest(s->fd, &none, &s->m, &f), STATUS_OK, "%s", f.text);
}

static void close_scene(struct scene *s)
{
    manifest_free(&s->m);
    close(s->fd);
    persist_house_close(&s->h);
    persist_house_remove(s->path);
}

static enum status load_one(struct scene *s, const struct snapshot_object *o, struct failure *f)
{
    struct loading l = {s->h.store, s->h.heap, vectors_variant(0), s->fd, 0, false};
    memset(f, 0, sizeof *f);
    return load_object(&l, o, f);
}

static void expect_damage(struct scene *s, const struct snapshot_object *o, const char *file)
{
    struct failure f;
    enum status st = load_one(s, o, &f);
    cr_assert_eq(st, STATUS_DATA_LOSS, "%s: %d %s", file, st, f.text);
    cr_assert_eq(f.detail, DETAIL_DAMAGED);
    cr_assert_not_null(strstr(f.text, file), "%s: %s", file, f.text);
    cr_assert_eq(persist_house_count(&s->h), 0);
    cr_assert_eq(load_verify(s->fd, o, &f), STATUS_DATA_LOSS);
}

Test(damage, any_flipped_byte_of_an_array_is_found)
{
    struct scene s;
    open_scene(&s);
    for (uint64_t i = 0; i < s.m.object_count; i++) {
        const struct snapshot_object *o = &s.m.objects[i];
        for (uint32_t k = 0; k < snapshot_array_count(o->kind); k++) {
            size_t bytes;
            char *data = persist_house_read(s.folder, o->files[k].name, &bytes);
            for (size_t at = 0; at < bytes; at += sweep_stride(3)) {
                data[at] ^= (char)(1 << at % 8);
                persist_house_write(s.folder, o->files[k].name, data, bytes);
                expect_damage(&s, o, o->files[k].name);
                data[at] ^= (char)(1 << at % 8);
            }
            persist_house_write(s.folder, o->files[k].name, data, bytes);
            free(data);
        }
        struct failure f;
        cr_assert_eq(load_one(&s, o, &f), STATUS_OK);
        cr_assert_eq(load_verify(s.fd, o, &f), STATUS_OK);
        persist_house_close(&s.h);
        persist_house_open(&s.h, s.path);
    }
    close_scene(&s);
}

Test(damage, any_cut_and_any_byte_more_is_found)
{
    struct scene s;
    open_scene(&s);
    for (uint64_t i = 0; i < s.m.object_count; i++) {
        const struct snapshot_object *o = &s.m.objects[i];
        for (uint32_t k = 0; k < snapshot_array_count(o->kind); k++) {
            size_t bytes;
            char *data = persist_house_read(s.folder, o->files[k].name, &bytes);
            for (size_t cut = 0; cut <= bytes; cut += sweep_stride(5)) {
                if (cut == bytes) continue;
                persist_house_write(s.folder, o->files[k].name, data, cut);
                expect_damage(&s, o, o->files[k].name);
            }
            data[bytes] = 0;
            persist_house_write(s.folder, o->files[k].name, data, bytes + 1);
            expect_damage(&s, o, o->files[k].name);
            persist_house_write(s.folder, o->files[k].name, data, bytes);
            free(data);
        }
    }
    close_scene(&s);
}

Test(damage, any_flipped_or_cut_byte_of_a_manifest_is_found)
{
    struct scene s;
    size_t bytes;
    struct manifest_key none = {0};
    struct manifest m = {0};
    struct failure f = {0};
    open_scene(&s);
    char *text = persist_house_read(s.folder, "manifest.json", &bytes);
    for (size_t at = 0; at < bytes; at++) {
        for (int bit = 0; bit < 8; bit++) {
            text[at] ^= (char)(1 << bit);
            cr_assert_eq(manifest_parse(text, bytes, &none, &m, &f), STATUS_DATA_LOSS, "%zu", at);
            text[at] ^= (char)(1 << bit);
        }
        cr_assert_eq(manifest_parse(text, at, &none, &m, &f), STATUS_DATA_LOSS, "%zu", at);
    }
    cr_assert_eq(manifest_parse(text, bytes, &none, &m, &f), STATUS_OK);
    manifest_free(&m);
    free(text);
    close_scene(&s);
}

Test(damage, files_that_are_none_are_refused)
{
    struct scene s;
    char name[160], other[160];
    open_scene(&s);
    const struct snapshot_object *o = &s.m.objects[0];
    snprintf(name, sizeof name, "%s/%s", s.folder, o->files[0].name);
    snprintf(other, sizeof other, "%s/elsewhere", s.path);
    cr_assert_eq(rename(name, other), 0);
    expect_damage(&s, o, o->files[0].name); /* missing */
    cr_assert_eq(symlink(other, name), 0);
    expect_damage(&s, o, o->files[0].name);
    cr_assert_eq(unlink(name), 0);
    cr_assert_eq(mkdir(name, 0700), 0);
    expect_damage(&s, o, o->files[0].name);
    cr_assert_eq(rmdir(name), 0);
    cr_assert_eq(mkfifo(name, 0600), 0);
    expect_damage(&s, o, o->files[0].name);
    close_scene(&s);
}

/* ---------------------------------------------------------------- what no daemon writes */

/* Prints the manifest with one text in place of another, and with a sum that fits. */
static enum status parse_altered(const struct manifest *m, const char *from, const char *to,
                                 struct failure *f)
{
    struct manifest_key none = {0};
    struct manifest out = {0};
    char *text = NULL;
    size_t bytes = 0;
    cr_assert_eq(manifest_print(m, &none, &text, &bytes, f), STATUS_OK);
    char *end = strstr(text, ",\n\t\"sha256\":\t"), *at = strstr(text, from);
    cr_assert(at && at < end, "%s", from);
    size_t room = bytes + strlen(to) + 256, head = (size_t)(at - text);
    char *altered = calloc(1, room);
    memcpy(altered, text, head);
    strcpy(altered + head, to);
    size_t length = strlen(altered);
    memcpy(altered + length, at + strlen(from), (size_t)(end - at) - strlen(from));
    length = strlen(altered);
    length += manifest_sum_line("sha256", NULL, altered, length);
    strcpy(altered + length, "\n}\n");
    memset(f, 0, sizeof *f);
    enum status st = manifest_parse(altered, length + 3, &none, &out, f);
    manifest_free(&out);
    free(altered);
    free(text);
    return st;
}

/* What a manifest says of the writes that are remembered. */
static void expect_tokens_refused(struct scene *s)
{
    static const char *const cases[][2] = {
        {"\"tokens\":\t{", "tokens\": 7, \"was\":\t{"},
        {"\"name\":\t\"tokens.npy\"", "\"name\":\t\"../tokens.npy\""},
        {"\"bytes\":\t\"168\"", "\"bytes\":\t\"128\""},
        {"\"bytes\":\t\"168\"", "\"bytes\":\t\"1680000000000\""},
        {"\"array\":\t\"tokens\"", "\"array\":\t\"ids\""},
    };
    struct failure f = {0};
    uint64_t piece = 5;
    s->m.tokens = (struct array_entry){
        .name = "tokens.npy", .shape = {NPY_UINT8, 40, 0}, .pieces = &piece, .piece_count = 1};
    cr_assert_eq(parse_altered(&s->m, "true", "false", &f), STATUS_OK, "%s", f.text);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_assert_eq(parse_altered(&s->m, cases[i][0], cases[i][1], &f), STATUS_DATA_LOSS, "%s: %s",
                     cases[i][1], f.text);
    s->m.tokens = (struct array_entry){0};
}

Test(damage, manifests_that_no_daemon_writes_are_refused)
{
    static const struct {
        const char *from, *to, *why;
    } cases[] = {
        {"\"engram-accel snapshot\"", "\"another snapshot\"", "format"},
        {"\"format_version\":\t1", "\"format_version\":\t0", "format_version"},
        {"\"format_version\":\t1", "\"format_version\":\t1.5", "format_version"},
        {"\"format_version\":\t1", "\"format_version\":\t\"1\"", "format_version"},
        {"\"format_version\":\t1", "\"format_version\":\t1, \"format_version\":\t01", "JSON"},
        {"\"objects\":\t[", "\"objects\":\t[,", "JSON"},
        {"\"instance\"", "\"instances\"", "instance"},
        {"\"version\":\t\"", "\"version\":\t\"x", "version"},
        {"\"generation\":\t\"1\"", "\"generation\":\t\"99999999999999999999\"", "generation"},
        {"\"generation\":\t\"1\"", "\"generation\":\t\"111111111111111111111\"", "generation"},
        {"\"generation\":\t\"1\"", "\"generation\":\t\"18446744073709551615\"", "generation"},
        {"\"version\":\t\"", "\"version\":\t\"9223372036854775809\", \"was\":\t\"", "version"},
        {"\"complete\":\ttrue", "\"complete\":\t1", "complete"},
        {"\"objects\":\t[", "\"objects\":\t7, \"was\":\t[", "objects"},
        {"\"space\":\t\"one\"", "\"space\":\t\"../one\"", "space"},
        {"\"space\":\t\"one\"", "\"space\":\t\" one\"", "space"},
        {"\"space\":\t\"one\"", "\"space\":\t7", "space"},
        {"\"name\":\t\"three\"", "\"name\":\t\"th/ree\"", "name"},
        {"\"name\":\t\"three\"", "\"name\":\t\"padded.not\"", "twice"},
        {"\"kind\":\t\"collection\"", "\"kind\":\t\"selection\"", "kind"},
        {"\"kind\":\t\"collection\"", "\"kind\":\tnull", "kind"},
        {"\"dimension\":\t32", "\"dimension\":\t0", "dimension"},
        {"\"dimension\":\t32", "\"dimension\":\t1e9", "dimension"},
        {"\"dimension\":\t32", "\"dimension\":\t31", "bytes"},
        {"\"metric\":\t2", "\"metric\":\t9", "metric"},
        {"\"rows\":\t\"2\"", "\"rows\":\t\"12\"", "bytes"},
        {"\"rows\":\t\"2\"", "\"rows\":\t\"5000000000\"", "rows"},
        {"\"files\":\t[{", "\"files\":\t[], \"was\":\t[{", "files"},
        {"\"name\":\t\"000001-ids.npy\"", "\"name\":\t\"000001-idx.npy\"", "name"},
        {"\"name\":\t\"000001-ids.npy\"", "\"name\":\t\"../../etc/passwd\"", "name"},
        {"\"name\":\t\"000001-ids.npy\"", "\"name\":\t\"/etc/passwd\"", "name"},
        {"\"name\":\t\"000001-ids.npy\"", "\"name\":\t\"1/../../x\"", "name"},
        {"\"name\":\t\"000001-ids.npy\"", "\"name\":\t\"1111111111111-ids.npy\"", "name"},
        {"-ids.npy\"", "-ids.npy.zst\"", "name"},
        {"-ids.npy\"", "-ids.npy\", \"zstd_bytes\":\t\"9\"", "name"},
        {"-ids.npy\"", "-ids.npy.zst\", \"zstd_bytes\":\t9", "zstd_bytes"},
        {"-ids.npy\"", "-ids.npy.zst\", \"zstd_bytes\":\t\"16777217\"", "xxh3"},
        {"\"array\":\t\"ids\"", "\"array\":\t\"rows\"", "array"},
        {"\"type\":\t\"<u8\"", "\"type\":\t\"|O\"", "type"},
        {"\"bytes\":\t\"", "\"bytes\":\t\"1", "bytes"},
        {"\"sha256\":\t\"", "\"sha256\":\t\"0", "sha256"},
        {"\"sha256\":\t\"", "\"sha256\":\t\"X\", \"x\":\t\"", "sha256"},
        {"\"xxh3\":\t[", "\"xxh3\":\t[\"0\", ", "xxh3"},
        {"\"xxh3\":\t[\"", "\"xxh3\":\t[\"Z", "xxh3"},
        {"\"xxh3\":\t[", "\"xxh3\":\t7, \"was\":\t[", "xxh3"},
        {"\"weight_exponent\":\t", "\"weight_exponent\":\t99", "weight_exponent"},
        {"\"in_count_max\":\t", "\"in_count_max\":\t-1", "in_count_max"},
        {"\"out_count_max\":\t", "\"out_count_max\":\t-1", "out_count_max"},
        {"\"nodes\":\t\"", "\"nodes\":\t\"99999999999", "nodes"},
        {"\"edges\":\t\"", "\"edges\":\t\"9", "bytes"},
        {"\"sparsity\":\t", "\"sparsity\":\t7", "sparsity"},
        {"\"rate\":\t", "\"rate\":\t\"x\", \"was\":\t", "rate"},
    };
    struct scene s;
    struct failure f = {0};
    open_scene(&s);
    cr_assert_eq(parse_altered(&s.m, "true", "false", &f), STATUS_OK, "%s", f.text);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum status st = parse_altered(&s.m, cases[i].from, cases[i].to, &f);
        cr_assert_eq(st, STATUS_DATA_LOSS, "%s: %d", cases[i].to, st);
        cr_assert_not_null(strstr(f.text, cases[i].why), "%s: %s", cases[i].to, f.text);
    }
    cr_assert_eq(parse_altered(&s.m, "\"format_version\":\t1", "\"format_version\":\t3", &f),
                 STATUS_FAILED_PRECONDITION);
    cr_assert_not_null(strstr(f.text, "newer"));
    expect_tokens_refused(&s);
    close_scene(&s);
}

/* Writes an array anew, with sums that fit. */
static void forge(struct scene *s, struct array_entry *file, const void *data, size_t bytes)
{
    char name[160];
    struct array_file *a = NULL;
    struct failure f = {0};
    array_entry_free(file);
    snprintf(name, sizeof name, "%s/%s", s->folder, file->name);
    cr_assert_eq(unlink(name), 0);
    cr_assert_eq(array_create(s->fd, file, 0, &a, &f), STATUS_OK, "%s", f.text);
    cr_assert_eq(array_write(a, data, bytes, &f), STATUS_OK);
    cr_assert_eq(array_end_write(a, &f), STATUS_OK, "%s", f.text);
}

static struct snapshot_object *object_named(struct scene *s, const char *name)
{
    for (uint64_t i = 0; i < s->m.object_count; i++)
        if (strcmp(s->m.objects[i].name, name) == 0) return &s->m.objects[i];
    cr_assert_fail("%s", name);
    return NULL;
}

static void expect_contents(struct scene *s, const struct snapshot_object *o, const char *why)
{
    struct failure f;
    enum status st = load_one(s, o, &f);
    cr_assert_eq(st, STATUS_DATA_LOSS, "%d %s", st, f.text);
    cr_assert_not_null(strstr(f.text, why), "%s", f.text);
    cr_assert_eq(persist_house_count(&s->h), 0);
}

Test(damage, contents_that_no_store_has_are_refused)
{
    struct scene s;
    size_t bytes;
    open_scene(&s);
    struct snapshot_object *o = object_named(&s, "three");
    char *data = persist_house_read(s.folder, o->files[1].name, &bytes);
    uint32_t nan = 0x7fc00000;
    memcpy(data + NPY_HEAD_BYTES + 20, &nan, sizeof nan);
    forge(&s, &o->files[1], data + NPY_HEAD_BYTES, bytes - NPY_HEAD_BYTES);
    expect_contents(&s, o, "finite");
    free(data);
    close_scene(&s);
    open_scene(&s);
    o = object_named(&s, "three");
    data = persist_house_read(s.folder, o->files[0].name, &bytes);
    memcpy(data + NPY_HEAD_BYTES, data + NPY_HEAD_BYTES + 8, 8);
    forge(&s, &o->files[0], data + NPY_HEAD_BYTES, bytes - NPY_HEAD_BYTES);
    expect_contents(&s, o, "id");
    free(data);
    o = object_named(&s, "web");
    data = persist_house_read(s.folder, o->files[4].name, &bytes);
    uint64_t stranger = 5;
    memcpy(data + NPY_HEAD_BYTES, &stranger, 8);
    forge(&s, &o->files[4], data + NPY_HEAD_BYTES, bytes - NPY_HEAD_BYTES);
    expect_contents(&s, o, "not there");
    free(data);
    data = persist_house_read(s.folder, o->files[3].name, &bytes);
    memset(data + NPY_HEAD_BYTES + 8, 0xff, 8);
    forge(&s, &o->files[3], data + NPY_HEAD_BYTES, bytes - NPY_HEAD_BYTES);
    expect_contents(&s, o, "offsets");
    free(data);
    o = object_named(&s, "taught");
    data = persist_house_read(s.folder, o->files[0].name, &bytes);
    memcpy(data + NPY_HEAD_BYTES, &nan, sizeof nan);
    forge(&s, &o->files[0], data + NPY_HEAD_BYTES, bytes - NPY_HEAD_BYTES);
    expect_contents(&s, o, "weights");
    free(data);
    close_scene(&s);
}

/* ---------------------------------------------------------------- starts */

static void break_file(const char *path, const char *file)
{
    size_t bytes;
    char *data = persist_house_read(path, file, &bytes);
    data[bytes - 1] ^= 1;
    persist_house_write(path, file, data, bytes);
    free(data);
}

Test(damage, a_start_stops_or_salvages)
{
    char path[64];
    struct failure f;
    uint64_t objects;
    persist_house_folder(path);
    persist_house_make_snapshot(path, false);
    struct persist_house h;
    persist_house_open(&h, path);
    struct persist *p = persist_house_start(&h);
    cr_assert_eq(persist_save(p, true, &f), STATUS_OK);
    persist_destroy(p);
    persist_house_close(&h);
    cr_assert(persist_house_verify(path, ""));
    /* The newest shares its files with the older one, but for the manifest. */
    break_file(path, SECOND "/manifest.json");
    cr_assert_not(persist_house_verify(path, ""));
    cr_assert_eq(persist_house_try(path, "require", &objects, &f), STATUS_DATA_LOSS);
    cr_assert_not_null(strstr(f.text, SECOND ": manifest.json"), "%s", f.text);
    cr_assert_eq(persist_house_try(path, "salvage", &objects, &f), STATUS_OK);
    cr_assert_eq(objects, 7);
    break_file(path, FIRST "/000002-rows.npy");
    cr_assert_eq(persist_house_try(path, "salvage", &objects, &f), STATUS_OK);
    cr_assert_eq(objects, 6); /* no snapshot is whole: what is whole in one */
    break_file(path, FIRST "/manifest.json");
    cr_assert_eq(persist_house_try(path, "salvage", &objects, &f), STATUS_DATA_LOSS);
    cr_assert_eq(objects, 0);
    persist_house_remove(path);
    cr_assert_not(persist_house_verify(path, ""));
}

/* One byte changed, or a cut, anywhere in any file: a start finds it, and a salvage has exactly the
 * objects whose files are whole. ENGRAM_DAMAGE_TRIALS: how many; ENGRAM_DAMAGE_SEED: of which. */
Test(damage, wherever_it_is_it_is_found_and_the_rest_salvaged)
{
    struct scene s;
    char path[64];
    const char *asked = getenv("ENGRAM_DAMAGE_TRIALS"), *seed = getenv("ENGRAM_DAMAGE_SEED");
    uint64_t objects, state = seed ? strtoull(seed, NULL, 10) : 7;
    struct failure f;
    uint32_t trials = asked ? (uint32_t)strtoul(asked, NULL, 10) : 60;
    open_scene(&s);
    strcpy(path, s.path);
    for (uint32_t t = 0; t < trials; t++) {
        char name[ARRAY_NAME_MAX + 1] = "manifest.json";
        size_t bytes, cut;
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint32_t draw = (uint32_t)(state >> 33);
        const struct snapshot_object *o = &s.m.objects[draw % (s.m.object_count + 1)];
        bool of_all = draw % (s.m.object_count + 1) == s.m.object_count;
        if (!of_all) strcpy(name, o->files[draw / 8 % snapshot_array_count(o->kind)].name);
        char *data = persist_house_read(s.folder, name, &bytes);
        char *broken = malloc(bytes);
        memcpy(broken, data, bytes);
        size_t at = draw / 64 % bytes;
        cut = draw % 3 ? bytes : at;
        if (cut == bytes) broken[at] ^= (char)(1 + draw / 512 % 255);
        persist_house_write(s.folder, name, broken, cut);
        enum status st = persist_house_try(path, "require", &objects, &f);
        cr_assert_eq(st, STATUS_DATA_LOSS, "%u: %s, byte %zu: %d %s", t, name, at, st, f.text);
        cr_assert_not_null(strstr(f.text, name), "%s: %s", name, f.text);
        cr_assert_eq(objects, 0);
        st = persist_house_try(path, "salvage", &objects, &f);
        cr_assert_eq(st, of_all ? STATUS_DATA_LOSS : STATUS_OK, "%u: %s", t, f.text);
        cr_assert_eq(objects, of_all ? 0 : 6, "%u: %s", t, name);
        persist_house_write(s.folder, name, data, bytes);
        free(broken);
        free(data);
    }
    cr_assert_eq(persist_house_try(path, "require", &objects, &f), STATUS_OK);
    cr_assert_eq(objects, 7);
    close_scene(&s);
}

Test(damage, a_state_that_no_daemon_wrote_stops_a_start)
{
    char path[64];
    struct failure f;
    uint64_t objects;
    persist_house_folder(path);
    persist_house_make_snapshot(path, false);
    persist_house_write(path, "state", "snapshot 1 generation x\n", 24);
    cr_assert_eq(persist_house_try(path, "require", &objects, &f), STATUS_DATA_LOSS);
    cr_assert_not_null(strstr(f.text, "state"));
    cr_assert_eq(persist_house_try(path, "salvage", &objects, &f), STATUS_OK);
    persist_house_write(path, "state", "snapshot 1 generation 18446744073709551615\n", 43);
    cr_assert_eq(persist_house_try(path, "require", &objects, &f), STATUS_DATA_LOSS);
    cr_assert_not_null(strstr(f.text, "generation: too large"));
    persist_house_write(path, "state", "snapshot 1 generation 7\n", 24);
    cr_assert_eq(persist_house_try(path, "require", &objects, &f), STATUS_OK);
    persist_house_remove(path);
}

Test(damage, a_journal_s_version_that_would_wrap_is_refused)
{
    struct replay r = {0};
    struct journal_write w = {.version = UINT64_MAX};
    struct failure f = {0};
    cr_assert_eq(replay_write(&r, &w, &f), STATUS_DATA_LOSS);
    cr_assert_not_null(strstr(f.text, "version"));
}

Test(damage, what_was_being_written_is_removed)
{
    char path[64], name[128];
    struct failure f;
    uint64_t objects;
    persist_house_folder(path);
    persist_house_make_snapshot(path, false);
    snprintf(name, sizeof name, "%s/.saving-000000000002", path);
    cr_assert_eq(mkdir(name, 0700), 0);
    persist_house_write(name, "000001-rows.npy", "half", 4);
    cr_assert_eq(persist_house_try(path, "require", &objects, &f), STATUS_OK);
    cr_assert_eq(objects, 7);
    cr_assert_neq(access(name, F_OK), 0);
    persist_house_remove(path);
}
