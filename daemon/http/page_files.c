#include "daemon/http/page_files.h"

/* Puts daemon/http/page/FILE here, as NAME and NAME_end. The Makefile says that this hangs on them;
 * they are found from the folder in which make runs. */
#define HOLD(name, file)                                                                \
    extern const char name[], name##_end[];                                             \
    __asm__(".pushsection .rodata, \"a\"\n" #name ":\n.incbin \"daemon/http/page/" file \
            "\"\n" #name "_end:\n.byte 0\n.popsection\n")

HOLD(page_html, "page.html");
HOLD(page_css, "page.css");
HOLD(page_icon, "icon.svg");
HOLD(page_js, "page.js");
HOLD(read_js, "read.js");
HOLD(sample_js, "sample.js");
HOLD(chart_js, "chart.js");
HOLD(tables_js, "tables.js");

static struct page_file held(const char *type, const char *from, const char *to)
{
    return (struct page_file){type, from, (size_t)(to - from)};
}

struct page_file page_files_find(enum guarded_page page)
{
    static const char script[] = "text/javascript; charset=utf-8";
    switch (page) {
    case PAGE_STATUS: return held("text/html; charset=utf-8", page_html, page_html_end);
    case PAGE_CSS: return held("text/css; charset=utf-8", page_css, page_css_end);
    case PAGE_ICON: return held("image/svg+xml", page_icon, page_icon_end);
    case PAGE_JS: return held(script, page_js, page_js_end);
    case PAGE_READ_JS: return held(script, read_js, read_js_end);
    case PAGE_SAMPLE_JS: return held(script, sample_js, sample_js_end);
    case PAGE_CHART_JS: return held(script, chart_js, chart_js_end);
    case PAGE_TABLES_JS: return held(script, tables_js, tables_js_end);
    case PAGE_METRICS:
    case PAGE_SLOW:
    case PAGE_HEALTHZ:
    case PAGE_READYZ: break;
    }
    return (struct page_file){0};
}
