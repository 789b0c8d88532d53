/* Swaps and changes: what becomes of the answers, and replies that lie. */
#include <pb_encode.h>
#include <stdlib.h>

#include "client/replies/replies.h"
#include "tests/unit/client/client_rig.h"

TestSuite(objects, .timeout = 60);

/* Two pages of changes; or always the same one, and more to come. */
enum { PAGES, ENDLESS };

static void serve(struct fake_daemon *d, int fd)
{
    static struct fake_request r;
    static struct job j;
    static uint8_t frame[ENCODE_BYTES_MAX];
    const struct wire_object all[] = {
        {OBJECT_COLLECTION, "a", 3}, {OBJECT_COLLECTION, "b", 9}, {OBJECT_GRAPH, "a", 8}};
    if (!fake_hello(d, fd)) return;
    for (unsigned page = 0; fake_read(fd, &r);) {
        memset(&j, 0, sizeof j);
        j.operation = r.header.kind;
        j.key.request_id = r.header.request_id;
        j.result.version = 9;
        j.result.counts[0] = 4;
        bool last = d->argument == PAGES && page;
        size_t bytes =
            r.header.kind == OPERATION_SWAP
                ? encode_swap(&j, frame)
                : encode_changes(&j, last ? all + 2 : all, last ? 1 : 2, !last, 5, frame);
        page += r.header.kind == OPERATION_CHANGES;
        if (!fake_write(fd, frame, bytes)) return;
    }
}

static void begin_with(unsigned argument)
{
    daemon_ = (struct fake_daemon){.argument = argument};
    begin(serve);
}

Test(objects, a_swap_says_both_versions)
{
    ea_swapped swapped = {0};
    begin_with(PAGES);
    OK(ea_swap(client, EA_GRAPH, "a", "~a", &swapped));
    cr_assert(swapped.version == 9 && swapped.replaced_version == 4);
    OK(ea_swap(client, EA_GRAPH, "a", "~a", NULL));
    BAD(ea_swap(NULL, EA_GRAPH, "a", "~a", &swapped));
    BAD(ea_swap(client, EA_GRAPH, NULL, "~a", &swapped));
    BAD(ea_swap(client, EA_GRAPH, "a", NULL, &swapped));
    end();
}

Test(objects, a_swap_of_no_message)
{
    ea_swapped swapped = {.version = 77};
    struct client_request r = {.answer = &swapped};
    struct note note = {0};
    cr_assert_eq(ea_reply_parse_swapped(&r, "\xff\xff\xff", 3, &note), EA_DATA_LOSS);
    cr_assert_eq(swapped.version, 77);
}

Test(objects, changes_come_in_pages)
{
    ea_object_version *list = NULL;
    size_t count = 0;
    uint64_t now = 0, total = 0;
    begin_with(PAGES);
    OK(ea_changes(client, 2, &list, &count, &now, &total));
    cr_assert(count == 3 && now == 9 && total == 5);
    cr_assert(list[1].object == EA_COLLECTION && list[1].version == 9 &&
              !strcmp(list[1].name, "b"));
    cr_assert(list[2].object == EA_GRAPH && list[2].version == 8 && !strcmp(list[2].name, "a"));
    ea_changes_free(list);
    BAD(ea_changes(client, 2, NULL, &count, NULL, NULL));
    end();
}

Test(objects, changes_that_do_not_go_on_end)
{
    ea_object_version *list = NULL;
    size_t count = 0;
    begin_with(ENDLESS);
    cr_assert_eq(ea_changes(client, 2, &list, &count, NULL, NULL), EA_DATA_LOSS);
    cr_assert_null(list);
    end();
}
