/* The picture of a spread: valid in Graphviz's grammar, whatever nodes are called. */
#include "client/cli/text/dot.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a strict reader of the part of the language that we write ---- */

struct reader {
    const char *at;
    unsigned nodes, edges;
};

static void skip(struct reader *r)
{
    while (isspace((unsigned char)*r->at))
        r->at++;
}

static bool take(struct reader *r, const char *word)
{
    skip(r);
    if (strncmp(r->at, word, strlen(word)) != 0) return false;
    r->at += strlen(word);
    return true;
}

/* A quoted string: no bare control character, no quote but behind a backslash. */
static bool quoted(struct reader *r)
{
    if (!take(r, "\"")) return false;
    for (; *r->at != '"'; r->at++) {
        cr_assert((unsigned char)*r->at >= 0x20, "a control character, or no end");
        if (*r->at == '\\') r->at++;
        cr_assert((unsigned char)*r->at >= 0x20, "a backslash before the end");
    }
    r->at++;
    return true;
}

static bool word(struct reader *r)
{
    skip(r);
    const char *from = r->at;
    while (isalnum((unsigned char)*r->at) || *r->at == '.' || *r->at == '-' || *r->at == '_')
        r->at++;
    return r->at > from;
}

static void attributes(struct reader *r)
{
    if (!take(r, "[")) return;
    do
        cr_assert(word(r) && take(r, "=") && (quoted(r) || word(r)), "%.60s", r->at);
    while (take(r, ","));
    cr_assert(take(r, "]"), "%.60s", r->at);
}

static void statement(struct reader *r)
{
    if (quoted(r)) {
        bool edge = take(r, "->");
        cr_assert(!edge || quoted(r), "%.60s", r->at);
        *(edge ? &r->edges : &r->nodes) += 1;
        attributes(r);
    } else {
        cr_assert(word(r), "%.60s", r->at);
        if (take(r, "="))
            cr_assert(quoted(r) || word(r), "%.60s", r->at);
        else
            attributes(r);
    }
    cr_assert(take(r, ";"), "%.60s", r->at);
}

static struct reader read_picture(const char *text)
{
    struct reader r = {text, 0, 0};
    cr_assert(take(&r, "digraph") && quoted(&r) && take(&r, "{"), "%.60s", r.at);
    while (!take(&r, "}"))
        statement(&r);
    skip(&r);
    cr_assert(!*r.at, "%.60s", r.at);
    return r;
}

/* ---- */

static const struct dot_node nodes[] = {{7, 1, 0}, {1, 0.25f, 1}, {UINT64_MAX - 1, 1e-30f, 2}};

static void draw(struct dot *dot, const struct names *names)
{
    const uint64_t targets[] = {1, 2, 7, UINT64_MAX - 1};
    const float weights[] = {0.5f, 1, -2, 1e-9f};
    cr_assert(dot_begin(dot, "a \"graph\"", nodes, 3, names));
    cr_assert(dot_edges(dot, 7, targets, weights, 4));
    cr_assert(dot_edges(dot, 1, targets, weights, 0));
    cr_assert(dot_end(dot));
}

Test(dot, nodes_and_the_edges_among_them)
{
    struct dot dot;
    draw(&dot, NULL);
    struct reader r = read_picture(dot.text);
    cr_assert(r.nodes == 3 && r.edges == 3 && dot.edge_count == 3, "%u, %u", r.nodes, r.edges);
    cr_assert(strstr(dot.text, "digraph \"a \\\"graph\\\"\" {\n"));
    cr_assert(strstr(dot.text, "\"7\" [label=\"7\\n1\", fillcolor=\"#e05046\""));
    cr_assert(strstr(dot.text, "peripheries=2"), "seeds have a double line");
    cr_assert(strstr(dot.text, "\"7\" -> \"7\" [penwidth=2.00, tooltip=\"-2\", style=dashed];"));
    cr_assert_null(strstr(dot.text, "-> \"2\""), "2 is not in the picture");
    dot_free(&dot);
}

Test(dot, to_and_fro_is_one_line)
{
    const uint64_t one[] = {7, 7, 1}, seven[] = {1, 1, 1};
    const float of_one[] = {0.25f, -1, 1}, of_seven[] = {0.5f, 0.125f, 1};
    struct dot dot;
    cr_assert(dot_begin(&dot, "g", nodes, 2, NULL));
    cr_assert(dot_edges(&dot, 7, seven, of_seven, 3) && dot_edges(&dot, 1, one, of_one, 3));
    cr_assert(dot_end(&dot));
    struct reader r = read_picture(dot.text);
    cr_assert(r.nodes == 2 && r.edges == 4, "%u, %u", r.nodes, r.edges);
    cr_assert(strstr(dot.text, "  \"1\" -> \"1\" [penwidth=2.00, tooltip=\"1\"];\n"
                               "  \"1\" -> \"7\" [penwidth=2.00, tooltip=\"0.25, back 1\", "
                               "dir=both];\n"
                               "  \"1\" -> \"7\" [penwidth=2.00, tooltip=\"-1, back 0.5\", "
                               "dir=both, style=dashed];\n"
                               "  \"7\" -> \"1\" [penwidth=0.60, tooltip=\"0.125\"];\n"),
              "%s", dot.text);
    dot_free(&dot);
}

Test(dot, hostile_names)
{
    char long_name[200];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    struct name list[] = {
        {1, "\"];\n} evil\\"}, {7, "\xff\xc3\xa9\x1b[2J\x7f"}, {UINT64_MAX - 1, long_name}};
    struct names names = {.list = list, .count = 3};
    struct dot dot;
    draw(&dot, &names);
    struct reader r = read_picture(dot.text);
    cr_assert(r.nodes == 3 && r.edges == 3);
    cr_assert(strstr(dot.text, "label=\"\\\"];?} evil\\\\\\n0.25\""), "%s", dot.text);
    cr_assert(strstr(dot.text, "label=\"?\xc3\xa9?[2J?\\n1\""), "%s", dot.text);
    cr_assert(strstr(dot.text, "xxx...\\n1e-30\""));
    dot_free(&dot);
}

Test(dot, of_nothing)
{
    struct dot dot;
    cr_assert(dot_begin(&dot, "", NULL, 0, NULL) && dot_end(&dot));
    struct reader r = read_picture(dot.text);
    cr_assert(r.nodes == 0 && r.edges == 0);
    dot_free(&dot);
}

Test(dot, file_whole_or_not_at_all)
{
    char folder[] = "/tmp/dot.XXXXXX", path[64], command[64];
    struct dot dot;
    struct stat about;
    cr_assert(mkdtemp(folder));
    draw(&dot, NULL);
    snprintf(path, sizeof path, "%s/a.dot", folder);
    cr_assert_eq(dot_write(dot.text, dot.bytes, path), CLI_OK);
    cr_assert(stat(path, &about) == 0 && (size_t)about.st_size == dot.bytes);
    cr_assert_eq(dot_write(dot.text, dot.bytes, "/dev/full"), CLI_FILE);
    cr_assert(stat("/dev/full", &about) == 0 && S_ISCHR(about.st_mode), "a device stays one");
    snprintf(path, sizeof path, "%s/none/a.dot", folder);
    cr_assert_eq(dot_write(dot.text, dot.bytes, path), CLI_FILE);
    dot_free(&dot);
    snprintf(command, sizeof command, "test \"$(ls %s)\" = a.dot && rm -r %s", folder, folder);
    cr_assert_eq(system(command), 0, "nothing else is left behind");
}
