/* page_files: the status page's files, which stand in the program itself: what was installed needs
 * none of them.
 * Owner:  http; constant.
 * Thread: any.
 * Errors: none. */
#ifndef ENGRAM_HTTP_PAGE_FILES_H
#define ENGRAM_HTTP_PAGE_FILES_H

#include <stddef.h>

#include "daemon/http/guard.h"

struct page_file {
    const char *type; /* of its content, as HTTP names it; NULL: the page is no file */
    const char *data;
    size_t bytes;
};

struct page_file page_files_find(enum guarded_page page);

#endif
