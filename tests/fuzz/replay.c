/* replay: runs a fuzz target over its corpus, so that an ordinary test run keeps every input that
 * once mattered. Arguments: files, and folders of files. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned replayed;

static void replay_file(const char *path)
{
    FILE *in = fopen(path, "re");
    uint8_t *data = NULL;
    size_t size = 0, n = 0;
    if (!in) {
        perror(path);
        exit(1);
    }
    do { /* grows to the exact size at the end, so that a sanitizer sees the input's edge */
        size += n;
        data = realloc(data, size + 65536);
        if (!data) abort();
        n = fread(data + size, 1, 65536, in);
    } while (n > 0);
    fclose(in);
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact) abort();
    memcpy(exact, data, size);
    free(data);
    printf("%s\n", path);
    fflush(stdout); /* the last name printed is the one that crashed */
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    replayed++;
}

static int wanted(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void replay_folder(const char *path)
{
    struct dirent **entries;
    int count = scandir(path, &entries, wanted, alphasort);
    for (int i = 0; i < count; i++) {
        char file[4096];
        snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        replay_file(file);
        free(entries[i]);
    }
    if (count >= 0) free(entries);
}

int main(int argc, char **argv)
{
    replay_file("/dev/null"); /* no bytes at all */
    for (int i = 1; i < argc; i++) {
        struct stat sb;
        if (stat(argv[i], &sb) != 0) {
            printf("SKIP %s: no such corpus\n", argv[i]);
            return 77;
        }
        if (S_ISDIR(sb.st_mode))
            replay_folder(argv[i]);
        else
            replay_file(argv[i]);
    }
    printf("%u inputs\n", replayed);
    return 0;
}
