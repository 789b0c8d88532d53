/* Replays the fuzz corpora: what a fuzzer once found stays found on machines without one. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#define LLVMFuzzerTestOneInput fuzz_frame
#include "tests/fuzz/fuzz_frame.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_messages
#include "tests/fuzz/fuzz_messages.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_client_reply
#include "tests/fuzz/fuzz_client_reply.c"
#undef LLVMFuzzerTestOneInput

/* In a block of exactly its size, as libFuzzer gives it. */
static void replay_file(const char *path, int (*target)(const uint8_t *data, size_t size))
{
    FILE *f = fopen(path, "rb");
    cr_assert_not_null(f, "%s", path);
    cr_assert_eq(fseek(f, 0, SEEK_END), 0);
    long size = ftell(f);
    cr_assert(size >= 0);
    rewind(f);
    uint8_t *data = malloc(size ? (size_t)size : 1);
    cr_assert_eq(fread(data, 1, (size_t)size, f), (size_t)size);
    fclose(f);
    target(data, (size_t)size);
    free(data);
}

static void replay(const char *name, int (*target)(const uint8_t *data, size_t size))
{
    char path[600];
    snprintf(path, sizeof path, "tests/fuzz/corpus/%s", name);
    DIR *dir = opendir(path);
    cr_assert_not_null(dir, "%s: run from the repository's root", path);
    unsigned count = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "tests/fuzz/corpus/%s/%s", name, e->d_name);
        replay_file(path, target);
        count++;
    }
    closedir(dir);
    cr_assert(count > 0, "%s: an empty corpus proves nothing", name);
}

Test(corpus, frame)
{
    replay("fuzz_frame", fuzz_frame);
}

Test(corpus, messages)
{
    replay("fuzz_messages", fuzz_messages);
}

Test(corpus, client_reply)
{
    replay("fuzz_client_reply", fuzz_client_reply);
}
