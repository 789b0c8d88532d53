/* info: shows what the daemon is, what it runs on and its limits. */
#include "client/cli/commands/commands.h"
#include "client/cli/text/format.h"

#include <inttypes.h>
#include <string.h>

/* Prints CUDA's 13000 as "13.0". */
static const char *format_cuda(struct text *t, uint32_t version)
{
    snprintf(t->c, sizeof t->c, "%u.%u", version / 1000, version % 1000 / 10);
    return t->c;
}

static const char *unified_memory(const ea_gpu_info *g)
{
    if (g->concurrent_managed) return "unified memory, used by both sides at once";
    return g->managed ? "unified memory, used by one side at a time" : "no unified memory";
}

/* Returns "no driver" if the line before has said "absent" already. */
static const char *plain_why(const ea_gpu_info *g)
{
    const char *state = ea_gpu_state_name(g->state), *colon = strstr(g->why, ": ");
    return colon && strncmp(g->why, state, strlen(state)) == 0 ? colon + 2 : g->why;
}

/* Prints the GPU's state. False: it has never been ready, so that nothing more is known of it. */
static bool gpu_print_state(const ea_gpu_info *g)
{
    struct text a;
    printf("gpu %-10u ", g->number);
    if (!g->name[0]) {
        printf("%s\n", g->why[0] ? g->why : ea_gpu_state_name(g->state));
        return false;
    }
    printf("%s, %s", g->name, ea_gpu_state_name(g->state));
    if (g->uptime_ns) printf(", up %s", format_ns(&a, g->uptime_ns));
    if (g->restarts) printf(", %s", format_many(&a, g->restarts, "restart"));
    printf("\n");
    if (g->why[0]) printf("               %s\n", plain_why(g));
    return true;
}

static void gpu_print(const ea_gpu_info *g)
{
    struct text a, b, c;
    if (!gpu_print_state(g)) return;
    if (!g->simulated)
        printf("               compute capability %u.%u, %s, %s\n", g->capability_major,
               g->capability_minor, format_many(&a, g->multiprocessors, "multiprocessor"),
               g->ecc ? "ECC" : "no ECC");
    printf("               memory %s, free at start %s, of which we may take %s\n",
           format_bytes(&a, g->memory_bytes), format_bytes(&b, g->memory_free_bytes),
           format_bytes(&c, g->budget_bytes));
    printf("               replicas %s; %s\n",
           g->virtual_memory ? "grow in place" : "move when they grow", unified_memory(g));
    if (!g->simulated)
        printf("               CUDA driver %s, runtime %s; %s\n",
               format_cuda(&a, g->driver_version), format_cuda(&b, g->runtime_version), g->uuid);
}

static uint64_t loaded_percent(const ea_info *info)
{
    double share = info->load_bytes ? (double)info->load_bytes_done / (double)info->load_bytes : 0;
    return (uint64_t)(share * 100);
}

/* What is on its way from the disk, and what a salvage left out. */
static void load_print(const ea_info *info)
{
    struct text a, b;
    if (!info->ready)
        printf("loading        %" PRIu64 " %%: %" PRIu64 " of %" PRIu64 " objects, %s of %s\n",
               loaded_percent(info), info->load_objects_done, info->load_objects,
               format_bytes(&a, info->load_bytes_done), format_bytes(&b, info->load_bytes));
    for (uint32_t i = 0; i < info->left_out_shown; i++)
        printf("left out       %s: its snapshot was damaged\n", info->left_out[i]);
    if (info->left_out_count > info->left_out_shown)
        printf("               and %" PRIu64 " more, which the log names\n",
               info->left_out_count - info->left_out_shown);
}

static void info_print(const ea_info *info)
{
    struct text a, b, c;
    printf("version        %s\n", info->server_version);
    printf("build          %s\n", info->build);
    printf("process        %u, up %s\n", info->process_id, format_ns(&a, info->uptime_ns));
    printf("instance       %016" PRIx64 "\n", info->instance);
    load_print(info);
    printf("cpu            %s\n", info->cpu_features);
    printf("kernels        %s, %u workers\n", info->kernels, info->workers);
    if (!info->gpu_count) printf("gpu            %s\n", info->gpu);
    for (uint32_t i = 0; i < info->gpu_count; i++)
        gpu_print(&info->gpus[i]);
    printf("memory         %s of %s\n", format_bytes(&a, info->memory_bytes_used),
           format_bytes(&b, info->memory_bytes_max));
    printf("connections    %u\n", info->connections);
    printf("limits         message %s, body %s, reply %s\n",
           format_bytes(&a, info->message_bytes_max), format_bytes(&b, info->body_bytes_max),
           format_bytes(&c, info->reply_bytes_max));
    printf("               dimension %u, k %u, %u requests in flight\n", info->dimension_max,
           info->k_max, info->in_flight_max);
}

static void gpu_print_json(struct json *j, const ea_gpu_info *g)
{
    struct text t;
    bool known = g->name[0]; /* true once it has been ready */
    json_object(j, NULL);
    json_u64(j, "number", g->number);
    json_string(j, "state", ea_gpu_state_name(g->state));
    json_string(j, "why", g->why);
    json_string(j, "name", g->name);
    json_string(j, "uuid", g->uuid);
    snprintf(t.c, sizeof t.c, "%u.%u", g->capability_major, g->capability_minor);
    json_string(j, "compute_capability", known ? t.c : NULL);
    json_u64(j, "multiprocessors", g->multiprocessors);
    json_u64(j, "memory_bytes", g->memory_bytes);
    json_u64(j, "memory_free_bytes", g->memory_free_bytes);
    json_u64(j, "budget_bytes", g->budget_bytes);
    json_bool(j, "ecc", g->ecc);
    json_bool(j, "unified_memory", g->managed);
    json_bool(j, "concurrent_access", g->concurrent_managed);
    json_bool(j, "virtual_memory", g->virtual_memory);
    json_bool(j, "simulated", g->simulated);
    json_string(j, "driver_version", known ? format_cuda(&t, g->driver_version) : NULL);
    json_string(j, "runtime_version", known ? format_cuda(&t, g->runtime_version) : NULL);
    json_u64(j, "restarts", g->restarts);
    json_u64(j, "uptime_ns", g->uptime_ns);
    json_end(j);
}

static void info_print_json(const ea_info *info)
{
    struct json j;
    char instance[17];
    snprintf(instance, sizeof instance, "%016" PRIx64, info->instance);
    json_init(&j, stdout);
    json_object(&j, NULL);
    json_string(&j, "version", info->server_version);
    json_string(&j, "build", info->build);
    json_string(&j, "cpu_features", info->cpu_features);
    json_string(&j, "kernels", info->kernels);
    json_string(&j, "gpu", info->gpu);
    json_string(&j, "instance", instance);
    json_u64(&j, "workers", info->workers);
    json_u64(&j, "connections", info->connections);
    json_u64(&j, "process_id", info->process_id);
    json_u64(&j, "uptime_ns", info->uptime_ns);
    json_u64(&j, "memory_bytes_used", info->memory_bytes_used);
    json_u64(&j, "memory_bytes_max", info->memory_bytes_max);
    json_object(&j, "limits");
    json_u64(&j, "message_bytes", info->message_bytes_max);
    json_u64(&j, "body_bytes", info->body_bytes_max);
    json_u64(&j, "reply_bytes", info->reply_bytes_max);
    json_u64(&j, "dimension", info->dimension_max);
    json_u64(&j, "k", info->k_max);
    json_u64(&j, "in_flight", info->in_flight_max);
    json_end(&j);
    json_bool(&j, "ready", info->ready);
    json_object(&j, "loading");
    json_u64(&j, "objects", info->load_objects);
    json_u64(&j, "objects_done", info->load_objects_done);
    json_u64(&j, "bytes", info->load_bytes);
    json_u64(&j, "bytes_done", info->load_bytes_done);
    json_end(&j);
    json_u64(&j, "left_out_count", info->left_out_count);
    json_array(&j, "left_out");
    for (uint32_t i = 0; i < info->left_out_shown; i++)
        json_string(&j, NULL, info->left_out[i]);
    json_end(&j);
    json_array(&j, "gpus");
    for (uint32_t i = 0; i < info->gpu_count; i++)
        gpu_print_json(&j, &info->gpus[i]);
    json_end(&j);
    json_end(&j);
}

static int info_run(struct cli *cli, const struct command *self, int argc, char **argv)
{
    cli_parse(cli, self, NULL, argc, argv);
    int code = cli_info(cli);
    if (code) return code;
    if (cli->json)
        info_print_json(&cli->info);
    else
        info_print(&cli->info);
    return CLI_OK;
}

const struct command command_info = {
    "info",  "what the daemon is, runs on and allows",
    "",      "Print the daemon's version, build, processor, GPUs, memory and limits.",
    NULL,    NULL,
    info_run};
