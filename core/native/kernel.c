/* The most expensive loops of solids: stable Neo-Hookean forces of tetrahedra, and solves with a preconditioner's
 * factors. They differ from core/materials/tetrahedra.py, core/solvers/multifrontal.py and core/solvers/two_level.py,
 * which work without this kernel, only in the order of summation.
 *
 * No library is called, not even the C library. core/native checks all arguments.
 */
#include "kernel.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* Number of tetrahedra processed side by side. */
#define LOT 8

/* Return whether the processor and the operating system support the instructions used here. */
SHOWN int32_t dampsim_runs(void)
{
#if defined(__x86_64__)
    uint32_t a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
    if (!(c >> 12 & 1) || !(c >> 27 & 1)) return 0; /* FMA, and OSXSAVE, needed for xgetbv */
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & 6) != 6) return 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 5 & 1); /* AVX2 */
#else
    return 1;
#endif
}

/* Compute the logarithms of LOT numbers >= 1 in place: e ln 2 + 2 artanh((m - 1)/(m + 1)), with m >= sqrt(1/2). */
WIDE static inline void logarithms(double *restrict x)
{
    for (int i = 0; i < LOT; i++) {
        uint64_t bits;
        double m, e;
        __builtin_memcpy(&bits, &x[i], 8);
        uint64_t shifted = bits - 0x3fe6a09e667f3bcdULL; /* sqrt(1/2) */
        uint64_t exponent = (shifted >> 52) & 0x7ff;
        uint64_t mantissa = bits - (exponent << 52);
        uint64_t whole = exponent | 0x4330000000000000ULL;
        __builtin_memcpy(&m, &mantissa, 8);
        __builtin_memcpy(&e, &whole, 8);
        e -= 4503599627370496.0; /* 2^52 */
        double s = (m - 1.0) / (m + 1.0), z = s * s;
        double p = 1.0 / 23.0;
        p = p * z + 1.0 / 21.0;
        p = p * z + 1.0 / 19.0;
        p = p * z + 1.0 / 17.0;
        p = p * z + 1.0 / 15.0;
        p = p * z + 1.0 / 13.0;
        p = p * z + 1.0 / 11.0;
        p = p * z + 1.0 / 9.0;
        p = p * z + 1.0 / 7.0;
        p = p * z + 1.0 / 5.0;
        p = p * z + 1.0 / 3.0;
        p = p * z + 1.0;
        x[i] = e * 0.693147180559945309417 + 2.0 * s * p;
    }
}

/* Return the energy in J of m tetrahedra, a multiple of LOT, and add its gradient to gradient (n, 3) N.
 *
 * Smith, de Goes, Kim, Stable Neo-Hookean Flesh Simulation, 2018, eq. (14)-(16).
 *
 * corners: (m / LOT, 4, LOT) nodes.  inverse: (m / LOT, 3, 3, LOT), entry j, c of D_m^-1.  weights: (m,) m^3.
 * model: mu, lambda, alpha, and the offset subtracted from the energy density.  positions: (n, 3) m.
 */
WIDE SHOWN double dampsim_neo_hookean(int64_t m, const int32_t *restrict corners, const double *restrict inverse,
                                      const double *restrict weights, const double *restrict model,
                                      const double *restrict positions, double *restrict gradient)
{
    const double mu = model[0], lambda = model[1], alpha = model[2], offset = model[3];
    double sums[LOT] = {0.0};
    for (int64_t lot = 0; lot < m / LOT; lot++) {
        const int32_t *of = corners + 4 * LOT * lot;
        const double *D = inverse + 9 * LOT * lot, *w = weights + LOT * lot;
        double edge[3][3][LOT], F[3][3][LOT], P[3][3][LOT], ic[LOT], energy[LOT];
        for (int i = 0; i < LOT; i++) {
            const double *o = positions + 3 * (int64_t)of[i];
            for (int j = 0; j < 3; j++) {
                const double *x = positions + 3 * (int64_t)of[(j + 1) * LOT + i];
                for (int r = 0; r < 3; r++) edge[r][j][i] = x[r] - o[r];
            }
        }
        for (int r = 0; r < 3; r++)
            for (int c = 0; c < 3; c++)
                for (int i = 0; i < LOT; i++)
                    F[r][c][i] = edge[r][0][i] * D[c * LOT + i] + edge[r][1][i] * D[(3 + c) * LOT + i] +
                                 edge[r][2][i] * D[(6 + c) * LOT + i];
        for (int r = 0; r < 3; r++)
            for (int c = 0; c < 3; c++) {
                const int a = (r + 1) % 3, b = (r + 2) % 3, p = (c + 1) % 3, q = (c + 2) % 3;
                for (int i = 0; i < LOT; i++) P[r][c][i] = F[a][p][i] * F[b][q][i] - F[a][q][i] * F[b][p][i];
            }
        for (int i = 0; i < LOT; i++) {
            double squares = 1.0;
            for (int r = 0; r < 3; r++)
                for (int c = 0; c < 3; c++) squares += F[r][c][i] * F[r][c][i];
            ic[i] = energy[i] = squares;
        }
        logarithms(energy);
        for (int i = 0; i < LOT; i++) {
            const double volume = F[0][0][i] * P[0][0][i] + F[0][1][i] * P[0][1][i] + F[0][2][i] * P[0][2][i] - alpha;
            const double density = 0.5 * mu * (ic[i] - 4.0 - energy[i]) + 0.5 * lambda * volume * volume - offset;
            sums[i] += w[i] * density;
            const double along = w[i] * (mu - mu / ic[i]), across = w[i] * lambda * volume;
            for (int r = 0; r < 3; r++)
                for (int c = 0; c < 3; c++) P[r][c][i] = across * P[r][c][i] + along * F[r][c][i];
        }
        for (int j = 0; j < 3; j++)
            for (int r = 0; r < 3; r++)
                for (int i = 0; i < LOT; i++)
                    edge[r][j][i] = P[r][0][i] * D[3 * j * LOT + i] + P[r][1][i] * D[(3 * j + 1) * LOT + i] +
                                    P[r][2][i] * D[(3 * j + 2) * LOT + i];
        for (int i = 0; i < LOT; i++) {
            double *o = gradient + 3 * (int64_t)of[i];
            for (int j = 0; j < 3; j++) {
                double *g = gradient + 3 * (int64_t)of[(j + 1) * LOT + i];
                for (int r = 0; r < 3; r++) g[r] += edge[r][j][i];
            }
            for (int r = 0; r < 3; r++) o[r] -= edge[r][0][i] + edge[r][1][i] + edge[r][2][i];
        }
    }
    double total = 0.0;
    for (int i = 0; i < LOT; i++) total += sums[i];
    return total;
}

/* Write the inverse of the factorised matrix times right (n,) to answer (n,).
 *
 * fronts: (f, 5), for each: first own row, one past its last, start and number of its ancestor rows, start of its matrix.
 * others: ancestor rows that the fronts update.  up: matrices of the fronts, column-major.
 * order: (n,) rows in elimination order.  x: (n,) workspace.  y: workspace of the largest front's number of rows.
 */
WIDE SHOWN void dampsim_solve(int64_t n, int64_t count, const int64_t *restrict fronts, const int32_t *restrict others,
                              const float *restrict up, const int32_t *restrict order, const float *restrict right,
                              float *restrict answer, float *restrict x, float *restrict y)
{
    for (int64_t k = 0; k < n; k++) x[k] = right[order[k]];
    for (int64_t f = 0; f < count; f++) {
        const int64_t *front = fronts + 5 * f, first = front[0], own = front[1] - first, far = front[3], size = own + far;
        const int32_t *rows = others + front[2];
        const float *A = up + front[4];
        for (int64_t k = 0; k < size; k++) y[k] = 0.0f;
        int64_t c = 0;
        for (; c + 4 <= own; c += 4) {
            const float a = x[first + c], b = x[first + c + 1], d = x[first + c + 2], e = x[first + c + 3];
            const float *p = A + c * size, *q = p + size, *r = q + size, *s = r + size;
            for (int64_t k = 0; k < size; k++) y[k] += a * p[k] + b * q[k] + (d * r[k] + e * s[k]);
        }
        for (; c < own; c++) {
            const float a = x[first + c], *p = A + c * size;
            for (int64_t k = 0; k < size; k++) y[k] += a * p[k];
        }
        for (int64_t k = 0; k < own; k++) x[first + k] = y[k];
        for (int64_t k = 0; k < far; k++) x[rows[k]] -= y[own + k];
    }
    for (int64_t f = count - 1; f >= 0; f--) {
        const int64_t *front = fronts + 5 * f, first = front[0], own = front[1] - first, far = front[3], size = own + far;
        const int32_t *rows = others + front[2];
        if (!far) continue;
        const float *A = up + front[4] + own;
        for (int64_t k = 0; k < far; k++) y[k] = x[rows[k]];
        for (int64_t c = 0; c < own; c++) {
            const float *p = A + c * size;
            float sums[16] = {0.0f};
            int64_t k = 0;
            for (; k + 16 <= far; k += 16)
                for (int i = 0; i < 16; i++) sums[i] += p[k + i] * y[k + i];
            for (int i = 0; k + i < far; i++) sums[i] += p[k + i] * y[k + i];
            float total = 0.0f;
            for (int i = 0; i < 16; i++) total += sums[i];
            x[first + c] -= total;
        }
    }
    for (int64_t k = 0; k < n; k++) answer[order[k]] = x[k];
}

/* Compute y = (1 + U + U^T) x in single precision, for blocks (3, 3) of U above a unit diagonal.
 *
 * starts: (n + 1,) first block of each row.  columns: (k,) of the blocks, greater than the row.  blocks: (k, 3, 3).
 * x, y: (n, 3).
 */
WIDE SHOWN void dampsim_blocks(int64_t n, const int64_t *restrict starts, const int32_t *restrict columns,
                               const float *restrict blocks, const float *restrict x, float *restrict y)
{
    for (int64_t k = 0; k < 3 * n; k++) y[k] = x[k];
    for (int64_t row = 0; row < n; row++) {
        const float a = x[3 * row], b = x[3 * row + 1], c = x[3 * row + 2];
        float p = y[3 * row], q = y[3 * row + 1], r = y[3 * row + 2];
        for (int64_t k = starts[row]; k < starts[row + 1]; k++) {
            const float *B = blocks + 9 * k, *u = x + 3 * (int64_t)columns[k];
            float *v = y + 3 * (int64_t)columns[k];
            p += B[0] * u[0] + B[1] * u[1] + B[2] * u[2];
            q += B[3] * u[0] + B[4] * u[1] + B[5] * u[2];
            r += B[6] * u[0] + B[7] * u[1] + B[8] * u[2];
            v[0] += B[0] * a + B[3] * b + B[6] * c;
            v[1] += B[1] * a + B[4] * b + B[7] * c;
            v[2] += B[2] * a + B[5] * b + B[8] * c;
        }
        y[3 * row] = p;
        y[3 * row + 1] = q;
        y[3 * row + 2] = r;
    }
}

#if defined(_WIN32)
/* Symbols that the C library would provide. */
int _fltused = 0;
int __stdcall DllMainCRTStartup(void *module, unsigned reason, void *reserved)
{
    (void)module, (void)reason, (void)reserved;
    return 1;
}
#endif
