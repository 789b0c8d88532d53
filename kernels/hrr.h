/* hrr: holographic binding, the circular convolution of rows, bit for bit, and the table of kernels
 * that a CPU variant fills.
 * Owner:  plans: whoever made them, immutable, shared by threads; scratch: one worker.
 * Thread: any; no state, no allocation.
 * Errors: struct hrr_fault. Inputs are finite when they come here.
 *
 *     bind(a, b)[j]   = sum over i of a[i] b[(j - i) mod d],     d = dimension, 1..16,384
 *     unbind(c, b)    = bind(c, b*),  b*[i] = b[(-i) mod d]      the approximate inverse
 *     unbind_exact    divides in the spectrum of length d
 *
 * All operations are IEEE-754 binary32, round to nearest even, subnormals kept, as canonical.h has
 * it; each line below is one rounding unless it says otherwise. The sign of a zero is left open
 * until the last line of a result, which makes an exact zero +0; it can reach nothing else.
 *
 * Length. A row of d numbers has a plan if d is even and transform.h plans d / 2 points; then
 * N = d. Otherwise N is the least of 4, 8, 16, ... and 6, 12, 24, ... that is at least 2 d - 1, the
 * rows are followed by zeros, and the result is folded. M = N / 2.
 *
 * Scale. E(x) of a row is the exponent of its largest magnitude m, 2^E <= m < 2^(E+1), within
 * -126..126; x[i] 2^-E is what is transformed (exact, but for what becomes subnormal). A row of
 * zeros makes the result zeros. No sum below can overflow.
 *
 * Spectrum. Even and odd elements are the parts of M complex numbers, z_n = x[2n] + i x[2n+1];
 * Z = F(z) by transform.h. Of two operands neither can hide the other's digits, since each has a
 * transform of its own, and one that serves many pairs is transformed once.
 *
 * Product of Y = F(a) and Z = F(b). For k = 0..M/2 and j = (M - k) mod M, with (c, s) = the cosine
 * and sine of 2 pi k / M by transform.h, twice the spectra of even (p, r) and odd (q, t) elements:
 *     p = (Yre[k] + Yre[j], Yim[k] - Yim[j])        q = (Yim[k] + Yim[j], Yre[j] - Yre[k])
 *     r and t likewise from Z
 *     u = (fma(q.re, t.re, -(q.im t.im)), (q.re t.im) + (q.im t.re))       odd times odd
 *     e.re = fma(u.re, c, fma(u.im, s, fma(p.re, r.re, -(p.im r.im))))
 *     e.im = fma(u.im, c, fma(-u.re, s, (p.re r.im) + (p.im r.re)))
 *     o.re = fma(p.re, t.re, -(p.im t.im)) + fma(q.re, r.re, -(q.im r.im))
 *     o.im = fma(p.re, t.im, (p.im t.re)) + fma(r.re, q.im, (r.im q.re))
 *     X[k] = (e.re - o.im, e.im + o.re)             X[j] = (e.re + o.im, o.re - e.im)
 * Products in brackets are rounded. a and b can change places without changing a bit. X is four
 * times the spectrum of the even and odd elements of the convolution.
 *
 * Inverse. x_n = sum over k of X[k] exp(+2 pi i k n / M): F with real and imaginary parts changing
 * places at both ends. y[2n], y[2n+1] = its parts. Without a plan of d: y[j] = y[j] + y[j + d].
 *
 * Result. 2^w is the least power of two that is at least M, f = 2^w / M, rounded, q = E(a) + E(b) -
 * 2 - w, within -252..252, and r = q within -126..126:
 *     t = y 2^(q - r)
 *     c = fma(t, f 2^r, +0)
 * The second alone rounds a number that is not lost anyway. A result that is not finite is a fault.
 *
 * Product of m rows (many). With a plan: X_2 = product(F(x_1), F(x_2)), and for i = 3..m: X is
 * brought to S = X 2^-E, E as in Scale over all its parts, then product(S, F(x_i)); then inverse
 * and result with q = (sum of all E) - 2 (m - 1) - w. Without: y_2 folded, and for i = 3..m the row
 * is u = fma(y, f, +0), then u 2^-E(u), followed by zeros, transformed again; all but the last
 * product add -w to q. m = 1: the row itself. Zeros anywhere make zeros.
 *
 * Exact inverse (c, b, with a plan of d). Y = F(c), Z = F(b); for k = 0..M-1, j as above, (c, s)
 * now of 2 pi k / d, p, q, r, t as above, twice the spectrum of length d at k and k + M:
 *     v = (fma(q.re, c, (q.im s)), fma(q.im, c, -(q.re s)))       w likewise from t
 *     C = p + v, C' = p - v, B = r + w, B' = r - w                by parts
 *     P = fma(B.re, B.re, (B.im B.im))                            P' likewise
 *     g = (fma(C.re, B.re, (C.im B.im)) / P, fma(C.im, B.re, -(C.re B.im)) / P)    g' likewise
 *     e = g + g', h = g - g',  o = (fma(h.re, c, -(h.im s)), fma(h.im, c, (h.re s)))
 *     X[k] = (e.re - o.im, e.im + o.re)
 * then inverse and result with q = E(c) - E(b) - 1 - w. The fault is a zero in the spectrum, at the
 * least index 0..d/2, where P < 2^-18 n; n is the square of the norm of b 2^-E in 32 partial sums,
 * canonical.h's plain dot product: that is |B_k| < 2^-10 ||b||, up to rounding.
 *
 * Error. Every number of bind(a, b) and unbind lies within 4 2^-24 (1 + log2 d) ||a|| ||b|| of the
 * exact sum, plus half of the least subnormal. */
#ifndef ENGRAM_KERNELS_HRR_H
#define ENGRAM_KERNELS_HRR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HRR_DIMENSION_MAX = 16384 };

enum hrr_form {
    HRR_BIND,
    HRR_UNBIND,       /* a is bound to the approximate inverse of b */
    HRR_UNBIND_EXACT, /* only for dimensions with hrr_has_plan */
};

enum hrr_status {
    HRR_OK,
    HRR_OVERFLOW, /* a number of the result is not finite */
    HRR_ZERO,     /* the spectrum of b has a zero: no exact inverse */
    HRR_STOPPED,  /* goes_on said so: there is no result */
};

/* What stopped a run; pairs before it have their results, later ones are not looked at. */
struct hrr_fault {
    enum hrr_status status;
    size_t pair;     /* the first that failed */
    uint32_t index;  /* HRR_ZERO: k in 0..dimension / 2 */
    float magnitude; /* HRR_ZERO: |B_k| */
};

struct hrr_plan;

/* True if the spectrum of this length can be computed by itself. */
bool hrr_has_plan(uint32_t dimension);

/* Returns N, the length in which rows of this dimension are transformed. */
uint32_t hrr_length(uint32_t dimension);

/* True if there is this form of this dimension, on the CPU and on devices alike. */
static inline bool hrr_has_form(uint32_t dimension, enum hrr_form form)
{
    return dimension >= 1 && dimension <= HRR_DIMENSION_MAX &&
           (form != HRR_UNBIND_EXACT || hrr_has_plan(dimension));
}

/* Bytes of the tables of one dimension, a multiple of 64. */
size_t hrr_plan_bytes(uint32_t dimension);

/* Makes the tables in 64-byte aligned memory and returns it as a plan. */
const struct hrr_plan *hrr_plan_make(uint32_t dimension, void *memory);

/* Bytes that one worker needs for runs of this dimension, a multiple of 64. */
size_t hrr_scratch_bytes(uint32_t dimension);

/* n pairs. An operand that is the same pointer as in the pair before is not transformed again. */
struct hrr_pairs {
    const struct hrr_plan *plan;
    void *scratch; /* 64-byte aligned; what was in it does not matter */
    enum hrr_form form;
    const float *const *a; /* count rows of dimension floats, any alignment */
    const float *const *b;
    size_t count;
    float *out;      /* count rows, none of which overlaps an operand of a later pair */
    size_t out_step; /* floats from one row of out to the next */
};

/* The product of count >= 1 rows. */
struct hrr_product {
    const struct hrr_plan *plan;
    void *scratch;
    const float *const *rows;
    size_t count;
    float *out; /* dimension floats; may be one of the rows */
    /* Called between two rows; false: the run stops. NULL: it goes on. */
    bool (*goes_on)(void *owner);
    void *owner;
};

struct hrr_kernels {
    const char *name; /* "scalar", "avx2", "avx512", "neon" */
    struct hrr_fault (*pairs)(const struct hrr_pairs *work);
    struct hrr_fault (*many)(const struct hrr_product *work); /* its pair is 0 */
};

extern const struct hrr_kernels hrr_scalar;
#if defined(__x86_64__)
extern const struct hrr_kernels hrr_avx2;
extern const struct hrr_kernels hrr_avx512;
#elif defined(__aarch64__)
extern const struct hrr_kernels hrr_neon;
#endif

/* Returns the table with the name of a variant of vectors.h, "auto" for the best; NULL if this
 * machine cannot run it. */
const struct hrr_kernels *hrr_choose(const char *name);

#endif
