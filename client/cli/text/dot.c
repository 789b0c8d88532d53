#include "client/cli/text/dot.h"

#include "client/cli/interrupt.h"
#include "client/cli/commands/nodes_fetch.h"
#include "client/cli/text/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LABEL_SHOWN 40u /* shown characters of a name */

/* Writes text inside quotes, where only " and \ have a meaning; \n in a label is written by us. */
static void write_text(FILE *out, const char *text, unsigned shown)
{
    const unsigned char *s = (const unsigned char *)text;
    for (unsigned n = 0; *s; n++) {
        unsigned length = utf8_shown(s);
        if (n == shown) {
            fputs("...", out);
            return;
        }
        if (length == 0) {
            fputc('?', out);
            s++;
        } else if (*s == '"' || *s == '\\') {
            fprintf(out, "\\%c", *s++);
        } else {
            fwrite(s, 1, length, out);
            s += length;
        }
    }
}

/* The colour goes from white for 0 to a strong red for `most`; a square root makes differences
 * among weak nodes visible. */
static void write_node(FILE *out, const struct dot_node *n, float most, const struct names *names)
{
    double strength = n->activation > 0 ? sqrt((double)n->activation / (double)most) : 0;
    const char *name = names ? names_find(names, n->id) : NULL;
    fprintf(out, "  \"%" PRIu64 "\" [label=\"", n->id);
    if (name)
        write_text(out, name, LABEL_SHOWN);
    else
        fprintf(out, "%" PRIu64, n->id);
    fprintf(out,
            "\\n%.3g\", fillcolor=\"#%02x%02x%02x\", fontsize=%.1f, width=%.2f, height=%.2f%s];\n",
            (double)n->activation, 255 - (unsigned)(31 * strength),
            255 - (unsigned)(175 * strength), 255 - (unsigned)(185 * strength), 9 + 9 * strength,
            0.5 + 0.9 * strength, 0.3 + 0.5 * strength, n->depth == 0 ? ", peripheries=2" : "");
}

static int by_id(const void *a, const void *b)
{
    const struct dot_node *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

bool dot_begin(struct dot *dot, const char *title, const struct dot_node *nodes, uint64_t count,
               const struct names *names)
{
    *dot = (struct dot){.count = count};
    dot->out = open_memstream(&dot->text, &dot->bytes);
    dot->nodes = reallocarray(NULL, count + 1, sizeof *dot->nodes);
    if (!dot->out || !dot->nodes) return false;
    fputs("digraph \"", dot->out);
    write_text(dot->out, title, UINT32_MAX);
    fputs("\" {\n"
          "  rankdir=LR; bgcolor=\"white\";\n"
          "  node [shape=ellipse, style=filled, color=\"#805050\", fontname=\"sans-serif\", "
          "margin=\"0.05,0.03\"];\n"
          "  edge [color=\"#8080a0\", arrowsize=0.6];\n",
          dot->out);
    float most = 0;
    for (uint64_t i = 0; i < count; i++)
        most = fmaxf(most, nodes[i].activation);
    for (uint64_t i = 0; i < count; i++) {
        write_node(dot->out, &nodes[i], most, names);
        dot->nodes[i] = nodes[i];
    }
    if (count > 1) qsort(dot->nodes, count, sizeof *dot->nodes, by_id);
    return true;
}

bool dot_edges(struct dot *dot, uint64_t source, const uint64_t *targets, const float *weights,
               uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        struct dot_node wanted = {.id = targets[i]};
        bool back = targets[i] < source;
        if (!bsearch(&wanted, dot->nodes, dot->count, sizeof wanted, by_id)) continue;
        if (dot->edge_count == dot->edge_room) {
            size_t room = dot->edge_room ? 2 * dot->edge_room : 256;
            struct dot_edge *edges = reallocarray(dot->edges, room, sizeof *edges);
            if (!edges) return false;
            dot->edges = edges;
            dot->edge_room = room;
        }
        dot->edges[dot->edge_count++] = (struct dot_edge){
            back ? targets[i] : source, back ? source : targets[i], back, weights[i]};
    }
    return true;
}

static int by_ends(const void *a, const void *b)
{
    const struct dot_edge *x = a, *y = b;
    if (x->low != y->low) return x->low < y->low ? -1 : 1;
    if (x->high != y->high) return x->high < y->high ? -1 : 1;
    if (x->back != y->back) return x->back - y->back;
    return (x->weight < y->weight) - (x->weight > y->weight);
}

/* other: the edge that leads back, or NULL. */
static void write_edge(FILE *out, const struct dot_edge *e, const struct dot_edge *other)
{
    double weight = (double)e->weight, back = other ? (double)other->weight : 0;
    fprintf(out, "  \"%" PRIu64 "\" -> \"%" PRIu64 "\" [penwidth=%.2f, tooltip=\"%.4g",
            e->back ? e->high : e->low, e->back ? e->low : e->high,
            0.4 + 1.6 * fmin(fmax(fabs(weight), fabs(back)), 1), weight);
    if (other) fprintf(out, ", back %.4g", back);
    fprintf(out, "\"%s%s];\n", other ? ", dir=both" : "",
            weight < 0 || back < 0 ? ", style=dashed" : "");
}

/* Edges between two nodes in both directions, which are not adjacent in the list, become one
 * line. */
static void write_edges(const struct dot *dot)
{
    const struct dot_edge *all = dot->edges, *end = all + dot->edge_count;
    for (const struct dot_edge *to = all, *fro, *next; to < end; to = next) {
        for (fro = to; fro < end && fro->low == to->low && fro->high == to->high && !fro->back;)
            fro++;
        const struct dot_edge *middle = fro;
        for (next = fro; next < end && next->low == to->low && next->high == to->high;)
            next++;
        while (to < middle || fro < next) {
            const struct dot_edge *e = to < middle ? to++ : NULL,
                                  *other = fro < next ? fro++ : NULL;
            write_edge(dot->out, e ? e : other, e ? other : NULL);
        }
    }
}

bool dot_end(struct dot *dot)
{
    if (dot->edge_count > 1) qsort(dot->edges, dot->edge_count, sizeof *dot->edges, by_ends);
    write_edges(dot);
    fputs("}\n", dot->out);
    bool good = fclose(dot->out) == 0;
    dot->out = NULL;
    return good;
}

void dot_free(struct dot *dot)
{
    if (dot->out) fclose(dot->out);
    free(dot->text);
    free(dot->nodes);
    free(dot->edges);
    *dot = (struct dot){0};
}

/* ---- of an answer ---- */

static int draw_part(const ea_nodes *part, uint64_t first, void *user)
{
    struct dot *dot = user;
    for (uint64_t i = 0; i < part->count; i++) {
        uint64_t from = part->offsets[i];
        if (!dot_edges(dot, dot->nodes[first + i].id, part->targets + from, part->weights + from,
                       part->offsets[i + 1] - from))
            return cli_error(CLI_NO_MEMORY, "--dot: out of memory");
    }
    return CLI_OK;
}

int dot_draw(struct dot *dot, struct cli *cli, const char *graph, const ea_spread_result *answer,
             const struct names *names)
{
    struct dot_node *nodes = reallocarray(NULL, answer->count + 1, sizeof *nodes);
    uint64_t *ids = reallocarray(NULL, answer->count + 1, sizeof *ids);
    int code = nodes && ids ? CLI_OK : cli_error(CLI_NO_MEMORY, "--dot: out of memory");
    for (uint64_t i = 0; !code && i < answer->count; i++)
        nodes[i] = (struct dot_node){answer->ids[i], answer->activations[i], answer->depths[i]};
    if (!code && !dot_begin(dot, graph, nodes, answer->count, names))
        code = cli_error(CLI_NO_MEMORY, "--dot: out of memory");
    for (uint64_t i = 0; !code && i < dot->count; i++)
        ids[i] = dot->nodes[i].id;
    if (!code) code = nodes_fetch(cli, graph, ids, dot->count, true, draw_part, dot);
    if (!code && !dot_end(dot)) code = cli_error(CLI_NO_MEMORY, "--dot: out of memory");
    free(nodes);
    free(ids);
    return code;
}

static int write_file(const char *text, size_t bytes, const char *path, const char *named)
{
    FILE *out = fopen(path, "wbe");
    if (!out) return cli_error(CLI_FILE, "%s: cannot write: %s", named, strerror(errno));
    bool good = fwrite(text, 1, bytes, out) == bytes;
    int error = errno;
    if (fclose(out) == 0 && good) return CLI_OK;
    return cli_error(CLI_FILE, "%s: cannot write: %s", named, strerror(good ? errno : error));
}

int dot_write(const char *text, size_t bytes, const char *path)
{
    struct stat about;
    char *temporary = NULL;
    if (strcmp(path, "-") == 0) {
        fwrite(text, 1, bytes, stdout);
        return CLI_OK;
    }
    /* A device, a pipe or a link must not be replaced. */
    if (lstat(path, &about) == 0 && !S_ISREG(about.st_mode))
        return write_file(text, bytes, path, path);
    if (asprintf(&temporary, "%s.%ld.tmp", path, (long)getpid()) < 0)
        return cli_error(CLI_NO_MEMORY, "%s: out of memory", path);
    interrupt_guard(temporary);
    int code = write_file(text, bytes, temporary, path);
    if (!code && rename(temporary, path) != 0)
        code = cli_error(CLI_FILE, "%s: cannot write: %s", path, strerror(errno));
    if (code) unlink(temporary);
    interrupt_release(temporary);
    free(temporary);
    return code;
}
