/* Texts that are refused as settings, each with the message that it gets. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/config.h"

static struct config defaults(void)
{
    struct config c;
    config_defaults(&c);
    return c;
}

/* Reads text over the defaults; nothing may change unless it is accepted. */
static enum status read_text(const char *text, struct config *c, struct failure *f)
{
    *c = defaults();
    struct config before = *c;
    memset(f, 0, sizeof *f);
    enum status st = config_read_text(c, text, strlen(text), "f.json", f);
    if (st) {
        cr_assert_eq(f->code, st);
        cr_assert_eq(memcmp(&before, c, sizeof before), 0, "changed by a refused text: %s", text);
    }
    return st;
}

static void refused(const char *text, const char *message)
{
    struct config c;
    struct failure f;
    cr_expect_eq(read_text(text, &c, &f), STATUS_INVALID_ARGUMENT, "accepted: %s", text);
    cr_expect_str_eq(f.text, message, "\n for: %s\n  got: %s\n want: %s", text, f.text, message);
}

Test(config_refused, wrong_keys)
{
    refused("{\"sockets\": {}}", "f.json: sockets: unknown setting");
    refused("{\"socket\": {\"paths\": \"\"}}", "f.json: socket.paths: unknown setting");
    refused("{\"socket\": {\"Path\": \"/x\"}}", "f.json: socket.Path: unknown setting");
    refused("{\"socket.path\": \"/x\"}", "f.json: socket.path: unknown setting");
    refused("{\"socket\": {\"path\": \"/x\", \"path\": \"/y\"}}",
            "f.json: socket.path: given twice");
    refused("{\"socket\": {}, \"log\": {}, \"socket\": {}}", "f.json: socket: given twice");
    refused("{\"kernels\": \"auto\", \"kernels\": \"auto\"}", "f.json: kernels: given twice");
    refused("{\"\": 1}", "f.json: : unknown setting");
    refused("{\"log\": {\"level.x\": 1}}", "f.json: log.level.x: unknown setting");
    refused("{\"socket\": \"/x\"}", "f.json: socket: a text, an object of settings wanted");
    refused("{\"tcp\": null}", "f.json: tcp: null, an object of settings wanted");
    refused("[]", "f.json: a list, an object of settings wanted");
    refused("7", "f.json: a number, an object of settings wanted");
}

Test(config_refused, wrong_types)
{
    refused("{\"tcp\": {\"port\": \"7\"}}", "f.json: tcp.port: a text, a whole number wanted");
    refused("{\"tcp\": {\"port\": null}}", "f.json: tcp.port: null, a whole number wanted");
    refused("{\"tcp\": {\"port\": [7]}}", "f.json: tcp.port: a list, a whole number wanted");
    refused("{\"tcp\": {\"port\": 7.5}}", "f.json: tcp.port: 7.5 is not a whole number");
    refused("{\"tcp\": {\"enabled\": 1}}", "f.json: tcp.enabled: a number, true or false wanted");
    refused("{\"tcp\": {\"host\": true}}", "f.json: tcp.host: a boolean, a text wanted");
    refused("{\"tcp\": {\"host\": {}}}", "f.json: tcp.host: an object, a text wanted");
    refused("{\"socket\": {\"mode\": 660}}",
            "f.json: socket.mode: a number, octal digits in quotes wanted: \"0660\"");
}

Test(config_refused, out_of_range)
{
    refused("{\"tcp\": {\"port\": 65536}}", "f.json: tcp.port: 65536 is out of range, 0 to 65535");
    refused("{\"tcp\": {\"port\": -1}}", "f.json: tcp.port: -1 is out of range, 0 to 65535");
    refused("{\"tcp\": {\"port\": 1e400}}", "f.json: tcp.port: inf is out of range, 0 to 65535");
    refused("{\"limits\": {\"request_body_mib\": 0}}",
            "f.json: limits.request_body_mib: 0 is out of range, 1 to 1024");
    refused("{\"limits\": {\"output_mib\": 99999999999999999999}}",
            "f.json: limits.output_mib: 1e+20 is out of range, 1 to 65536");
    refused("{\"socket\": {\"mode\": \"1000\"}}",
            "f.json: socket.mode: '1000' is not an octal mode, \"0000\" to \"0777\"");
    refused("{\"socket\": {\"mode\": \"0668\"}}",
            "f.json: socket.mode: '0668' is not an octal mode, \"0000\" to \"0777\"");
    refused("{\"socket\": {\"mode\": \"\"}}",
            "f.json: socket.mode: '' is not an octal mode, \"0000\" to \"0777\"");
    refused("{\"socket\": {\"mode\": \"000000660\"}}",
            "f.json: socket.mode: '000000660' is not an octal mode, \"0000\" to \"0777\"");
    refused("{\"kernels\": \"avx\"}",
            "f.json: kernels: 'avx' is not one of: auto scalar avx2 avx512 neon");
    refused("{\"kernels\": \"\"}",
            "f.json: kernels: '' is not one of: auto scalar avx2 avx512 neon");
    refused("{\"kernels\": \"auto scalar\"}",
            "f.json: kernels: 'auto scalar' is not one of: auto scalar avx2 avx512 neon");
}

Test(config_refused, texts)
{
    refused("{\"socket\": {\"path\": \"a\\nb\"}}",
            "f.json: socket.path: a control character at byte 2");
    refused("{\"socket\": {\"path\": \"\\u007f\"}}",
            "f.json: socket.path: a control character at byte 1");
    refused("{\"tcp\": {\"host\": \"0.0.0.0\"}}",
            "f.json: tcp.host: '0.0.0.0' is not a loopback address (127.0.0.0/8 or ::1)");
    refused("{\"tcp\": {\"host\": \"localhost\"}}",
            "f.json: tcp.host: 'localhost' is not a loopback address (127.0.0.0/8 or ::1)");
    refused("{\"tcp\": {\"host\": \"::\"}}",
            "f.json: tcp.host: '::' is not a loopback address (127.0.0.0/8 or ::1)");
    refused("{\"tcp\": {\"host\": \"\"}}",
            "f.json: tcp.host: '' is not a loopback address (127.0.0.0/8 or ::1)");
    refused("{\"metrics\": {\"listen\": \"0.0.0.0:7424\"}}",
            "f.json: metrics.listen: '0.0.0.0:7424' is not a loopback ADDRESS:PORT or a path");
    refused("{\"metrics\": {\"buckets\": \"10 5\"}}",
            "f.json: metrics.buckets: '10 5' is not up to 24 whole numbers that rise");
    refused("{\"socket\": {\"path\": \"\"}}",
            "f.json: socket.path: empty while tcp.enabled is false: nothing to listen on");

    struct config c;
    struct failure f;
    cr_expect_eq(read_text("{\"tcp\": {\"host\": \"127.255.0.9\"}}", &c, &f), STATUS_OK);
    cr_expect_eq(read_text("{\"socket\": {\"path\": \"\"}, \"tcp\": {\"enabled\": true}}", &c, &f),
                 STATUS_OK, "%s", f.text);

    char path[300], text[400];
    memset(path, 'p', sizeof path);
    path[107] = 0;
    snprintf(text, sizeof text, "{\"socket\": {\"path\": \"%s\"}}", path);
    cr_expect_eq(read_text(text, &c, &f), STATUS_OK);
    cr_expect_str_eq(c.socket_path, path);
    path[107] = 'p';
    path[108] = 0;
    snprintf(text, sizeof text, "{\"socket\": {\"path\": \"%s\"}}", path);
    refused(text, "f.json: socket.path: 108 bytes long, at most 107");
    path[108] = 'p';
    path[256] = 0;
    snprintf(text, sizeof text, "{\"auth\": {\"token_file\": \"%s\"}}", path);
    refused(text, "f.json: auth.token_file: 256 bytes long, at most 255");
}

Test(config_refused, not_json)
{
    refused("", "f.json: line 1, column 1: not JSON: syntax error here or just before");
    refused("{\n  \"log\": {\n",
            "f.json: line 3, column 1: not JSON: syntax error here or just before");
    refused("{\n  \"log\" {}}",
            "f.json: line 2, column 9: not JSON: syntax error here or just before");
    refused("{} {}", "f.json: line 1, column 4: not JSON: syntax error here or just before");
    refused("{\"a\": tru}", "f.json: line 1, column 7: not JSON: syntax error here or just before");
    refused("{\"log\": {\"level\": \"x}}\n",
            "f.json: line 1, column 23: not JSON: control character in a string");
    refused("{\"log\": {\"level\": \"x}}",
            "f.json: line 1, column 19: not JSON: string without an end");
    refused("{\"a\": \"\\", "f.json: line 1, column 7: not JSON: string without an end");
    refused("{\"a\": \"\\u0000\"}",
            "f.json: line 1, column 8: not JSON: zero character in a string");
    refused("{\"a\": 01}", "f.json: line 1, column 7: not JSON: number with a leading zero");
    refused("{\"a\": -}", "f.json: line 1, column 7: not JSON: not a number");
    refused("{\"a\": 1.}", "f.json: line 1, column 7: not JSON: not a number");
    refused("{\"a\": 1e}", "f.json: line 1, column 7: not JSON: not a number");
    refused("{\"a\":\v1}", "f.json: line 1, column 6: not JSON: control character");
    refused("{\"a\": 1,}", "f.json: line 1, column 10: not JSON: syntax error here or just before");
    refused("{\"a\": [[[[[[[[1]]]]]]]]}", "f.json: line 1, column 14: not JSON: nested too deeply");
}

Test(config_refused, bytes_that_are_no_text)
{
    struct config c = defaults();
    struct failure f;
    cr_expect_eq(config_read_text(&c, "{}\0{}", 5, "f", &f), STATUS_INVALID_ARGUMENT);
    cr_expect_str_eq(f.text, "f: line 1, column 3: not JSON: NUL byte");
    cr_expect_eq(config_read_text(&c, NULL, 0, "f", &f), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(config_read_text(&c, "{\"a\\u0000", 4, "f", &f), STATUS_INVALID_ARGUMENT);

    size_t bytes = (1 << 20) + 1;
    char *text = malloc(bytes);
    memset(text, ' ', bytes);
    cr_expect_eq(config_read_text(&c, text, bytes, "f", &f), STATUS_INVALID_ARGUMENT);
    cr_expect_str_eq(f.text, "f: larger than 1048576 bytes");
    memcpy(text, "{}", 2);
    cr_expect_eq(config_read_text(&c, text, bytes - 1, "f", &f), STATUS_OK);
    memset(text, '[', bytes);
    cr_expect_eq(config_read_text(&c, text, bytes - 1, "f", &f), STATUS_INVALID_ARGUMENT);
    cr_expect_str_eq(f.text, "f: line 1, column 9: not JSON: nested too deeply");
    free(text);
}

Test(config_refused, long_names_leave_room_for_the_reason)
{
    char name[400];
    memset(name, 'd', sizeof name);
    strcpy(name + 390, "/x.json");
    name[389] = '\n';
    struct config c = defaults();
    struct failure f;
    cr_expect_eq(config_read_text(&c, "{\"z\": 1}", 8, name, &f), STATUS_INVALID_ARGUMENT);
    cr_expect(strncmp(f.text, "...ddd", 6) == 0, "%s", f.text);
    cr_expect_not_null(strstr(f.text, "?/x.json: z: unknown setting"), "%s", f.text);
    /* No failure wanted is fine too. */
    cr_expect_eq(config_read_text(&c, "{\"z\": 1}", 8, name, NULL), STATUS_INVALID_ARGUMENT);
}
