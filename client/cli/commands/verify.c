/* verify: whether a snapshot is as it was written, without a daemon. */
#include <inttypes.h>
#include <time.h>

#include "client/cli/commands/commands.h"
#include "client/cli/files/snapshot.h"
#include "client/cli/text/format.h"
#include "client/cli/text/progress.h"

enum { OPTION_KEY = 256 };

struct verify_options {
    const char *path, *key_path;
};

static const struct argp_option verify_options[] = {
    {"key-file", OPTION_KEY, "FILE", 0, "The key that it must be signed with (persist.key_file)",
     0},
    {0}};

static error_t verify_parse(int key, char *value, struct argp_state *state)
{
    struct verify_options *o = state->input;
    switch (key) {
    case OPTION_KEY: o->key_path = value; return 0;
    case ARGP_KEY_ARG:
        if (o->path) argp_error(state, "unexpected argument '%s'", value);
        o->path = value;
        return 0;
    case ARGP_KEY_END:
        if (!o->path) argp_error(state, "a snapshot's DIR is needed, or that of several");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

struct verifying {
    struct snapshot snapshot;
    struct progress progress;
    struct json json;
    uint64_t done, wrong;
};

static bool check_file(struct verifying *v, const struct snapshot_file *file)
{
    struct snapshot_reader r;
    uint64_t before = v->done, bytes = 1;
    bool fine = snapshot_reader_open(&r, &v->snapshot, file, true);
    while (fine && bytes) {
        fine = snapshot_reader_next(&r, &bytes);
        v->done += bytes;
        progress_show(&v->progress, v->done, clock_ns());
    }
    snapshot_reader_close(&r);
    v->done = before + file->bytes;
    return fine;
}

static void tell(struct verifying *v, const struct cli *cli, const struct snapshot_entry *e,
                 bool whole)
{
    struct text a;
    const char *why = whole ? NULL : v->snapshot.error;
    if (!cli->json) {
        progress_finish(&v->progress);
        printf("%-8s %s/%s, %s, version %" PRIu64 ", %s%s%s\n", whole ? "ok" : "DAMAGED", e->space,
               e->name, snapshot_kinds[e->kind], e->version, format_bytes(&a, e->bytes),
               why ? ": " : "", why ? why : "");
        return;
    }
    json_object(&v->json, NULL);
    json_string(&v->json, "space", e->space);
    json_string(&v->json, "kind", snapshot_kinds[e->kind]);
    json_string(&v->json, "name", e->name);
    json_u64(&v->json, "version", e->version);
    json_u64(&v->json, "bytes", e->bytes);
    json_bool(&v->json, "whole", whole);
    json_string(&v->json, "why", why);
    json_end(&v->json);
}

static void begin_json(struct verifying *v)
{
    const struct snapshot *s = &v->snapshot;
    char instance[17];
    snprintf(instance, sizeof instance, "%016" PRIx64, s->instance);
    json_init(&v->json, stdout);
    json_object(&v->json, NULL);
    json_string(&v->json, "path", s->path);
    json_string(&v->json, "instance", instance);
    json_u64(&v->json, "generation", s->generation);
    json_u64(&v->json, "version", s->version);
    json_u64(&v->json, "saved_s", s->saved_s);
    json_bool(&v->json, "of_orderly_stop", s->complete);
    json_bool(&v->json, "signed", s->is_signed);
    json_array(&v->json, "objects");
}

static void end_all(struct verifying *v, const struct cli *cli, bool with_key)
{
    struct text a, b, c;
    struct snapshot *s = &v->snapshot;
    if (cli->json) {
        json_end(&v->json);
        json_u64(&v->json, "bytes", s->bytes);
        json_u64(&v->json, "damaged", v->wrong);
        json_bool(&v->json, "whole", !v->wrong);
        json_end(&v->json);
        return;
    }
    printf("%s: %s, %s, generation %" PRIu64 "%s%s: ", s->path, format_many(&a, s->count, "object"),
           format_bytes(&b, s->bytes), s->generation, s->complete ? ", of an orderly stop" : "",
           !s->is_signed ? ""
           : with_key    ? ", signed"
                         : ", signed (--key-file checks it)");
    if (v->wrong)
        printf("%s damaged\n", format_count(&c, v->wrong));
    else
        printf("ok\n");
}

static int verify_all(struct verifying *v, const struct cli *cli, bool with_key)
{
    struct snapshot *s = &v->snapshot;
    if (cli->json) begin_json(v);
    progress_start(&v->progress, s->bytes, 0, clock_ns());
    int code = CLI_OK;
    for (uint64_t i = 0; i < s->count && !code; i++) {
        bool whole = true;
        for (unsigned k = 0; whole && k < s->entries[i].file_count; k++)
            whole = check_file(v, &s->entries[i].files[k]);
        if (!whole && !s->damaged) code = CLI_FILE;
        v->wrong += !whole;
        tell(v, cli, &s->entries[i], whole);
    }
    if (!code && s->tokens.bytes && !check_file(v, &s->tokens)) {
        code = s->damaged ? CLI_OK : CLI_FILE;
        v->wrong++;
        progress_finish(&v->progress);
        if (s->damaged) cli_error(0, "DAMAGED: tokens of writes: %s", s->error);
    }
    progress_finish(&v->progress);
    if (code) cli_file_error(s->error);
    end_all(v, cli, with_key);
    if (code || !v->wrong) return code;
    return cli_error(CLI_REFUSED, "%s: damaged", s->path);
}

static int verify_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    struct verify_options o = {0};
    struct snapshot_key key = {0};
    static struct verifying v;
    char error[400];
    cli_parse(cli, self, &o, argc, argv);
    if (o.key_path && !snapshot_key_read(o.key_path, &key, error, sizeof error))
        return cli_file_error(error);
    int code = CLI_OK;
    if (snapshot_open(&v.snapshot, o.path, &key))
        code = verify_all(&v, cli, key.count > 0);
    else if (v.snapshot.damaged)
        code = cli_error(CLI_REFUSED, "%s: damaged: %s", v.snapshot.path, v.snapshot.error);
    else
        code = cli_file_error(v.snapshot.error);
    snapshot_close(&v.snapshot);
    return code;
}

const struct command command_verify = {
    "verify",
    "check a snapshot, without a daemon",
    "DIR",
    "Read a snapshot of a daemon and compare it with all its sums: the SHA-256 of each file and of "
    "the manifest, XXH3, and the signature where --key-file has the key. DIR is a snapshot, or a "
    "folder of them, of which the newest is read.\v"
    "It needs no daemon, and only to be allowed to read. Exit status 0: it is whole; 1: it is "
    "damaged, and each object that is says so; 4: something could not be read.",
    verify_options,
    verify_parse,
    verify_run};
