/* reload: has the daemon read its settings file again, and says what became of it. */
#include "client/cli/commands/commands.h"
#include "client/cli/text/format.h"

static void reload_json(uint32_t changed, const ea_setting *list, size_t count)
{
    struct json j;
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_u64(&j, "changed", changed);
    json_array(&j, "want_restart");
    for (size_t i = 0; i < count; i++) {
        if (!list[i].wants_restart) continue;
        json_object(&j, NULL);
        json_string(&j, "name", list[i].name);
        json_string(&j, "value", list[i].value);
        json_string(&j, "asked", list[i].asked);
        json_end(&j);
    }
    json_end(&j);
    json_end(&j);
}

static const char *shown(const char *value)
{
    return *value ? value : "\"\"";
}

static void reload_print(uint32_t changed, const ea_setting *list, size_t count)
{
    struct text a;
    printf("%s changed\n", format_many(&a, changed, "live setting"));
    for (size_t i = 0; i < count; i++)
        if (list[i].wants_restart)
            printf("%s wants a restart: it is %s, and would be %s\n", list[i].name,
                   shown(list[i].value), shown(list[i].asked));
}

static int reload_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    uint32_t changed = 0, want_restart = 0;
    ea_setting *list = NULL;
    size_t count = 0;
    cli_parse(cli, self, NULL, argc, argv);
    int code = cli_connect(cli);
    if (code) return code;
    ea_status status = ea_config_reload(cli->client, &changed, &want_restart);
    if (!status && want_restart) status = ea_config_get(cli->client, &list, &count);
    if (status) return cli_failed(cli, status, NULL);
    if (cli->json)
        reload_json(changed, list, count);
    else
        reload_print(changed, list, count);
    ea_settings_free(list);
    return CLI_OK;
}

const struct command command_reload = {
    "reload",
    "have the daemon read its settings file again",
    "",
    "The daemon reads its file again, with its command line over it, and this waits for the "
    "outcome: "
    "how many live settings changed, and which others differ and want a restart. If anything in "
    "the "
    "file is wrong, the settings in use stay, and file, setting and reason are told (exit code 1). "
    "What \"config set\" set is gone. Only root and the user that the daemon runs as may do it. "
    "systemctl reload does this; SIGHUP has the same effect, but nobody is told but the log.",
    NULL,
    NULL,
    reload_run};
