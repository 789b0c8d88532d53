/* The file with the token for /metrics. */
#include "daemon/http/access.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "daemon/base/fault.h"

static struct config config;
static char directory[] = "/tmp/engram-access-XXXXXX";

static void write_token(const char *text, size_t bytes, mode_t mode)
{
    const char *path = config.metrics_token_file;
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    cr_assert(fd >= 0 && write(fd, text, bytes) == (ssize_t)bytes);
    cr_assert_eq(fchmod(fd, mode), 0);
    close(fd);
}

static void prepare(void)
{
    config_defaults(&config);
    cr_assert(mkdtemp(directory));
    snprintf(config.metrics_token_file, CONFIG_TEXT_MAX, "%s/token", directory);
}

static void clear(void)
{
    unlink(config.metrics_token_file);
    rmdir(directory);
}

TestSuite(access, .init = prepare, .fini = clear);

static void refused(const char *why)
{
    struct guard g = {.open = true};
    struct failure f = {0};
    cr_expect_eq(access_read(&config, &g, &f), STATUS_INVALID_ARGUMENT, "%s", why);
    cr_expect(strncmp(f.text, "metrics.token_file: ", 20) == 0 && strstr(f.text, why), "%s: %s",
              why, f.text);
    cr_expect(g.open, "changed");
}

Test(access, tokens)
{
    struct guard g;
    struct failure f = {0};
    char longest[258];
    memset(longest, 'x', sizeof longest);
    write_token("sec-ret\r\n", 9, 0640);
    cr_assert_eq(access_read(&config, &g, &f), STATUS_OK, "%s", f.text);
    cr_assert(!g.open && guard_knows_token(&g, "Bearer sec-ret"));
    memcpy(longest + 255, "\n", 1);
    write_token(longest, 256, 0600);
    cr_assert_eq(access_read(&config, &g, &f), STATUS_OK, "%s", f.text);
    config.metrics_token_file[0] = 0;
    config.metrics_open = true;
    cr_assert_eq(access_read(&config, &g, &f), STATUS_OK, "%s", f.text);
    cr_assert(g.open);
}

Test(access, what_is_no_file_for_a_secret)
{
    char longest[257];
    memset(longest, 'x', sizeof longest);
    write_token("x", 1, 0644);
    refused("others may read or change it");
    write_token("x", 1, 0602);
    refused("others may read or change it");
    write_token("x", 1, 0620);
    refused("its group may change it");
    write_token("", 0, 0600);
    refused("empty");
    write_token("\n\n", 2, 0600);
    refused("empty");
    write_token(longest, 256, 0600);
    refused("1 to 255 visible");
    write_token(longest, 257, 0600);
    refused("1 to 255 visible");
    write_token("a b", 3, 0600);
    refused("1 to 255 visible");
    write_token("a\0b", 3, 0600);
    refused("1 to 255 visible");
    write_token("gr\xfcn", 4, 0600);
    refused("1 to 255 visible");
    unlink(config.metrics_token_file);
    refused("No such file");
    cr_assert_eq(mkfifo(config.metrics_token_file, 0600), 0);
    refused("not a regular file");
    strcpy(config.metrics_token_file, directory);
    refused("not a regular file");
    strcpy(config.metrics_token_file, "");
    refused("empty while metrics.open is false");
}

Test(access, system_calls_fail)
{
    write_token("x", 1, 0600);
    for (uint32_t nth = 1; nth <= 2; nth++) {
        fault_arm(nth);
        refused(nth == 1 ? "Too many open files" : "Input/output error");
        fault_arm(0);
    }
}
