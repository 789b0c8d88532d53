#include "client/cli/text/svg.h"

#include "client/cli/text/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH       1200.0
#define HEIGHT      820.0
#define RINGS_MAX   16u
#define LABELS_MAX  80u /* of the most active nodes; more would cover each other */
#define LABEL_SHOWN 28u

struct svg_place {
    const struct dot_node *node;
    unsigned ring;
    double angle, x, y, strength;
    bool labelled;
};

struct svg_picture {
    FILE *out;
    struct svg_place *places; /* as dot->nodes, by id */
    struct svg_place **order; /* by ring, then by angle */
    size_t count;
    unsigned rings;
};

static void put_text(FILE *out, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    for (unsigned n = 0; *s; n++) {
        unsigned length = utf8_shown(s);
        if (n == LABEL_SHOWN) {
            fputs("\xe2\x80\xa6", out);
            return;
        }
        if (length == 0)
            fputc('?', out);
        else if (*s == '<')
            fputs("&lt;", out);
        else if (*s == '&')
            fputs("&amp;", out);
        else
            fwrite(s, 1, length, out);
        s += length ? length : 1;
    }
}

static struct svg_place *find(const struct svg_picture *p, uint64_t id)
{
    size_t low = 0, high = p->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (p->places[middle].node->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->count && p->places[low].node->id == id ? &p->places[low] : NULL;
}

static int by_activation(const void *a, const void *b)
{
    const struct svg_place *x = *(struct svg_place *const *)a, *y = *(struct svg_place *const *)b;
    if (x->strength != y->strength) return x->strength > y->strength ? -1 : 1;
    return x->node->id < y->node->id ? -1 : x->node->id > y->node->id;
}

static int by_angle(const void *a, const void *b)
{
    const struct svg_place *x = *(struct svg_place *const *)a, *y = *(struct svg_place *const *)b;
    if (x->ring != y->ring) return x->ring < y->ring ? -1 : 1;
    if (x->angle != y->angle) return x->angle < y->angle ? -1 : 1;
    return x->node->id < y->node->id ? -1 : x->node->id > y->node->id;
}

/* Towards where those of the rings inside are that it is connected with: the sum of their
 * directions. */
static void lean(const struct svg_picture *p, const struct dot *dot, unsigned ring, double *sums)
{
    memset(sums, 0, 2 * p->count * sizeof *sums);
    for (size_t i = 0; i < dot->edge_count; i++) {
        struct svg_place *ends[2] = {find(p, dot->edges[i].low), find(p, dot->edges[i].high)};
        for (unsigned e = 0; e < 2 && ends[0] && ends[1]; e++) {
            const struct svg_place *inner = ends[!e];
            if (ends[e]->ring != ring || inner->ring >= ring) continue;
            size_t at = (size_t)(ends[e] - p->places);
            sums[2 * at] += cos(inner->angle);
            sums[2 * at + 1] += sin(inner->angle);
        }
    }
    for (size_t i = 0; i < p->count; i++)
        if (p->places[i].ring == ring && (sums[2 * i] != 0 || sums[2 * i + 1] != 0))
            p->places[i].angle = atan2(sums[2 * i + 1], sums[2 * i]);
}

/* Spreads the nodes of a ring evenly, in the order of where they lean to. */
static void settle(const struct svg_picture *p, unsigned ring)
{
    size_t first = 0, n = 0;
    qsort(p->order, p->count, sizeof *p->order, by_angle);
    while (first < p->count && p->order[first]->ring < ring)
        first++;
    while (first + n < p->count && p->order[first + n]->ring == ring)
        n++;
    double part = ((double)ring + (n > 1 || ring > 0 ? 0.6 : 0)) / ((double)p->rings - 0.4);
    if (p->rings == 1) part = n > 1 ? 1 : 0;
    for (size_t i = 0; i < n; i++) {
        struct svg_place *place = p->order[first + i];
        place->angle = -M_PI + 2 * M_PI * ((double)i + 0.5) / (double)n;
        place->x = WIDTH / 2 + part * (WIDTH / 2 - 190) * cos(place->angle);
        place->y = HEIGHT / 2 + part * (HEIGHT / 2 - 60) * sin(place->angle);
    }
}

static bool lay_out(struct svg_picture *p, const struct dot *dot)
{
    double *sums = calloc(2 * p->count + 1, sizeof *sums);
    float most = 0;
    for (size_t i = 0; i < p->count; i++)
        most = fmaxf(most, dot->nodes[i].activation);
    for (size_t i = 0; i < p->count; i++) {
        const struct dot_node *n = &dot->nodes[i];
        unsigned ring = n->depth < RINGS_MAX ? n->depth : RINGS_MAX - 1;
        if (ring + 1 > p->rings) p->rings = ring + 1;
        p->places[i] = (struct svg_place){
            .node = n,
            .ring = ring,
            .strength = n->activation > 0 ? sqrt((double)n->activation / (double)most) : 0};
        p->order[i] = &p->places[i];
    }
    qsort(p->order, p->count, sizeof *p->order, by_activation);
    for (size_t i = 0; i < p->count && i < LABELS_MAX; i++)
        p->order[i]->labelled = true;
    for (unsigned ring = 0; sums && ring < p->rings; ring++) {
        lean(p, dot, ring, sums);
        settle(p, ring);
    }
    free(sums);
    return sums != NULL;
}

static void draw_edges(const struct svg_picture *p, const struct dot *dot)
{
    for (size_t i = 0; i < dot->edge_count; i++) {
        const struct dot_edge *e = &dot->edges[i];
        const struct svg_place *a = find(p, e->low), *b = find(p, e->high);
        if (!a || !b) continue;
        fprintf(p->out,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke-width=\"%.2f\"%s/>\n",
                a->x, a->y, b->x, b->y, 0.4 + 1.6 * fmin(fabs((double)e->weight), 1),
                e->weight < 0 ? " stroke-dasharray=\"4 3\"" : "");
    }
}

static void draw_node(const struct svg_picture *p, const struct svg_place *n,
                      const struct names *names)
{
    const char *name = names ? names_find(names, n->node->id) : NULL;
    double radius = 4 + 13 * n->strength, side = cos(n->angle);
    bool middle = fabs(side) < 0.12;
    fprintf(p->out,
            "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"#%02x%02x%02x\"%s><title>%" PRIu64
            ": %.6g</title></circle>\n",
            n->x, n->y, radius, 255 - (unsigned)(31 * n->strength),
            255 - (unsigned)(175 * n->strength), 255 - (unsigned)(185 * n->strength),
            n->node->depth == 0 ? " stroke=\"#402020\" stroke-width=\"3\"" : " stroke=\"#805050\"",
            n->node->id, (double)n->node->activation);
    if (!n->labelled) return;
    fprintf(p->out, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.1f\" text-anchor=\"%s\">",
            n->x + (middle     ? 0
                    : side > 0 ? radius + 4
                               : -radius - 4),
            n->y + (!middle             ? 4
                    : sin(n->angle) > 0 ? radius + 14
                                        : -radius - 5),
            11 + 4 * n->strength,
            middle     ? "middle"
            : side > 0 ? "start"
                       : "end");
    if (name)
        put_text(p->out, name);
    else
        fprintf(p->out, "%" PRIu64, n->node->id);
    fputs("</text>\n", p->out);
}

char *svg_draw(const struct dot *dot, const char *title, const struct names *names, size_t *bytes)
{
    char *text = NULL;
    struct svg_picture p = {.count = dot->count};
    p.places = calloc(p.count + 1, sizeof *p.places);
    p.order = calloc(p.count + 1, sizeof(struct svg_place *));
    p.out = open_memstream(&text, bytes);
    bool good = p.places && p.order && p.out && lay_out(&p, dot);
    if (good) {
        fprintf(p.out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
                "font-family=\"sans-serif\">\n<title>",
                WIDTH, HEIGHT);
        put_text(p.out, title);
        fputs("</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
              "<g stroke=\"#8080a0\" stroke-opacity=\"0.6\">\n",
              p.out);
        draw_edges(&p, dot);
        fputs("</g>\n<g fill=\"#202030\">\n", p.out);
        qsort(p.order, p.count, sizeof *p.order, by_activation); /* the strongest lie on top */
        for (size_t i = p.count; i > 0; i--)
            draw_node(&p, p.order[i - 1], names);
        fputs("</g>\n</svg>\n", p.out);
    }
    if (p.out && fclose(p.out) != 0) good = false;
    free(p.places);
    free(p.order);
    if (good) return text;
    free(text);
    return NULL;
}
