#include "daemon/ops/filter.h"

#include "daemon/base/yield.h"
#include "daemon/ops/operation_inside.h"
#include "daemon/store/id_index.h"

/* Looking an id up costs about as much as testing LOOKUP_ROWS ids against a bitmap. */
enum { LOOKUP_ROWS = 16, BATCH = 64, LONG_ROW_BYTES = 1024 };
enum { SCANT_SHARE = 64, CHECK_EVERY = 128 };

/* Gathering reads allowed rows wherever they are, scanning reads all rows in order. Measured on
 * one core: gathering was faster up to about 85 % of rows of 3 KiB, and up to 25 % of rows of 128
 * bytes. */
static bool gathering_wins(const struct job *j, uint64_t allowed)
{
    uint64_t rows = collection_rows(j->collection);
    bool long_rows = collection_dimension(j->collection) * sizeof(float) >= LONG_ROW_BYTES;
    return allowed <= (long_rows ? rows - rows / 4 : rows / 4);
}

bool filter_is_given(const struct job *j)
{
    return is_present(&j->request.filter_ids) || is_present(&j->request.filter_bitmap);
}

uint64_t filter_allows(const struct job *j)
{
    const struct tensor *bitmap = &j->request.filter_bitmap;
    if (is_present(&j->request.filter_ids)) return j->request.filter_ids.rows;
    return bitmap->rows < UINT64_MAX / 8 ? bitmap->rows * 8 : UINT64_MAX;
}

bool filter_gathers(const struct job *j)
{
    return filter_is_given(j) && gathering_wins(j, filter_allows(j));
}

bool filter_is_scant(const struct job *j, uint64_t allowed)
{
    return allowed < collection_rows(j->collection) / SCANT_SHARE + 1;
}

enum status filter_check(struct job *j)
{
    if (is_present(&j->request.filter_ids) && is_present(&j->request.filter_bitmap))
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_FILTER,
                           "a filter is a list of ids or a bitmap, not both");
    if (filter_is_given(j) && !j->collection)
        return failure_set(&j->failure, STATUS_INVALID_ARGUMENT, DETAIL_BAD_FILTER,
                           "inline rows take no filter");
    return STATUS_OK;
}

static uint64_t bitmap_bytes(uint64_t rows)
{
    return pieces_of(rows, 64) * sizeof(uint64_t);
}

static bool list_wins(const struct job *j, enum filter_want want, uint64_t allowed)
{
    return want == FILTER_LIST || (want == FILTER_EITHER && gathering_wins(j, allowed));
}

/* The most rows that a list made from a bitmap can have. */
static uint64_t list_rows_max(const struct job *j, enum filter_want want)
{
    if (want == FILTER_BITMAP) return 0;
    uint64_t rows = collection_rows(j->collection), bytes = j->request.filter_bitmap.rows;
    uint64_t most = bytes < rows / 8 ? bytes * 8 : rows;
    return list_wins(j, want, most) ? most : rows - rows / 4;
}

uint64_t filter_bytes(const struct job *j, enum filter_want want)
{
    uint64_t bytes = 0, rows = collection_rows(j->collection);
    layout_add(&bytes, bitmap_bytes(rows));
    if (is_present(&j->request.filter_ids)) {
        uint64_t ids = j->request.filter_ids.rows;
        layout_add(&bytes, ids * sizeof(uint32_t));
        layout_add(&bytes, id_index_slots(ids) * sizeof(uint32_t));
    } else {
        layout_add(&bytes, list_rows_max(j, want) * sizeof(uint32_t));
    }
    return bytes;
}

static void set_bit(uint64_t *bitmap, uint64_t row)
{
    bitmap[row / 64] |= UINT64_C(1) << row % 64;
}

static struct filtered resolve_ids(const struct job *j, enum filter_want want, char *memory)
{
    const struct edition *c = j->collection;
    const uint64_t *ids = j->request.filter_ids.data;
    uint64_t count = j->request.filter_ids.rows, rows = collection_rows(c), at = 0;
    uint64_t *bitmap = (uint64_t *)(memory + layout_add(&at, bitmap_bytes(rows)));
    uint32_t *list = (uint32_t *)(memory + layout_add(&at, count * sizeof *list));
    struct id_index seen;
    id_index_borrow(&seen, (uint32_t *)(memory + at), id_index_slots(count));

    uint64_t kept = 0;
    for (uint64_t first = 0; first < count; first += BATCH) {
        uint32_t found[BATCH];
        size_t n = (size_t)smaller(BATCH, count - first);
        yield_check();
        collection_find_rows(c, ids + first, n, found);
        for (size_t i = 0; i < n; i++) {
            if (found[i] == COLLECTION_NO_ROW) continue;
            if (id_index_find(&seen, ids, ids[first + i]) != ID_INDEX_NONE) continue;
            id_index_insert(&seen, ids, (uint32_t)(first + i));
            list[kept++] = found[i];
        }
    }
    if (list_wins(j, want, kept)) return (struct filtered){.list = list, .count = kept};
    yield_clear(bitmap, bitmap_bytes(rows));
    for (uint64_t i = 0; i < kept; i++) {
        if (i % (64 * CHECK_EVERY) == 0) yield_check();
        set_bit(bitmap, list[i]);
    }
    return (struct filtered){.bitmap = bitmap, .count = kept};
}

/* Looks up each id whose bit is set. */
static uint64_t mark_by_bits(const struct job *j, uint64_t *rows_bitmap)
{
    const uint8_t *bytes = j->request.filter_bitmap.data;
    uint64_t first = j->request.filter_bitmap_first, kept = 0;
    for (uint64_t at = 0; at < j->request.filter_bitmap.rows; at++) {
        if (at % CHECK_EVERY == 0) yield_check();
        for (unsigned bits = bytes[at]; bits; bits &= bits - 1) {
            uint64_t i = at * 8 + (unsigned)__builtin_ctz(bits), id = first + i;
            if (id < first) continue; /* the id would be beyond 2^64 */
            uint32_t row = collection_find_row(j->collection, id);
            if (row == COLLECTION_NO_ROW) continue;
            set_bit(rows_bitmap, row);
            kept++;
        }
    }
    return kept;
}

/* Tests the id of every row. */
static uint64_t mark_by_rows(const struct job *j, uint64_t *rows_bitmap)
{
    const uint8_t *bytes = j->request.filter_bitmap.data;
    uint64_t rows = collection_rows(j->collection), kept = 0;
    uint64_t first = j->request.filter_bitmap_first, count = j->request.filter_bitmap.rows * 8;
    for (uint64_t row = 0; row < rows; row += 64) {
        if (row % (64 * CHECK_EVERY) == 0) yield_check();
        uint64_t word = 0, n = smaller(64, rows - row);
        const uint64_t *ids;
        collection_block(j->collection, row, (size_t)n, &ids); /* segments have 64 rows at least */
        for (uint64_t i = 0; i < n; i++) {
            uint64_t bit = ids[i] - first;
            if (ids[i] < first || bit >= count) continue;
            word |= (uint64_t)(bytes[bit / 8] >> bit % 8 & 1) << i;
        }
        rows_bitmap[row / 64] = word;
        kept += (uint64_t)__builtin_popcountll(word);
    }
    return kept;
}

static uint64_t count_bits(const uint8_t *bytes, uint64_t count)
{
    uint64_t bits = 0, i = 0;
    for (; i + 8 <= count; i += 8) {
        uint64_t word;
        if (i % (512 * CHECK_EVERY) == 0) yield_check();
        memcpy(&word, bytes + i, 8);
        bits += (uint64_t)__builtin_popcountll(word);
    }
    for (; i < count; i++)
        bits += (unsigned)__builtin_popcount(bytes[i]);
    return bits;
}

static struct filtered resolve_bitmap(const struct job *j, enum filter_want want, char *memory)
{
    uint64_t rows = collection_rows(j->collection), at = 0;
    uint64_t *bitmap = (uint64_t *)(memory + layout_add(&at, bitmap_bytes(rows)));
    uint32_t *list = (uint32_t *)(memory + at);
    uint64_t bits = count_bits(j->request.filter_bitmap.data, j->request.filter_bitmap.rows);
    uint64_t kept;
    if (bits < rows / LOOKUP_ROWS) {
        yield_clear(bitmap, bitmap_bytes(rows));
        kept = mark_by_bits(j, bitmap);
    } else {
        kept = mark_by_rows(j, bitmap);
    }
    if (!list_wins(j, want, kept)) return (struct filtered){.bitmap = bitmap, .count = kept};
    uint64_t listed = 0;
    for (uint64_t word = 0; word < pieces_of(rows, 64); word++) {
        if (word % CHECK_EVERY == 0) yield_check();
        for (uint64_t left = bitmap[word]; left; left &= left - 1)
            list[listed++] = (uint32_t)(word * 64 + (unsigned)__builtin_ctzll(left));
    }
    return (struct filtered){.list = list, .count = kept};
}

struct filtered filter_resolve(const struct job *j, enum filter_want want, void *memory)
{
    if (is_present(&j->request.filter_ids)) return resolve_ids(j, want, memory);
    return resolve_bitmap(j, want, memory);
}
