#include "daemon/base/yield.h"

#include <string.h>

_Thread_local struct yielder *yield_now;

void yield_clear(void *data, size_t bytes)
{
    enum { PIECE_BYTES = 256 << 10 }; /* a page that is new may take 15 us */
    char *at = data;
    for (size_t n; bytes; at += n, bytes -= n) {
        yield_check();
        n = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
        memset(at, 0, n);
    }
}
