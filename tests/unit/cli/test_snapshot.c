/* Manifests of snapshots as the command line tool reads them: what no daemon writes is refused,
 * with sums that fit. */
#include "client/cli/files/snapshot.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHA "0000000000000000000000000000000000000000000000000000000000000000"
#define FILE_CALLED(name, array, type, bytes)                                                 \
    "{\"name\":\"" name "\",\"array\":\"" array "\",\"type\":\"" type "\",\"bytes\":\"" bytes \
    "\",\"sha256\":\"" SHA "\",\"xxh3\":[\"00000000000000ff\"]}"
#define FILE_OF(array, type, bytes) FILE_CALLED("1-" array ".npy", array, type, bytes)

static const char collection[] =
    "{\"space\":\"one\",\"name\":\"Rows.a\",\"kind\":\"collection\",\"version\":\"5\","
    "\"dimension\":3,\"metric\":2,\"rows\":\"2\",\"files\":[" FILE_OF(
        "ids", "<u8", "144") "," FILE_OF("rows", "<f4", "152") "]}";
static const char graph[] =
    "{\"space\":\"one\",\"name\":\"web\",\"kind\":\"graph\",\"version\":\"6\",\"nodes\":\"2\","
    "\"edges\":\"1\",\"files\":[" FILE_OF("ids", "<u8", "144") "," FILE_OF(
        "kinds", "|u1",
        "130") "," FILE_OF("factors", "<f4",
                           "136") "," FILE_OF("offsets", "<u8",
                                              "152") "," FILE_OF("targets", "<u8",
                                                                 "136") "," FILE_OF("weights",
                                                                                    "<f4",
                                                                                    "132") "]}";
static const char attractor[] =
    "{\"space\":\"one\",\"name\":\"w\",\"kind\":\"attractor\",\"version\":\"7\",\"dimension\":2,"
    "\"sparsity\":0.5,\"rate\":1,\"files\":[" FILE_OF("matrix", "<f4", "144") "]}";
static const char tokens[] = FILE_CALLED("tokens.npy", "tokens", "|u1", "168");

struct scene {
    char path[64];
    char text[8192]; /* of a manifest, without its end */
    struct snapshot s;
    struct snapshot_key key;
};

static void open_scene(struct scene *s)
{
    memset(s, 0, sizeof *s);
    strcpy(s->path, "/tmp/engram-manifest-XXXXXX");
    cr_assert_not_null(mkdtemp(s->path));
    snprintf(s->text, sizeof s->text,
             "{\"format\":\"engram-accel snapshot\",\"format_version\":1,\"instance\":\"9\","
             "\"generation\":\"4\",\"version\":\"8\",\"saved_s\":\"1\",\"complete\":true,"
             "\"objects\":[%s,%s,%s],\"tokens\":%s",
             collection, graph, attractor, tokens);
}

static void name_of(const struct scene *s, const char *file, char name[128])
{
    snprintf(name, 128, "%s%s%s", s->path, *file ? "/" : "", file);
}

static void close_scene(struct scene *s)
{
    char name[128];
    name_of(s, "manifest.json", name);
    unlink(name);
    cr_assert_eq(rmdir(s->path), 0);
}

static void add_sum(char *text, const char *name, const struct snapshot_key *key)
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    size_t bytes = strlen(text);
    if (key)
        HMAC(EVP_sha256(), key->bytes, (int)key->count, (const unsigned char *)text, bytes, sum,
             &length);
    else
        EVP_Digest(text, bytes, sum, &length, EVP_sha256(), NULL);
    sprintf(text + bytes, ",\n\t\"%s\":\t\"", name);
    for (unsigned i = 0; i < length; i++)
        sprintf(text + strlen(text), "%02x", sum[i]);
    strcat(text, "\"");
}

static void write_manifest(const struct scene *s, const char *text)
{
    char name[128];
    name_of(s, "manifest.json", name);
    FILE *out = fopen(name, "w");
    cr_assert_not_null(out);
    fputs(text, out);
    fclose(out);
}

/* With one text in place of another, and sums that fit. */
static bool opens(struct scene *s, const char *from, const char *to, bool is_signed)
{
    static char altered[10240];
    const char *at = strstr(s->text, from);
    cr_assert_not_null(at, "%s", from);
    snprintf(altered, sizeof altered - 512, "%.*s%s%s", (int)(at - s->text), s->text, to,
             at + strlen(from));
    if (is_signed) add_sum(altered, "hmac_sha256", &s->key);
    add_sum(altered, "sha256", NULL);
    strcat(altered, "\n}\n");
    write_manifest(s, altered);
    return snapshot_open(&s->s, s->path, &s->key);
}

Test(snapshot, what_a_daemon_writes_is_read)
{
    struct scene s;
    open_scene(&s);
    cr_assert(opens(&s, "{", "{", false), "%s", s.s.error);
    cr_assert_eq(s.s.count, 3);
    cr_assert_eq(s.s.version, 8);
    cr_assert_eq(s.s.entries[0].files[1].bytes, 152);
    cr_assert_eq(s.s.entries[1].files[5].pieces[0], 255);
    cr_assert_str_eq(s.s.tokens.name, "tokens.npy");
    cr_assert(s.s.complete && !s.s.is_signed);
    snapshot_close(&s.s);
    s.key = (struct snapshot_key){"secret", 6};
    cr_assert_not(opens(&s, "{", "{", false));
    cr_assert(strstr(s.s.error, "hmac_sha256") && s.s.damaged);
    snapshot_close(&s.s);
    cr_assert(opens(&s, "{", "{", true), "%s", s.s.error);
    cr_assert(s.s.is_signed);
    snapshot_close(&s.s);
    close_scene(&s);
}

Test(snapshot, what_no_daemon_writes_is_refused)
{
    static const char *const cases[][3] = {
        {"engram-accel snapshot", "another", "format"},
        {"\"format_version\":1", "\"format_version\":1.5", "format_version"},
        {"\"instance\":\"9\"", "\"instance\":9", "instance"},
        {"\"instance\":\"9\"", "\"instance\":\"99999999999999999999\"", "too large"},
        {"\"generation\":\"4\"", "\"generation\":\"18446744073709551615\"", "generation"},
        {"\"version\":\"8\"", "\"version\":\"9223372036854775809\"", "version"},
        {"\"version\":\"5\"", "\"version\":\"9223372036854775809\"", "version"},
        {"\"saved_s\":\"1\"", "\"saved_s\":\"-1\"", "saved_s"},
        {"\"objects\":[", "\"objects\":7,\"was\":[", "objects"},
        {"\"objects\":[", "\"objects\":[,", "JSON"},
        {"\"space\":\"one\"", "\"space\":\"../one\"", "not a name"},
        {"\"name\":\"Rows.a\"", "\"name\":\"\"", "not a name"},
        {"\"kind\":\"graph\"", "\"kind\":\"graphs\"", "kind"},
        {"\"dimension\":3", "\"dimension\":0", "out of range"},
        {"\"dimension\":3", "\"dimension\":-3", "dimension"},
        {"\"metric\":2", "\"metric\":4", "out of range"},
        {"\"rows\":\"2\"", "\"rows\":\"1099511627776\"", "out of range"},
        {"\"rows\":\"2\"", "\"rows\":\"3\"", "bytes are not"},
        {"\"edges\":\"1\"", "\"edges\":\"\"", "edges"},
        {"\"sparsity\":0.5", "\"sparsity\":1.5", "sparsity"},
        {"\"files\":[", "\"files\":[{},", "files"},
        {"\"1-ids.npy\"", "\"../1-ids.npy\"", "name"},
        {"\"1-ids.npy\"", "\"1-ids.npy.zst\"", "name"},
        {"\"1-ids.npy\"", "\"1-ids.npy\",\"zstd_bytes\":\"9\"", "name"},
        {"\"1-ids.npy\"", "\"1-ids.npy.zst\",\"zstd_bytes\":9", "zstd_bytes"},
        {"\"1-ids.npy\"", "\"1-ids.npy.zst\",\"zstd_bytes\":\"9223372036854775809\"", "too large"},
        {"\"1-ids.npy\"", "\"1-ids.npy.zst\",\"zstd_bytes\":\"16777217\"", "16 MiB"},
        {"\"1-ids.npy\"", "\"1111111111111-ids.npy\"", "name"},
        {"\"array\":\"ids\"", "\"array\":\"rows\"", "another array"},
        {"\"bytes\":\"144\"", "\"bytes\":\"145\"", "bytes are not"},
        {"\"bytes\":\"144\"", "\"bytes\":144", "bytes"},
        {"\"sha256\":\"0", "\"sha256\":\"", "sha256"},
        {"\"xxh3\":[", "\"xxh3\":[\"0\",", "16 MiB"},
        {"\"xxh3\":[\"0", "\"xxh3\":[\"X", "16 hexadecimal"},
        {"\"name\":\"tokens.npy\"", "\"name\":\"/etc/passwd\"", "tokens"},
        {"\"bytes\":\"168\"", "\"bytes\":\"128\"", "tokens"},
        {"\"bytes\":\"168\"", "\"bytes\":\"x\"", "bytes"},
    };
    struct scene s;
    open_scene(&s);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_not(opens(&s, cases[i][0], cases[i][1], false), "%s", cases[i][1]);
        cr_assert(s.s.damaged, "%s", cases[i][1]);
        cr_assert_not_null(strstr(s.s.error, cases[i][2]), "%s: %s", cases[i][1], s.s.error);
        snapshot_close(&s.s);
    }
    cr_assert_not(opens(&s, "\"format_version\":1", "\"format_version\":3", false));
    cr_assert(!s.s.damaged && strstr(s.s.error, "newer"), "%s", s.s.error);
    snapshot_close(&s.s);
    close_scene(&s);
}

Test(snapshot, ends_and_folders_that_are_none_are_refused)
{
    struct scene s;
    char name[128], key[128], error[256];
    open_scene(&s);
    cr_assert_not(snapshot_open(&s.s, s.path, &s.key)); /* empty */
    cr_assert(strstr(s.s.error, "neither") && !s.s.damaged);
    snapshot_close(&s.s);
    name_of(&s, "none", name);
    cr_assert_not(snapshot_open(&s.s, name, &s.key));
    snapshot_close(&s.s);
    static const char *const ends[] = {"", "{\n}", "{\n}\n",
                                       "{\"a\":1,\n\t\"sha256\":\t\"" SHA "\"\n}\n"};
    for (int i = 0; i < 4; i++) {
        write_manifest(&s, ends[i]);
        cr_assert_not(snapshot_open(&s.s, s.path, &s.key));
        cr_assert(s.s.damaged, "%s", ends[i]);
        snapshot_close(&s.s);
    }
    name_of(&s, "manifest.json", key);
    write_manifest(&s, "secret");
    cr_assert(snapshot_key_read(key, &s.key, error, sizeof error));
    cr_assert_eq(s.key.count, 6);
    s.key.count = 0;
    write_manifest(&s, "");
    cr_assert_not(snapshot_key_read(key, &s.key, error, sizeof error));
    cr_assert_not(snapshot_key_read("/nowhere/at/all", &s.key, error, sizeof error));
    cr_assert_eq(unlink(key), 0);
    cr_assert_eq(symlink("/dev/null", key), 0);
    cr_assert_not(snapshot_open(&s.s, s.path, &s.key));
    cr_assert(s.s.damaged && strstr(s.s.error, "symbolic link"));
    snapshot_close(&s.s);
    close_scene(&s);
}

Test(snapshot, the_newest_of_a_folder_is_taken)
{
    struct scene s;
    char folder[128], name[160];
    open_scene(&s);
    strcpy(folder, s.path);
    const char *const names[] = {"snapshot-000000000002", "snapshot-000000000011", "snapshot-12",
                                 "snapshot-00000000001x", "other"};
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "%s/%s", folder, names[i]);
        cr_assert_eq(mkdir(name, 0700), 0);
    }
    strcat(strcat(s.path, "/"), names[1]);
    cr_assert(opens(&s, "{", "{", false));
    snapshot_close(&s.s);
    cr_assert(snapshot_open(&s.s, folder, &s.key), "%s", s.s.error);
    cr_assert_str_eq(s.s.path, s.path);
    snapshot_close(&s.s);
    close_scene(&s);
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "%s/%s", folder, names[i]);
        if (i != 1) cr_assert_eq(rmdir(name), 0);
    }
    cr_assert_eq(rmdir(folder), 0);
}
