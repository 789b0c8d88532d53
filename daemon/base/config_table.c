#include "daemon/base/config_table.h"

#include <string.h>

#define AT(field) offsetof(struct config, field)

const struct setting config_table[] = {
    {"socket.path", SETTING_TEXT, AT(socket_path), 0, 107, "/run/engram-accel/engram-accel.sock",
     false, NULL, "Unix socket to serve on; empty for none. A stale file is replaced."},
    {"socket.mode", SETTING_OCTAL, AT(socket_mode), 0, 0777, "0660", false, NULL,
     "Permissions of the socket file, in octal."},
    {"tcp.enabled", SETTING_BOOL, AT(tcp_enabled), 0, 1, "false", false, NULL,
     "Serve on TCP too. Traffic is neither encrypted nor, without a token, authenticated."},
    {"tcp.host", SETTING_TEXT, AT(tcp_host), 1, 45, "127.0.0.1", false, NULL,
     "Address to bind; loopback only (127.0.0.0/8 or ::1)."},
    {"tcp.port", SETTING_U32, AT(tcp_port), 0, 65535, "7423", false, NULL,
     "TCP port; 0 lets the system choose, the log says which."},
    {"workers.count", SETTING_U32, AT(worker_count), 0, 256, "0", false, NULL,
     "Threads that compute; 0 for one per processor that may be used."},
    {"workers.pin", SETTING_BOOL, AT(worker_pin), 0, 1, "true", false, NULL,
     "Keep each worker on one processor."},
    {"kernels", SETTING_TEXT, AT(kernels), 1, 16, "auto", false,
     "|auto|scalar|avx2|avx512|neon|",
     "Instruction set of the kernels; auto takes the fastest. Results are the same bits."},
    {"memory.max_mib", SETTING_U64, AT(memory_mib_max), 0, 1ull << 30, "0", false, NULL,
     "MiB that collections, requests and results may take together; 0 for three quarters of RAM."},
    {"memory.cache_mib", SETTING_U64, AT(cache_mib_max), 0, 1ull << 20, "64", true, NULL,
     "MiB of given-back request memory kept for reuse; it goes back to the system when idle."},
    {"limits.request_body_mib", SETTING_U64, AT(body_mib_max), 1, 1024, "64", false, NULL,
     "MiB of one request's tensors. The client library splits larger uploads."},
    {"limits.reply_body_mib", SETTING_U64, AT(reply_mib_max), 1, 4096, "256", false, NULL,
     "MiB of one reply's tensors."},
    {"limits.connections", SETTING_U32, AT(connection_max), 1, 65536, "2048", false, NULL,
     "Connections at once; more are told so and closed."},
    {"limits.requests_in_flight", SETTING_U32, AT(in_flight_max), 1, 65536, "1024", false, NULL,
     "Requests of one connection at once; then its socket is not read until one is answered."},
    {"limits.requests_total", SETTING_U32, AT(job_max), 1, 1048576, "16384", false, NULL,
     "Requests at once; more are refused with a hint to retry."},
    {"limits.output_mib", SETTING_U64, AT(output_mib_max), 1, 65536, "512", true, NULL,
     "MiB of replies that a client may leave unread before it is dropped."},
    {"limits.handshake_ms", SETTING_U32, AT(handshake_ms_max), 10, 3600000, "5000", true, NULL,
     "Milliseconds from connecting to Hello."},
    {"limits.stall_ms", SETTING_U32, AT(stall_ms_max), 10, 3600000, "30000", true, NULL,
     "Milliseconds (and a second per MiB) for a request to arrive once begun, and for a reply to "
     "be read on."},
    {"limits.drain_ms", SETTING_U32, AT(drain_ms_max), 0, 3600000, "10000", true, NULL,
     "Milliseconds that SIGTERM leaves to requests in flight."},
    {"auth.token_file", SETTING_TEXT, AT(token_file), 0, 255, "", false, NULL,
     "File with the token (1 to 255 bytes) that every Hello must carry; empty for none."},
    {"log.level", SETTING_TEXT, AT(log_level), 1, 16, "info", true,
     "|error|warning|info|debug|", "What is logged: error, warning, info or debug."},
};

const size_t config_table_count = sizeof config_table / sizeof *config_table;

static const char *type_name(const struct setting *s)
{
    switch (s->type) {
    case SETTING_TEXT: return "text";
    case SETTING_BOOL: return "true|false";
    case SETTING_OCTAL: return "octal text";
    default: return "number";
    }
}

static bool is_number(const struct setting *s)
{
    return s->type == SETTING_U32 || s->type == SETTING_U64;
}

/* The part of a key before its dot; 0 for none. */
static size_t group_length(const char *key)
{
    const char *dot = strchr(key, '.');
    return dot ? (size_t)(dot - key) : 0;
}

void config_print_sample(FILE *out)
{
    fputs("{\n", out);
    for (size_t i = 0; i < config_table_count; i++) {
        const struct setting *s = &config_table[i];
        size_t group = group_length(s->key);
        bool first = i == 0 || group_length(s[-1].key) != group || !group ||
                     strncmp(s[-1].key, s->key, group) != 0;
        bool last = i + 1 == config_table_count || !group ||
                    group_length(s[1].key) != group || strncmp(s[1].key, s->key, group) != 0;
        if (group && first) fprintf(out, "  \"%.*s\": {\n", (int)group, s->key);
        const char *quote = s->type == SETTING_TEXT || s->type == SETTING_OCTAL ? "\"" : "";
        fprintf(out, "%s\"%s\": %s%s%s", group ? "    " : "  ", s->key + (group ? group + 1 : 0),
                quote, s->initial, quote);
        fputs(last && group ? "\n  }" : "", out);
        fputs(i + 1 == config_table_count ? "\n" : ",\n", out);
    }
    fputs("}\n", out);
}

void config_print_help(FILE *out)
{
    for (size_t i = 0; i < config_table_count; i++) {
        const struct setting *s = &config_table[i];
        fprintf(out, "%s  (%s", s->key, type_name(s));
        if (is_number(s))
            fprintf(out, " %llu..%llu", (unsigned long long)s->least, (unsigned long long)s->most);
        fprintf(out, ", default %s%s)\n    %s\n", s->initial[0] ? s->initial : "empty",
                s->live ? ", SIGHUP applies it" : "", s->help);
    }
}

void config_print_man(FILE *out)
{
    fputs(".SH SETTINGS\nThe file is JSON; a key's dots are nested objects. Keys that SIGHUP "
          "applies are marked live.\n",
          out);
    for (size_t i = 0; i < config_table_count; i++) {
        const struct setting *s = &config_table[i];
        fprintf(out, ".TP\n.BR %s \" (%s, default %s%s)\"\n%s\n", s->key, type_name(s),
                s->initial[0] ? s->initial : "empty", s->live ? ", live" : "", s->help);
    }
}
