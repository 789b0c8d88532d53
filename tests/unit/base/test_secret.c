/* Tokens: the file that one is read from, and the comparison. */
#include "daemon/base/secret.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <criterion/criterion.h>

static char directory[] = "/tmp/engram-secret-XXXXXX", path[64];

static void write_token(const char *text, size_t bytes, mode_t mode)
{
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    cr_assert(fd >= 0 && write(fd, text, bytes) == (ssize_t)bytes);
    cr_assert_eq(fchmod(fd, mode), 0);
    close(fd);
}

static void prepare(void)
{
    cr_assert(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/token", directory);
}

static void clear(void)
{
    unlink(path);
    rmdir(directory);
}

TestSuite(secret, .init = prepare, .fini = clear);

static const struct secret_source from = {"auth.token_file", path, false};

static void refused(const char *why)
{
    struct secret s, before;
    struct failure f = {0};
    memset(&s, 7, sizeof s);
    before = s;
    cr_expect_eq(secret_read(&from, &s, &f), STATUS_INVALID_ARGUMENT, "%s", why);
    cr_expect(strncmp(f.text, "auth.token_file: ", 17) == 0 && strstr(f.text, why), "%s: %s", why,
              f.text);
    cr_expect(memcmp(&s, &before, sizeof s) == 0, "changed");
}

Test(secret, any_bytes_but_line_ends_behind)
{
    struct secret s;
    struct failure f = {0};
    write_token("s\n \0\xff\r\n\n", 8, 0640);
    cr_assert_eq(secret_read(&from, &s, &f), STATUS_OK, "%s", f.text);
    cr_expect(secret_matches(&s, "s\n \0\xff", 5));
    cr_expect_not(secret_matches(&s, "s\n \0\xff\r", 6));
    cr_expect_not(secret_matches(&s, "s\n \0", 4));
    cr_expect_not(secret_matches(&s, "", 0));
}

Test(secret, as_long_as_a_token_may_be)
{
    struct secret s;
    struct failure f = {0};
    char longest[257];
    memset(longest, 'x', sizeof longest);
    longest[255] = '\n';
    write_token(longest, 256, 0600);
    cr_assert_eq(secret_read(&from, &s, &f), STATUS_OK, "%s", f.text);
    cr_expect(secret_matches(&s, longest, 255));
    cr_expect_not(secret_matches(&s, longest, 254));
}

Test(secret, what_is_no_file_for_a_secret)
{
    char longest[257];
    memset(longest, 'x', sizeof longest);
    write_token("x", 1, 0644);
    refused("others may read or change it");
    write_token("x", 1, 0602);
    refused("others may read or change it");
    write_token("x", 1, 0620);
    refused("its group may change it");
    write_token("\r\n", 2, 0600);
    refused("empty");
    write_token(longest, 256, 0600);
    refused("1 to 255 bytes");
    write_token(longest, 257, 0600);
    refused("1 to 255 bytes");
    unlink(path);
    refused("No such file");
    cr_assert_eq(mkfifo(path, 0600), 0);
    refused("not a regular file");
    unlink(path);
    cr_assert_eq(symlink("/dev/null", path), 0);
    refused("not a regular file");
    unlink(path);
    cr_assert_eq(symlink(directory, path), 0);
    refused("not a regular file");
}
