/* Ropes: energies of springs and rods with their Hessians, and a direct solve that treats separate pieces separately.
 *
 * The energies are those of core/materials/loads_and_springs.py and core/materials/rod_bending.py, and differ in the
 * order of summation only. Matrices of 3 x 3 blocks have a row of blocks per free node, with ascending columns.
 */
#include "kernel.h"

#define TINY 1e-30
/* See core/materials/rod_bending.py. */
#define SMALL_SINE 1e-9
#define STRAIGHT 2e-3
#define MIN_FOLD_SINE 1e-4
/* Largest number of sweeps of Jacobi's method, and squared relative size of the remaining entries. */
#define SWEEPS 20
#define NEGLIGIBLE 1e-32

/* ---- Springs ---- */

/* Return the energy in J of m springs, and add its gradient to gradient (n, 3) N.
 *
 * edges: (m, 2) nodes.  lengths: (m,) m at rest.  weights: (m,) J.  positions: (n, 3) m.
 */
WIDE SHOWN double dampsim_springs(int64_t m, const int32_t *restrict edges, const double *restrict lengths,
                                  const double *restrict weights, const double *restrict positions,
                                  double *restrict gradient)
{
    double total = 0.0, offset[3];
    for (int64_t i = 0; i < m; i++) {
        double *first = gradient + 3 * (int64_t)edges[2 * i], *second = gradient + 3 * (int64_t)edges[2 * i + 1];
        subtract(positions + 3 * (int64_t)edges[2 * i], positions + 3 * (int64_t)edges[2 * i + 1], offset);
        const double length = __builtin_sqrt(dot(offset, offset)), strain = length / lengths[i] - 1.0;
        const double force = weights[i] * strain / (lengths[i] * at_least(length, TINY));
        total += 0.5 * weights[i] * strain * strain;
        for (int k = 0; k < 3; k++) {
            first[k] += force * offset[k];
            second[k] -= force * offset[k];
        }
    }
    return total;
}

/* Add the Hessian of m springs times factor to blocks (b, 3, 3).
 *
 * project: whether to leave out the negative transverse stiffness.  places: (m, 2, 2) of pairs of ends, or -1.
 */
WIDE SHOWN void dampsim_spring_blocks(int64_t m, const int32_t *restrict edges, const double *restrict lengths,
                                      const double *restrict weights, int64_t project, double factor,
                                      const double *restrict positions, const int32_t *restrict places,
                                      double *restrict blocks)
{
    double offset[3], block[9];
    for (int64_t i = 0; i < m; i++) {
        subtract(positions + 3 * (int64_t)edges[2 * i], positions + 3 * (int64_t)edges[2 * i + 1], offset);
        const double length = at_least(__builtin_sqrt(dot(offset, offset)), TINY);
        const double along = factor * weights[i] / (lengths[i] * lengths[i]);
        double across = along * (length - lengths[i]) / length;
        if (project && across < 0.0) across = 0.0;
        const double excess = (along - across) / (length * length);
        for (int x = 0; x < 3; x++)
            for (int y = 0; y < 3; y++)
                block[3 * x + y] = excess * offset[x] * offset[y] + (x == y ? across : 0.0);
        for (int pair = 0; pair < 4; pair++) {
            const int32_t place = places[4 * i + pair];
            const double sign = pair == 0 || pair == 3 ? 1.0 : -1.0;
            if (place >= 0)
                for (int k = 0; k < 9; k++) blocks[9 * (int64_t)place + k] += sign * block[k];
        }
    }
}

/* ---- Rods ---- */

/* Two consecutive edges: their vectors, the cross product, its length, the dot product and the angle in rad. */
struct bend {
    double a[3], b[3], axis[3], sine, cosine, angle;
};

static inline struct bend bend_of(const int32_t *nodes, const double *positions)
{
    struct bend found;
    const double *middle = positions + 3 * (int64_t)nodes[1];
    subtract(middle, positions + 3 * (int64_t)nodes[0], found.a);
    subtract(positions + 3 * (int64_t)nodes[2], middle, found.b);
    cross(found.a, found.b, found.axis);
    found.sine = __builtin_sqrt(dot(found.axis, found.axis));
    found.cosine = dot(found.a, found.b);
    found.angle = angle_of(found.sine, found.cosine);
    return found;
}

/* Return the energy in J of m pairs of consecutive edges, and add its gradient to gradient (n, 3) N.
 *
 * nodes: (m, 3).  weights: (m,) N m.  rest: (m,) rad.  smoothing: (m,) rad^2, added to squared angles of bent rods.
 * positions: (n, 3) m.
 */
WIDE SHOWN double dampsim_rods(int64_t m, const int32_t *restrict nodes, const double *restrict weights,
                               const double *restrict rest, const double *restrict smoothing,
                               const double *restrict positions, double *restrict gradient)
{
    double total = 0.0, across_a[3], across_b[3];
    for (int64_t i = 0; i < m; i++) {
        const struct bend at = bend_of(nodes + 3 * i, positions);
        const double size = at.cosine < 0.0 ? -at.cosine : at.cosine;
        const double ratio =
            at.sine > SMALL_SINE * size ? at.angle / at_least(at.sine, TINY) : 1.0 / at_least(at.cosine, TINY);
        double part = 1.0, square = at.angle * at.angle;
        if (rest[i] > 0.0) {
            const double known = __builtin_sqrt(rest[i] * rest[i] + smoothing[i]);
            const double smooth = __builtin_sqrt(square + smoothing[i]), change = smooth - known;
            part = 1.0 - known / at_least(smooth, TINY);
            square = change * change;
        }
        total += weights[i] * square;
        const double amount = 2.0 * weights[i] * part * ratio;
        cross(at.axis, at.a, across_a);
        cross(at.axis, at.b, across_b);
        const double of_a = -amount / at_least(dot(at.a, at.a), TINY), of_b = amount / at_least(dot(at.b, at.b), TINY);
        double *forces[3];
        for (int corner = 0; corner < 3; corner++) forces[corner] = gradient + 3 * (int64_t)nodes[3 * i + corner];
        for (int k = 0; k < 3; k++) {
            const double by_a = of_a * across_a[k], by_b = of_b * across_b[k];
            forces[0][k] -= by_a;
            forces[1][k] += by_a - by_b;
            forces[2][k] += by_b;
        }
    }
    return total;
}

/* Rotate a vector of two numbers. */
static inline void rotate(double *first, double *second, double cosine, double sine)
{
    const double one = *first, two = *second;
    *first = cosine * one - sine * two;
    *second = sine * one + cosine * two;
}

/* Set the negative eigenvalues of a symmetric matrix (6, 6) to zero, by Jacobi's method. */
WIDE static void project_positive(double matrix[6][6])
{
    double work[6][6], vectors[6][6];
    for (int x = 0; x < 6; x++)
        for (int y = 0; y < 6; y++) {
            work[x][y] = matrix[x][y];
            vectors[x][y] = x == y;
        }
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        double other = 0.0, whole = 0.0;
        for (int x = 0; x < 6; x++)
            for (int y = 0; y < 6; y++) {
                whole += work[x][y] * work[x][y];
                if (x != y) other += work[x][y] * work[x][y];
            }
        if (!(other > NEGLIGIBLE * whole)) break;
        for (int p = 0; p < 5; p++)
            for (int q = p + 1; q < 6; q++) {
                if (work[p][q] == 0.0) continue;
                const double slant = (work[q][q] - work[p][p]) / (2.0 * work[p][q]);
                const double root = __builtin_sqrt(slant * slant + 1.0);
                const double tangent = slant < 0.0 ? 1.0 / (slant - root) : 1.0 / (slant + root);
                const double c = 1.0 / __builtin_sqrt(tangent * tangent + 1.0), s = tangent * c;
                for (int k = 0; k < 6; k++) rotate(&work[k][p], &work[k][q], c, s);
                for (int k = 0; k < 6; k++) rotate(&work[p][k], &work[q][k], c, s);
                for (int k = 0; k < 6; k++) rotate(&vectors[k][p], &vectors[k][q], c, s);
            }
    }
    for (int n = 0; n < 6; n++) {
        if (!(work[n][n] < 0.0)) continue;
        for (int x = 0; x < 6; x++)
            for (int y = 0; y < 6; y++) matrix[x][y] -= work[n][n] * vectors[x][n] * vectors[y][n];
    }
}

/* Multiply a symmetric matrix (6, 6) on both sides with ((p, q), (q, p)), whose entries are multiples of 3 x 3 units. */
static inline void mix(double matrix[6][6], double p, double q)
{
    for (int turn = 0; turn < 2; turn++)
        for (int k = 0; k < 6; k++)
            for (int c = 0; c < 3; c++) {
                double *first = turn ? &matrix[c][k] : &matrix[k][c];
                double *second = turn ? &matrix[c + 3][k] : &matrix[k][c + 3];
                const double one = *first, two = *second;
                *first = p * one + q * two;
                *second = q * one + p * two;
            }
}

/* Write the second derivatives (6, 6) N/m of the energy of a pair of edges by these edges. */
static inline void edge_hessian(const struct bend *at, double weight, double rest, double smoothing,
                                double found[6][6])
{
    const double length_a = at_least(__builtin_sqrt(dot(at->a, at->a)), TINY);
    const double length_b = at_least(__builtin_sqrt(dot(at->b, at->b)), TINY);
    double t[3], u[3], by_t[3], by_u[3];
    for (int k = 0; k < 3; k++) {
        t[k] = at->a[k] / length_a;
        u[k] = at->b[k] / length_b;
    }
    const double d = dot(t, u), size = __builtin_sqrt(at->sine * at->sine + at->cosine * at->cosine);
    for (int k = 0; k < 3; k++) {
        by_t[k] = u[k] - d * t[k];
        by_u[k] = t[k] - d * u[k];
    }
    const double sine = at_least(size > 0.0 ? at->sine / size : 0.0, MIN_FOLD_SINE);
    const double cosine = size > 0.0 ? at->cosine / size : 1.0, angle = at->angle, square = angle * angle;
    const int is_straight = angle < STRAIGHT;
    const double ratio = is_straight ? 1.0 + square / 6.0 : angle / sine;
    const double ratio_slope =
        is_straight ? 1.0 / 3.0 + 2.0 * square / 15.0 : (sine - angle * cosine) / (sine * sine * sine);
    double part = 1.0, part_slope = 0.0;
    if (rest > 0.0) {
        const double known = __builtin_sqrt(rest * rest + smoothing), smooth = __builtin_sqrt(square + smoothing);
        part = 1.0 - known / smooth;
        part_slope = known * ratio / (smooth * smooth * smooth);
    }
    const double first = -2.0 * weight * part * ratio;
    const double second = 2.0 * weight * (part_slope * ratio + part * ratio_slope);
    const double aa = 1.0 / (length_a * length_a), bb = 1.0 / (length_b * length_b), ab = 1.0 / (length_a * length_b);
    for (int x = 0; x < 3; x++)
        for (int y = 0; y < 3; y++) {
            const double unit = x == y, tt = t[x] * t[y], uu = u[x] * u[y];
            const double along_a = by_t[x] * t[y] + t[x] * by_t[y] + d * (unit - tt);
            const double along_b = by_u[x] * u[y] + u[x] * by_u[y] + d * (unit - uu);
            const double mixed = second * by_t[x] * by_u[y] + first * (unit - tt - uu + d * t[x] * u[y]);
            found[x][y] = (second * by_t[x] * by_t[y] - first * along_a) * aa;
            found[x + 3][y + 3] = (second * by_u[x] * by_u[y] - first * along_b) * bb;
            found[x][y + 3] = found[y + 3][x] = mixed * ab;
        }
}

/* Add the Hessian of m pairs of edges times factor to blocks (b, 3, 3).
 *
 * nodes to smoothing: see dampsim_rods().  project: whether each pair's Hessian is made positive semi-definite.
 * places: (m, 3, 3) of pairs of nodes, or -1.
 */
WIDE SHOWN void dampsim_rod_blocks(int64_t m, const int32_t *restrict nodes, const double *restrict weights,
                                   const double *restrict rest, const double *restrict smoothing, int64_t project,
                                   double factor, const double *restrict positions, const int32_t *restrict places,
                                   double *restrict blocks)
{
    /* With the matrix D that takes nodes to edges, D^T = Q (D D^T)^(1/2) with orthonormal columns Q. In its basis, the
     * eigenvalues are those of the Hessian by the nodes. D D^T has the eigenvalues 1 and 3. */
    const double three = __builtin_sqrt(3.0), p = 0.5 * (1.0 + three), q = 0.5 * (1.0 - three);
    const double back = 0.5 * (1.0 + 1.0 / three), back_q = 0.5 * (1.0 - 1.0 / three);
    static const double by_edge[3][2] = {{-1.0, 0.0}, {1.0, -1.0}, {0.0, 1.0}};
    double hessian[6][6];
    for (int64_t i = 0; i < m; i++) {
        const struct bend at = bend_of(nodes + 3 * i, positions);
        edge_hessian(&at, factor * weights[i], rest[i], smoothing[i], hessian);
        if (project) {
            mix(hessian, p, q);
            project_positive(hessian);
            mix(hessian, back, back_q);
        }
        for (int row = 0; row < 3; row++)
            for (int column = 0; column < 3; column++) {
                const int32_t place = places[9 * i + 3 * row + column];
                if (place < 0) continue;
                double *block = blocks + 9 * (int64_t)place;
                for (int e = 0; e < 2; e++)
                    for (int f = 0; f < 2; f++) {
                        const double sign = by_edge[row][e] * by_edge[column][f];
                        if (sign == 0.0) continue;
                        for (int x = 0; x < 3; x++)
                            for (int y = 0; y < 3; y++) block[3 * x + y] += sign * hessian[3 * e + x][3 * f + y];
                    }
            }
    }
}

/* ---- Direct solve ---- */

/* Factorise the wanted pieces of a symmetric matrix of blocks by Cholesky's method within its envelope, and return the
 * number of those that are not positive definite.
 *
 * starts, columns: pattern of the blocks (b, 3, 3).  first: (n,) first column of the envelope of each row.
 * offsets: (n,) of each row in factors, which holds three rows of 3 (i - first[i]) + 3 numbers; on the diagonal, their
 * reciprocals.  pieces: (p + 1,) first rows of the pieces, which no block couples.
 * wanted: (p,) whether to factorise each piece.  Receives whether it is still wanted.
 */
WIDE SHOWN int64_t dampsim_envelope_factorise(int64_t p, const int32_t *restrict pieces, const int32_t *restrict starts,
                                              const int32_t *restrict columns, const int32_t *restrict first,
                                              const int64_t *restrict offsets, const double *restrict blocks,
                                              int32_t *restrict wanted, double *restrict factors)
{
    int64_t failed = 0;
    for (int64_t piece = 0; piece < p; piece++) {
        if (!wanted[piece]) continue;
        int is_positive = 1;
        for (int64_t i = pieces[piece]; is_positive && i < pieces[piece + 1]; i++) {
            const int64_t left = 3 * (int64_t)first[i], width = 3 * i + 3 - left;
            double *rows = factors + offsets[i];
            for (int64_t k = 0; k < 3 * width; k++) rows[k] = 0.0;
            for (int32_t e = starts[i]; e < starts[i + 1] && columns[e] <= i; e++)
                for (int a = 0; a < 3; a++)
                    for (int c = 0; c < 3; c++)
                        rows[a * width + 3 * (int64_t)columns[e] - left + c] = blocks[9 * (int64_t)e + 3 * a + c];
            for (int64_t column = left; column < 3 * i + 3; column++) {
                const int64_t j = column / 3, other_left = 3 * (int64_t)first[j], other_width = 3 * j + 3 - other_left;
                const double *other = factors + offsets[j] + (column - 3 * j) * other_width - other_left;
                const int64_t begin = left > other_left ? left : other_left;
                const int own = column >= 3 * i ? (int)(column - 3 * i) : 0;
                double sums[3] = {0.0, 0.0, 0.0};
                for (int64_t k = begin; k < column; k++)
                    for (int a = 0; a < 3; a++) sums[a] += rows[a * width + k - left] * other[k];
                for (int a = own; a < 3; a++) rows[a * width + column - left] -= sums[a];
                if (column < 3 * i) {
                    for (int a = 0; a < 3; a++) rows[a * width + column - left] *= other[column];
                    continue;
                }
                const double pivot = rows[own * width + column - left];
                if (!(pivot > 0.0)) {
                    is_positive = 0;
                    break;
                }
                const double reciprocal = 1.0 / __builtin_sqrt(pivot);
                rows[own * width + column - left] = reciprocal;
                for (int a = own + 1; a < 3; a++) rows[a * width + column - left] *= reciprocal;
            }
        }
        wanted[piece] = !is_positive;
        failed += !is_positive;
    }
    return failed;
}

WIDE void solve_envelope(int64_t begin, int64_t end, const int32_t *restrict first, const int64_t *restrict offsets,
                         const double *restrict factors, double *restrict answer)
{
    for (int64_t i = begin; i < end; i++)
        for (int a = 0; a < 3; a++) {
            const int64_t left = 3 * (int64_t)first[i], width = 3 * i + 3 - left, row = 3 * i + a;
            const double *own = factors + offsets[i] + a * width - left;
            double sum = answer[row];
            for (int64_t k = left; k < row; k++) sum -= own[k] * answer[k];
            answer[row] = sum * own[row];
        }
    for (int64_t i = end - 1; i >= begin; i--)
        for (int a = 2; a >= 0; a--) {
            const int64_t left = 3 * (int64_t)first[i], width = 3 * i + 3 - left, row = 3 * i + a;
            const double *own = factors + offsets[i] + a * width - left;
            answer[row] *= own[row];
            for (int64_t k = left; k < row; k++) answer[k] -= own[k] * answer[row];
        }
}

/* Solve with factors of n rows, for a right-hand side (3 n,) that receives the answer. */
WIDE SHOWN void dampsim_envelope_solve(int64_t n, const int32_t *restrict first, const int64_t *restrict offsets,
                                       const double *restrict factors, double *restrict answer)
{
    solve_envelope(0, n, first, offsets, factors, answer);
}
