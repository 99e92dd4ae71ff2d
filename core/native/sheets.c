/* Sheets: membrane and shell energies with projected Hessians, and conjugate gradients with an incomplete factorisation.
 *
 * The energies are those of core/materials/membrane.py (Corotational) and core/materials/shell_bending.py and differ in
 * the order of summation only. Matrices of 3 x 3 blocks have a row of blocks per free node, with ascending columns.
 */
#include "kernel.h"

/* Smallest ratio of a crushed triangle's area to its rest area, and smallest divisor. */
#define MIN_AREA 1e-12
/* Smallest stretch of a yarn that has a direction; strain from which it stiffens, and its stiffness from there relative
 * to that before. */
#define MIN_STRETCH 1e-12
#define STIFFENING_STRAIN 0.015
#define STIFFENING_RATIO 8.0
#define TINY 1e-30
/* Number of diagonal shifts that are tried. */
#define SHIFTS 12

/* ---- Membrane ---- */

/* Polar decomposition F = R S of a triangle: the columns of F and R, tr S, tr S^2 and S^-1. */
struct polar {
    double f[2][3], r[2][3], trace, squares, inverse[3];
};

WIDE static inline struct polar decompose(const int32_t *corners, const double *shape, const double *positions)
{
    struct polar found;
    double first[3], second[3], normal[3];
    const double *origin = positions + 3 * (int64_t)corners[0];
    subtract(positions + 3 * (int64_t)corners[1], origin, first);
    subtract(positions + 3 * (int64_t)corners[2], origin, second);
    for (int c = 0; c < 2; c++)
        for (int k = 0; k < 3; k++) found.f[c][k] = shape[2 + c] * first[k] + shape[4 + c] * second[k];
    const double aa = dot(found.f[0], found.f[0]), ab = dot(found.f[0], found.f[1]), bb = dot(found.f[1], found.f[1]);
    cross(found.f[0], found.f[1], normal);
    const double area = at_least(__builtin_sqrt(dot(normal, normal)), MIN_AREA);
    found.squares = aa + bb;
    found.trace = __builtin_sqrt(found.squares + 2.0 * area);
    const double scale = 1.0 / (found.trace * area);
    found.inverse[0] = scale * (bb + area);
    found.inverse[1] = -scale * ab;
    found.inverse[2] = scale * (aa + area);
    for (int k = 0; k < 3; k++) {
        found.r[0][k] = found.inverse[0] * found.f[0][k] + found.inverse[1] * found.f[1][k];
        found.r[1][k] = found.inverse[1] * found.f[0][k] + found.inverse[2] * found.f[1][k];
    }
    return found;
}

/* Yarn: its stretch s, at least MIN_STRETCH, phi in J, phi'' and phi'/s. */
struct yarn {
    double stretch, energy, modulus, across;
};

WIDE static inline struct yarn stretched(const double *f, double modulus)
{
    const double stretch = __builtin_sqrt(dot(f, f)), strain = stretch - 1.0;
    const double added = (STIFFENING_RATIO - 1.0) * modulus, beyond = strain - STIFFENING_STRAIN;
    struct yarn found = {at_least(stretch, MIN_STRETCH), 0.5 * modulus * strain * strain, modulus,
                         modulus * strain};
    if (beyond > 0.0) {
        found.energy += 0.5 * added * beyond * beyond;
        found.modulus += added;
        found.across += added * beyond;
    }
    found.across /= found.stretch;
    return found;
}

/* Return the energy in J of m triangles, and add its gradient to gradient (n, 3) N.
 *
 * corners: (m, 3) nodes.  shape: (m, 3, 2) 1/m, gradients of the shape functions.  moduli: (m, 3) mu, lambda and the
 * modulus of the yarns times the weight, J.  positions: (n, 3) m.
 */
WIDE SHOWN double dampsim_membrane(int64_t m, const int32_t *restrict corners, const double *restrict shape,
                                   const double *restrict moduli, const double *restrict positions,
                                   double *restrict gradient)
{
    double total = 0.0;
    for (int64_t e = 0; e < m; e++) {
        const int32_t *of = corners + 3 * e;
        const double *s = shape + 6 * e, mu = moduli[3 * e], lambda = moduli[3 * e + 1], yarn = moduli[3 * e + 2];
        const struct polar it = decompose(of, s, positions);
        const double excess = it.trace - 2.0, along = lambda * excess - 2.0 * mu;
        total += mu * (it.squares - 2.0 * it.trace + 2.0) + 0.5 * lambda * excess * excess;
        struct yarn yarns[2] = {{0}};
        if (yarn > 0.0)
            for (int c = 0; c < 2; c++) {
                yarns[c] = stretched(it.f[c], yarn);
                total += yarns[c].energy;
            }
        double *g[3];
        for (int i = 0; i < 3; i++) g[i] = gradient + 3 * (int64_t)of[i];
        for (int k = 0; k < 3; k++) {
            const double p = (2.0 * mu + yarns[0].across) * it.f[0][k] + along * it.r[0][k];
            const double q = (2.0 * mu + yarns[1].across) * it.f[1][k] + along * it.r[1][k];
            const double first = s[2] * p + s[3] * q, second = s[4] * p + s[5] * q;
            g[1][k] += first;
            g[2][k] += second;
            g[0][k] -= first + second;
        }
    }
    return total;
}

/* Add the positive semi-definite part of the Hessian of m triangles, times factor, to blocks (b, 3, 3).
 *
 * places: (m, 3, 3) index of the block of each pair of corners; -1 where one is not free. Of two transposed blocks, only
 * the one with the lower index is computed.
 */
WIDE SHOWN void dampsim_membrane_blocks(int64_t m, const int32_t *restrict corners, const double *restrict shape,
                                        const double *restrict moduli, double factor,
                                        const double *restrict positions, const int32_t *restrict places,
                                        double *restrict blocks)
{
    for (int64_t e = 0; e < m; e++) {
        const double *s = shape + 6 * e, mu = factor * moduli[3 * e], lambda = factor * moduli[3 * e + 1];
        const double yarn = factor * moduli[3 * e + 2];
        const struct polar it = decompose(corners + 3 * e, s, positions);
        const double k = lambda * (it.trace - 2.0) - 2.0 * mu;
        double rotation = 2.0 * mu + 2.0 * k / it.trace;
        rotation = 0.5 * at_least(rotation, 0.0) - mu;
        /* The positive part of the matrix of motions out of the plane. */
        double a = 2.0 * mu + k * it.inverse[0], b = k * it.inverse[1], c = 2.0 * mu + k * it.inverse[2];
        const double middle = 0.5 * (a + c), half = 0.5 * (a - c), radius = __builtin_sqrt(half * half + b * b);
        const double high = at_least(middle + radius, 0.0), low = at_least(middle - radius, 0.0);
        const double mean = 0.5 * (high + low), part = 0.5 * (high - low) / at_least(radius, 1e-300);
        a = mean + part * half;
        b = part * b;
        c = mean - part * half;
        double normal[3];
        cross(it.r[0], it.r[1], normal);
        /* Of the yarns: phi'/s if positive, and (phi'' - phi'/s)/s^2 for the matrix f f^T. */
        double spread[2] = {0.0, 0.0}, tensile[2] = {0.0, 0.0};
        if (yarn > 0.0)
            for (int c = 0; c < 2; c++) {
                const struct yarn one = stretched(it.f[c], yarn);
                spread[c] = at_least(one.across, 0.0);
                tensile[c] = (one.modulus - spread[c]) / (one.stretch * one.stretch);
            }
        for (int i = 0; i < 3; i++)
            for (int j = i; j < 3; j++) {
                const int32_t place = places[9 * e + 3 * i + j], other = places[9 * e + 3 * j + i];
                if (place < 0) continue;
                const double *g = s + 2 * i, *h = s + 2 * j;
                const double first = g[0] * h[0], mixed = g[0] * h[1], crossed = g[1] * h[0], second = g[1] * h[1];
                const double isotropic = 2.0 * mu * (first + second);
                const double across = a * first + b * (mixed + crossed) + c * second;
                const double m11 = lambda * first + rotation * second + isotropic;
                const double m12 = lambda * mixed - rotation * crossed, m21 = lambda * crossed - rotation * mixed;
                const double m22 = lambda * second + rotation * first + isotropic;
                double found[9];
                for (int y = 0; y < 3; y++) {
                    const double p = m11 * it.r[0][y] + m12 * it.r[1][y], q = m21 * it.r[0][y] + m22 * it.r[1][y];
                    for (int x = 0; x < 3; x++)
                        found[3 * x + y] = it.r[0][x] * p + it.r[1][x] * q + across * normal[x] * normal[y];
                }
                if (yarn > 0.0) {
                    const double warp = first * tensile[0], weft = second * tensile[1];
                    for (int x = 0; x < 3; x++)
                        for (int y = 0; y < 3; y++)
                            found[3 * x + y] += warp * it.f[0][x] * it.f[0][y] + weft * it.f[1][x] * it.f[1][y];
                    for (int x = 0; x < 3; x++) found[4 * x] += first * spread[0] + second * spread[1];
                }
                double *into = blocks + 9 * (int64_t)(place < other ? place : other);
                if (place <= other)
                    for (int x = 0; x < 9; x++) into[x] += found[x];
                else
                    for (int x = 0; x < 3; x++)
                        for (int y = 0; y < 3; y++) into[3 * y + x] += found[3 * x + y];
            }
    }
}

/* ---- Shell ---- */

/* Write the slopes (12,) 1/m of a hinge's angle by its four nodes, and return the angle. */
WIDE static inline double hinge(const int32_t *nodes, const double *positions, double *slopes)
{
    double e[3], left[3], right[3], first[3], second[3], out[3];
    const double *origin = positions + 3 * (int64_t)nodes[0];
    subtract(positions + 3 * (int64_t)nodes[1], origin, e);
    subtract(positions + 3 * (int64_t)nodes[2], origin, left);
    subtract(positions + 3 * (int64_t)nodes[3], origin, right);
    cross(e, left, first);
    cross(right, e, second);
    cross(first, second, out);
    const double length = at_least(__builtin_sqrt(dot(e, e)), TINY);
    const double one = at_least(dot(first, first), TINY), other = at_least(dot(second, second), TINY);
    const double here = dot(left, e) / (length * length), there = dot(right, e) / (length * length);
    for (int k = 0; k < 3; k++) {
        const double a = -length * first[k] / one, b = -length * second[k] / other;
        slopes[k] = -(1.0 - here) * a - (1.0 - there) * b;
        slopes[3 + k] = -here * a - there * b;
        slopes[6 + k] = a;
        slopes[9 + k] = b;
    }
    return angle_of(dot(out, e) / length, dot(first, second));
}

/* Return the excess angle, wrapped to -pi to pi. */
static inline double wrapped(double angle)
{
    while (angle >= PI) angle -= 2.0 * PI;
    while (angle < -PI) angle += 2.0 * PI;
    return angle;
}

/* Return the energy in J of h hinges, and add its gradient to gradient (n, 3) N.
 *
 * nodes: (h, 4).  rest: (h,) rad.  starts, columns, values: sparse stiffness (h, h) N m, symmetric, with the diagonal.
 * fade: rad, angle at which the coupling of hinges starts to fade.
 * slopes: (h, 12) 1/m, excess: (h,) rad and coupled: (h,) rad receive each hinge's angle; coupled has faded.
 */
WIDE SHOWN double dampsim_shell(int64_t h, const int32_t *restrict nodes, const double *restrict rest,
                                const int32_t *restrict starts, const int32_t *restrict columns,
                                const double *restrict values, double fade, const double *restrict positions,
                                double *restrict slopes, double *restrict excess, double *restrict coupled,
                                double *restrict gradient)
{
    const double rate = PI / ((PI - fade) * (PI - fade));
    for (int64_t k = 0; k < h; k++) {
        const double angle = wrapped(hinge(nodes + 4 * k, positions, slopes + 12 * k) - rest[k]);
        const double beyond = (angle < 0.0 ? -angle : angle) - fade;
        excess[k] = angle;
        coupled[k] = beyond > 0.0 ? angle - (angle < 0.0 ? -1.0 : 1.0) * rate * beyond * beyond : angle;
    }
    double total = 0.0;
    for (int64_t k = 0; k < h; k++) {
        double own = 0.0, others = 0.0;
        for (int32_t e = starts[k]; e < starts[k + 1]; e++) {
            if (columns[e] == k)
                own = values[e];
            else
                others += values[e] * coupled[columns[e]];
        }
        const double beyond = (excess[k] < 0.0 ? -excess[k] : excess[k]) - fade;
        const double slope = beyond > 0.0 ? 1.0 - 2.0 * rate * beyond : 1.0;
        total += coupled[k] * others + own * excess[k] * excess[k];
        const double moment = slope * others + own * excess[k];
        for (int i = 0; i < 4; i++) {
            double *g = gradient + 3 * (int64_t)nodes[4 * k + i];
            for (int c = 0; c < 3; c++) g[c] += moment * slopes[12 * k + 3 * i + c];
        }
    }
    return 0.5 * total;
}

typedef double wide __attribute__((vector_size(32), aligned(8)));

/* Add J^T K J times factor to blocks, see dampsim_shell(), whose slopes and excess are used.
 *
 * A couple is a hinge a with one of the nodes of the hinges that K couples it with. Its moment, the sum of K_ab J_b at
 * that node, is computed once and not for each node of the hinge.
 * slots: (e, 4) couple of each stored value's row with each node of its column.  couples: c.  moments: (c, 4) workspace.
 * offsets: (u + 1,) range of the products of each of u blocks.  left, right: node of a hinge, 4 a + i, and couple of
 * each product.  targets: (u,) index of each block. Of two transposed ones, only the one with the lower index is there.
 */
WIDE SHOWN void dampsim_shell_blocks(int64_t h, const int32_t *restrict starts, const int32_t *restrict columns,
                                     const double *restrict values, double fade, double factor,
                                     const double *restrict slopes, const double *restrict excess,
                                     const int32_t *restrict slots, int64_t couples, double *restrict moments,
                                     int64_t u, const int32_t *restrict offsets, const int32_t *restrict left,
                                     const int32_t *restrict right, const int32_t *restrict targets,
                                     double *restrict blocks)
{
    wide *moment = (wide *)moments;
    for (int64_t c = 0; c < couples; c++) moment[c] = (wide){0.0, 0.0, 0.0, 0.0};
    for (int64_t a = 0; a < h; a++)
        for (int32_t e = starts[a]; e < starts[a + 1]; e++) {
            const int64_t b = columns[e];
            const int faded = excess[a] > fade || excess[a] < -fade || excess[b] > fade || excess[b] < -fade;
            if (a != b && faded) continue;
            const double scale = factor * values[e];
            for (int j = 0; j < 4; j++) {
                const double *slope = slopes + 12 * b + 3 * j;
                moment[slots[4 * (int64_t)e + j]] += scale * (wide){slope[0], slope[1], slope[2], 0.0};
            }
        }
    for (int64_t k = 0; k < u; k++) {
        wide rows[3] = {{0.0, 0.0, 0.0, 0.0}, {0.0, 0.0, 0.0, 0.0}, {0.0, 0.0, 0.0, 0.0}};
        for (int32_t p = offsets[k]; p < offsets[k + 1]; p++) {
            const double *slope = slopes + 3 * (int64_t)left[p];
            const wide row = moment[right[p]];
            for (int x = 0; x < 3; x++) rows[x] += slope[x] * row;
        }
        double *into = blocks + 9 * (int64_t)targets[k];
        for (int x = 0; x < 3; x++)
            for (int y = 0; y < 3; y++) into[3 * x + y] += rows[x][y];
    }
}

/* ---- Linear solver ---- */

/* Three numbers and padding; a block has three of them, its columns. */
typedef float four __attribute__((vector_size(16), aligned(4)));

static inline four times(const four *block, four x)
{
    return block[0] * x[0] + block[1] * x[1] + block[2] * x[2];
}

WIDE static inline double product_sum(int64_t n, const four *a, const four *b)
{
    wide total = {0.0, 0.0, 0.0, 0.0};
    for (int64_t i = 0; i < n; i++) total += __builtin_convertvector(a[i] * b[i], wide);
    return total[0] + total[1] + total[2];
}

/* Write the blocks (b, 3, 3) times scale as single-precision columns; of two transposed ones, the first one twice. */
WIDE static void pack(int64_t count, const int32_t *mirror, const double *blocks, double scale, four *found)
{
    for (int64_t e = 0; e < count; e++) {
        if (mirror[e] < e) continue;
        float block[9];
        for (int k = 0; k < 9; k++) block[k] = (float)(scale * blocks[9 * e + k]);
        four *columns = found + 3 * e, *rows = found + 3 * (int64_t)mirror[e];
        for (int k = 0; k < 3; k++) rows[k] = (four){block[3 * k], block[3 * k + 1], block[3 * k + 2], 0.0f};
        for (int k = 0; k < 3; k++) columns[k] = (four){block[k], block[3 + k], block[6 + k], 0.0f};
    }
}

/* Invert the Cholesky factor of a block, as columns. Return whether it is positive definite. */
static inline int invert_cholesky(const four *block, four *found)
{
    const float a = block[0][0], b = block[0][1], c = block[0][2], d = block[1][1], e = block[1][2], f = block[2][2];
    if (!(a > 0.0f)) return 0;
    const float p = 1.0f / __builtin_sqrtf(a), l10 = b * p, l20 = c * p, dd = d - l10 * l10;
    if (!(dd > 1e-6f * d)) return 0;
    const float q = 1.0f / __builtin_sqrtf(dd), l21 = (e - l20 * l10) * q, ff = f - l20 * l20 - l21 * l21;
    if (!(ff > 1e-6f * f)) return 0;
    const float r = 1.0f / __builtin_sqrtf(ff);
    found[0] = (four){p, -l10 * p * q, (l10 * l21 * q - l20) * p * r, 0.0f};
    found[1] = (four){0.0f, q, -l21 * q * r, 0.0f};
    found[2] = (four){0.0f, 0.0f, r, 0.0f};
    return 1;
}

/* Factorise a matrix incompletely on its own pattern, with diagonal blocks times 1 + shift.
 *
 * Below the diagonal, factors receives L; above it, L^T; on it, the inverse of L's diagonal block.
 * offsets, pairs: see dampsim_block_pairs().  Return whether all pivots are positive.
 */
WIDE static int factorise(int64_t n, const int32_t *starts, const int32_t *columns, const int32_t *diagonal,
                          const int32_t *mirror, const four *matrix, float shift, const int32_t *offsets,
                          const int32_t *pairs, four *factors)
{
    for (int64_t i = 0; i < n; i++) {
        four pivot[3];
        for (int c = 0; c < 3; c++) pivot[c] = matrix[3 * (int64_t)diagonal[i] + c] * (1.0f + shift);
        for (int32_t e = starts[i]; e < diagonal[i]; e++) {
            four sum[3];
            for (int c = 0; c < 3; c++) sum[c] = matrix[3 * (int64_t)e + c];
            for (int32_t p = offsets[e]; p < offsets[e + 1]; p++) {
                const four *A = factors + 3 * (int64_t)pairs[2 * (int64_t)p];
                const four *B = factors + 3 * (int64_t)pairs[2 * (int64_t)p + 1];
                for (int c = 0; c < 3; c++) sum[c] -= A[0] * B[0][c] + A[1] * B[1][c] + A[2] * B[2][c];
            }
            const four *inverse = factors + 3 * (int64_t)diagonal[columns[e]];
            four *L = factors + 3 * (int64_t)e, *T = factors + 3 * (int64_t)mirror[e];
            for (int c = 0; c < 3; c++) L[c] = sum[0] * inverse[0][c] + sum[1] * inverse[1][c] + sum[2] * inverse[2][c];
            for (int c = 0; c < 3; c++) T[c] = (four){L[0][c], L[1][c], L[2][c], 0.0f};
            for (int c = 0; c < 3; c++) pivot[c] -= L[0] * L[0][c] + L[1] * L[1][c] + L[2] * L[2][c];
        }
        if (!invert_cholesky(pivot, factors + 3 * (int64_t)diagonal[i])) return 0;
    }
    return 1;
}

/* Solve L L^T x = right; x may be right. */
WIDE static void sweep(int64_t n, const int32_t *starts, const int32_t *columns, const int32_t *diagonal,
                       const four *factors, const four *right, four *x)
{
    for (int64_t i = 0; i < n; i++) {
        four sum = right[i];
        for (int32_t e = starts[i]; e < diagonal[i]; e++) sum -= times(factors + 3 * (int64_t)e, x[columns[e]]);
        x[i] = times(factors + 3 * (int64_t)diagonal[i], sum);
    }
    for (int64_t i = n - 1; i >= 0; i--) {
        four sum = x[i];
        for (int32_t e = diagonal[i] + 1; e < starts[i + 1]; e++) sum -= times(factors + 3 * (int64_t)e, x[columns[e]]);
        const four *inverse = factors + 3 * (int64_t)diagonal[i];
        /* The transposed inverse. */
        const four a = inverse[0] * sum, b = inverse[1] * sum, c = inverse[2] * sum;
        x[i] = (four){a[0] + a[1] + a[2], b[1] + b[2], c[2], 0.0f};
    }
}

/* Add Y diag(signs) Y^T x to y. region: (n,) of each node.  amplitudes: (regions, k) workspace. */
WIDE static void add_low_rank(int64_t n, int64_t k, int64_t regions, const four *Y, const double *signs,
                              const int32_t *region, const four *x, double *amplitudes, four *y)
{
    for (int64_t c = 0; c < k * regions; c++) amplitudes[c] = 0.0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < k; c++) {
            const wide part = __builtin_convertvector(Y[k * i + c] * x[i], wide);
            amplitudes[k * region[i] + c] += part[0] + part[1] + part[2];
        }
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < k; c++)
            y[i] += Y[k * i + c] * (float)(signs[k * region[i] + c] * amplitudes[k * region[i] + c]);
}

WIDE static void load(int64_t n, const double *given, double scale, four *found)
{
    for (int64_t i = 0; i < n; i++)
        found[i] = (four){(float)(scale * given[3 * i]), (float)(scale * given[3 * i + 1]),
                          (float)(scale * given[3 * i + 2]), 0.0f};
}

/* Return one of the shifts that are tried: 0, 1e-3 and each four times the last one. */
static inline float shift_of(int number)
{
    float shift = number ? 1e-3f : 0.0f;
    for (int k = 1; k < number; k++) shift *= 4.0f;
    return shift;
}

/* Write the pairs of blocks whose products dampsim_block_factorise() subtracts, and return their number.
 *
 * starts: (n + 1,).  columns: (b,), ascending in each row.  diagonal: (n,) index of each row's diagonal block.
 * marks: (n,) workspace.  offsets: (b + 1,) receives the range of the pairs of each block; only those below the diagonal
 * have any.  pairs: (k, 2) receives a block of the same row and one of the row of its column, both in the same column.
 */
SHOWN int64_t dampsim_block_pairs(int64_t n, const int32_t *restrict starts, const int32_t *restrict columns,
                                  const int32_t *restrict diagonal, int32_t *restrict marks,
                                  int32_t *restrict offsets, int32_t *restrict pairs)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) marks[i] = -1;
    for (int64_t i = 0; i < n; i++) {
        for (int32_t e = starts[i]; e < diagonal[i]; e++) marks[columns[e]] = e;
        for (int32_t e = starts[i]; e < starts[i + 1]; e++) {
            offsets[e] = (int32_t)count;
            if (e >= diagonal[i]) continue;
            const int64_t k = columns[e];
            for (int32_t other = starts[k]; other < diagonal[k]; other++) {
                const int32_t mine = marks[columns[other]];
                if (mine < 0) continue;
                pairs[2 * count] = mine;
                pairs[2 * count++ + 1] = other;
            }
        }
        for (int32_t e = starts[i]; e < diagonal[i]; e++) marks[columns[e]] = -1;
    }
    offsets[starts[n]] = (int32_t)count;
    return count;
}

/* Factorise blocks (b, 3, 3) incompletely for dampsim_block_solve() and dampsim_block_cg().
 *
 * starts: (n + 1,).  columns: (b,), ascending in each row.  diagonal: (n,) index of each row's diagonal block.
 * mirror: (b,) index of the transposed block; of two, the one with the lower index is used.
 * offsets, pairs: see dampsim_block_pairs().
 * matrix, factors: (b, 3, 4) receive the blocks and their factors in single precision, divided by the returned number.
 * shift: that of the last matrix, or 0; receives the smallest one that suffices, or 0 if none does.
 */
WIDE SHOWN double dampsim_block_factorise(int64_t n, const int32_t *restrict starts, const int32_t *restrict columns,
                                          const int32_t *restrict diagonal, const int32_t *restrict mirror,
                                          const double *restrict blocks, const int32_t *restrict offsets,
                                          const int32_t *restrict pairs, float *restrict matrix,
                                          float *restrict factors, float *restrict shift)
{
    double size = 0.0;
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < 9; k += 4) size += blocks[9 * (int64_t)diagonal[i] + k];
    size = n ? size / (3.0 * (double)n) : 1.0;
    if (!(size > 1e-200 && size < 1e200)) {
        *shift = 0.0f;
        return 0.0;
    }
    pack(starts[n], mirror, blocks, 1.0 / size, (four *)matrix);
    /* Begin just below the shift of the last matrix: usually that one fails early, and the same shift suffices again. */
    int lowest = 0;
    while (lowest < SHIFTS - 1 && shift_of(lowest) < *shift) lowest++;
    int number = lowest ? lowest - 1 : 0, has_failed = 0;
    while (number < SHIFTS) {
        *shift = shift_of(number);
        if (!factorise(n, starts, columns, diagonal, mirror, (const four *)matrix, *shift, offsets, pairs,
                       (four *)factors)) {
            has_failed = 1;
            number++;
        } else if (has_failed || !number)
            return size;
        else
            number--;
    }
    *shift = 0.0f;
    return 0.0;
}

/* Write the inverse of the factors times right (n, 3) to answer (n, 3). size: the result of dampsim_block_factorise().
 * x: (n, 4) workspace.
 */
WIDE SHOWN void dampsim_block_solve(int64_t n, const int32_t *restrict starts, const int32_t *restrict columns,
                                    const int32_t *restrict diagonal, const float *restrict factors, double size,
                                    const double *restrict right, float *restrict x, double *restrict answer)
{
    double most = 0.0;
    for (int64_t i = 0; i < 3 * n; i++) most = right[i] > most ? right[i] : -right[i] > most ? -right[i] : most;
    const double scale = most > 0.0 ? 1.0 / most : 1.0;
    load(n, right, scale, (four *)x);
    sweep(n, starts, columns, diagonal, (const four *)factors, (const four *)x, (four *)x);
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < 3; k++) answer[3 * i + k] = x[4 * i + k] / (scale * size);
}

/* Solve (A + Y diag(signs) Y^T) answer = right by conjugate gradients; return the number of steps, most + 1 if they did
 * not suffice.
 *
 * matrix, factors, size: of A, see dampsim_block_factorise().  k: number of columns of Y per region, columns (n, 3, k).
 * signs: (regions, k).  region: (n,) of each node.  forcing: relative preconditioned residual at which to stop.
 * vectors: (4 n + k n, 4) workspace.  amplitudes: (regions, k) workspace.  norm: receives the preconditioned norm of
 * right.
 */
WIDE SHOWN int64_t dampsim_block_cg(int64_t n, const int32_t *restrict starts, const int32_t *restrict columns,
                                    const int32_t *restrict diagonal, const float *restrict matrix,
                                    const float *restrict factors, double size, int64_t k, int64_t regions,
                                    const double *restrict low_columns, const double *restrict signs,
                                    const int32_t *restrict region, const double *restrict right, double forcing,
                                    int64_t most, float *restrict vectors, double *restrict amplitudes,
                                    double *restrict norm, double *restrict answer)
{
    four *residual = (four *)vectors, *direction = residual + n, *product = direction + n, *preconditioned = product + n;
    four *Y = preconditioned + n;
    double largest = 0.0;
    for (int64_t i = 0; i < 3 * n; i++)
        largest = right[i] > largest ? right[i] : -right[i] > largest ? -right[i] : largest;
    const double scale = largest > 0.0 ? 1.0 / largest : 1.0, root = 1.0 / __builtin_sqrt(size);
    load(n, right, scale, residual);
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < k; c++) {
            for (int x = 0; x < 3; x++) Y[k * i + c][x] = (float)(root * low_columns[(3 * i + x) * k + c]);
            Y[k * i + c][3] = 0.0f;
        }
    for (int64_t i = 0; i < 3 * n; i++) answer[i] = 0.0;
    sweep(n, starts, columns, diagonal, (const four *)factors, residual, preconditioned);
    for (int64_t i = 0; i < n; i++) direction[i] = preconditioned[i];
    double square = product_sum(n, residual, preconditioned);
    const double enough = forcing * forcing * square, unit = 1.0 / (scale * size);
    *norm = __builtin_sqrt((square > 0.0 ? square : 0.0) * unit / scale);
    int64_t step = 0;
    for (; step < most && square > enough; step++) {
        for (int64_t i = 0; i < n; i++) {
            four sum = {0.0f, 0.0f, 0.0f, 0.0f};
            for (int32_t e = starts[i]; e < starts[i + 1]; e++)
                sum += times((const four *)matrix + 3 * (int64_t)e, direction[columns[e]]);
            product[i] = sum;
        }
        if (k) add_low_rank(n, k, regions, Y, signs, region, direction, amplitudes, product);
        const double curvature = product_sum(n, direction, product);
        if (!(curvature > 0.0)) {
            /* Follow a direction without curvature only if there is no other. */
            if (!step)
                for (int64_t i = 0; i < n; i++)
                    for (int x = 0; x < 3; x++) answer[3 * i + x] = unit * direction[i][x];
            return step;
        }
        const double length = square / curvature;
        for (int64_t i = 0; i < n; i++) {
            residual[i] -= (float)length * product[i];
            for (int x = 0; x < 3; x++) answer[3 * i + x] += length * unit * direction[i][x];
        }
        sweep(n, starts, columns, diagonal, (const four *)factors, residual, preconditioned);
        const double last = square;
        square = product_sum(n, residual, preconditioned);
        const float ratio = (float)(square / last);
        for (int64_t i = 0; i < n; i++) direction[i] = preconditioned[i] + ratio * direction[i];
    }
    return square > enough ? most + 1 : step;
}
