/* help: help, version, and what shells are told to complete. */
#include "client/cli/commands/commands.h"

#include <string.h>

static int help_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    static char help[] = "--help", program[] = "engram-accel";
    char *words[4] = {program, help, NULL, NULL};
    (void)self;
    if (argc == 1 || argv[1][0] == '-') return cli_main(2, words);
    words[0] = argv[1];
    words[1] = argc > 2 ? argv[2] : help;
    words[2] = argc > 2 ? help : NULL;
    return cli_run(cli, argc > 2 ? 3 : 2, words);
}

static int version_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    cli_parse(cli, self, NULL, argc, argv);
    bool reached = cli_try_connect(cli) == EA_OK && ea_get_info(cli->client, &cli->info) == EA_OK;
    if (cli->json) {
        struct json j;
        json_init(&j, stdout);
        json_object(&j, NULL);
        json_string(&j, "tool", ENGRAM_VERSION);
        json_string(&j, "library", ea_library_version());
        json_string(&j, "daemon", reached ? cli->info.server_version : NULL);
        json_end(&j);
        return CLI_OK;
    }
    printf("engram-accel %s (library %s); daemon %s\n", ENGRAM_VERSION, ea_library_version(),
           reached ? cli->info.server_version : "not reached");
    return CLI_OK;
}

/* Bash parts words at '=', too: they are put together again, and what it has of the last one
 * already is cut off. */
static const char bash_script[] =
    "# bash completion for engram-accel; printed by: engram-accel completion bash\n"
    "_engram_accel() {\n"
    "    local word line value words=() glue='' cut\n"
    "    for word in \"${COMP_WORDS[@]:1:COMP_CWORD}\"; do\n"
    "        if [[ $word == = ]]; then glue=1; words[-1]+==; continue; fi\n"
    "        if [[ $glue ]]; then words[-1]+=$word; else words+=(\"$word\"); fi\n"
    "        glue=''\n"
    "    done\n"
    "    word=${words[-1]} COMPREPLY=() cut=''\n"
    "    [[ $word == --*=* ]] && cut=${word%%=*}=\n"
    "    while IFS= read -r line; do\n"
    "        value=${line%%$'\\t'*}\n"
    "        if [[ $value == :files ]]; then\n"
    "            compopt -o filenames 2>/dev/null\n"
    "            while IFS= read -r value; do COMPREPLY+=(\"$value\"); done \\\n"
    "                < <(compgen -f -- \"${word#\"$cut\"}\")\n"
    "        else\n"
    "            COMPREPLY+=(\"${value#\"$cut\"}\")\n"
    "        fi\n"
    "    done < <(\"${COMP_WORDS[0]}\" __complete \"${words[@]}\" 2>/dev/null)\n"
    "}\n"
    "complete -F _engram_accel engram-accel\n";

static const char zsh_script[] =
    "#compdef engram-accel\n"
    "# zsh completion for engram-accel; printed by: engram-accel completion zsh\n"
    "_engram_accel() {\n"
    "    local -a lines values shown\n"
    "    local line value files\n"
    "    lines=(\"${(@f)$(${(Q)words[1]} __complete \"${(@Q)words[2,CURRENT]}\" 2>/dev/null)}\")\n"
    "    for line in $lines; do\n"
    "        value=${line%%$'\\t'*}\n"
    "        if [[ $value == :files ]]; then files=1; continue; fi\n"
    "        [[ -n $value ]] || continue\n"
    "        values+=(\"$value\")\n"
    "        shown+=(\"${line/$'\\t'/  -- }\")\n"
    "    done\n"
    "    if [[ -n $files ]]; then\n"
    "        [[ $PREFIX == --*=* ]] && compset -P '*='\n"
    "        _files\n"
    "    fi\n"
    "    (( $#values )) && compadd -l -d shown -a values\n"
    "}\n"
    "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n"
    "    _engram_accel \"$@\"\n"
    "else\n"
    "    compdef _engram_accel engram-accel\n"
    "fi\n";

static const char fish_script[] =
    "# fish completion for engram-accel; printed by: engram-accel completion fish\n"
    "function __engram_accel_complete\n"
    "    set -l words (commandline -opc) (commandline -ct)\n"
    "    for line in ($words[1] __complete $words[2..-1] 2>/dev/null)\n"
    "        if test \"$line\" = :files\n"
    "            __fish_complete_path (commandline -ct)\n"
    "        else\n"
    "            printf '%s\\n' $line\n"
    "        end\n"
    "    end\n"
    "end\n"
    "complete -c engram-accel -f -a '(__engram_accel_complete)'\n";

static error_t completion_parse(int key, char *text, struct argp_state *state)
{
    const char **script = state->input;
    if (key == ARGP_KEY_NO_ARGS) argp_error(state, "SHELL is needed: bash, zsh or fish");
    if (key != ARGP_KEY_ARG) return ARGP_ERR_UNKNOWN;
    if (state->arg_num) argp_error(state, "unexpected argument '%s'", text);
    if (strcmp(text, "bash") == 0)
        *script = bash_script;
    else if (strcmp(text, "zsh") == 0)
        *script = zsh_script;
    else if (strcmp(text, "fish") == 0)
        *script = fish_script;
    else
        argp_error(state, "SHELL: '%s' is not bash, zsh or fish", text);
    return 0;
}

static int completion_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    const char *script = "";
    cli_parse(cli, self, &script, argc, argv);
    fputs(script, stdout);
    return CLI_OK;
}

const struct command command_help = {
    "help",      "what a command does and takes",
    "[COMMAND]", "Print what the tool, or the command COMMAND, does and takes.",
    NULL,        NULL,
    help_run};
const struct command command_version = {
    "version",
    "versions of tool, library and daemon",
    "",
    "Print the version of this tool, of its library and, if it is there, of the daemon.",
    NULL,
    NULL,
    version_run};
const struct command command_completion = {
    "completion",
    "what a shell needs to complete commands",
    "SHELL",
    "Print the script with which bash, zsh or fish complete commands, options, and the names of "
    "collections, graphs and attractors, which the daemon is asked for. make install puts them "
    "where the shells look; else: eval \"$(engram-accel completion bash)\".",
    NULL,
    completion_parse,
    completion_run};
