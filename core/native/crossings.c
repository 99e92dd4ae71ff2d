/* Continuous collision detection: the first triangles that moving points cross. Results are the same as those of
 * core/geometry/collision/ccd.py, which works without this kernel.
 */
#include "boxes.h"

#define BISECTIONS 52
/* Barycentric weights above minus the first count as inside; hits closer in time than the second are simultaneous. */
#define WEIGHT_TOLERANCE 1e-6
#define SIMULTANEOUS 1e-12

/* Write the boxes (t, 6) m around triangles (t, 3) that move from vertices `first` to `last`, (v, 3) m.
 *
 * shift: (3,) m, their mean displacement, is subtracted from the end positions; 0 if it is not finite. Boxes of triangles
 * that are not finite contain nothing.
 */
SHOWN void dampsim_swept_boxes(int64_t t, const int32_t *corners, const double *first, const double *last,
                               double *restrict shift, double *restrict boxes)
{
    const double huge = __builtin_inf();
    double sum[3] = {0.0, 0.0, 0.0};
    for (int64_t i = 0; i < 3 * t; i++)
        for (int k = 0; k < 3; k++) sum[k] += last[3 * (int64_t)corners[i] + k] - first[3 * (int64_t)corners[i] + k];
    const double total = sum[0] + sum[1] + sum[2];
    for (int k = 0; k < 3; k++) shift[k] = t > 0 && total - total == 0.0 ? sum[k] / (3.0 * (double)t) : 0.0;
    for (int64_t i = 0; i < t; i++) {
        double *box = boxes + 6 * i, check = 0.0;
        for (int k = 0; k < 3; k++) box[k] = huge, box[3 + k] = -huge;
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 3; k++) {
                const double a = first[3 * (int64_t)corners[3 * i + j] + k];
                const double b = last[3 * (int64_t)corners[3 * i + j] + k] - shift[k];
                const double low = a < b ? a : b, high = a < b ? b : a;
                box[k] = low < box[k] ? low : box[k];
                box[3 + k] = high > box[3 + k] ? high : box[3 + k];
                check += a + b;
            }
        if (check - check != 0.0)
            for (int k = 0; k < 6; k++) box[k] = __builtin_nan("");
    }
}

/* Return whether a segment, by its middle and half of its vector, meets a box enlarged by slack. */
static int is_crossing_box(const double *middle, const double *half, const double *box, double slack)
{
    double offset[3], extent[3], way[3];
    for (int k = 0; k < 3; k++) {
        offset[k] = middle[k] - 0.5 * (box[k] + box[3 + k]);
        extent[k] = 0.5 * (box[3 + k] - box[k]) + slack;
        way[k] = half[k] < 0.0 ? -half[k] : half[k];
        if (!((offset[k] < 0.0 ? -offset[k] : offset[k]) <= extent[k] + way[k])) return 0;
    }
    for (int k = 0; k < 3; k++) {
        const int i = k == 2 ? 0 : k + 1, j = k == 0 ? 2 : k - 1;
        const double across = offset[i] * half[j] - offset[j] * half[i];
        if (!((across < 0.0 ? -across : across) <= extent[i] * way[j] + extent[j] * way[i])) return 0;
    }
    return 1;
}

static inline double value_at(const double *polynomial, double time)
{
    return polynomial[0] + time * (polynomial[1] + time * (polynomial[2] + time * polynomial[3]));
}

/* Write the polynomial (4,) of the volume of a triangle's corner and a point, and return the volume at the end.
 *
 * points: the point at the start and the end, and the three corners at the start and the end.
 */
static double volume_polynomial(const double *const points[8], double *polynomial)
{
    double a[3], b[3], c[3], d[3], e[3], f[3], n0[3], n1[3], n2[3], other[3], end[3];
    for (int k = 0; k < 3; k++) {
        a[k] = points[3][k] - points[2][k];
        c[k] = points[4][k] - points[2][k];
        e[k] = points[0][k] - points[2][k];
        b[k] = points[6][k] - points[5][k];
        d[k] = points[7][k] - points[5][k];
        f[k] = points[1][k] - points[5][k];
    }
    cross(b, d, end);
    const double volume = dot(end, f);
    for (int k = 0; k < 3; k++) b[k] -= a[k], d[k] -= c[k], f[k] -= e[k];
    cross(a, c, n0);
    cross(a, d, n1);
    cross(b, c, other);
    for (int k = 0; k < 3; k++) n1[k] += other[k];
    cross(b, d, n2);
    polynomial[0] = dot(n0, e);
    polynomial[1] = dot(n1, e) + dot(n0, f);
    polynomial[2] = dot(n2, e) + dot(n1, f);
    polynomial[3] = dot(n2, f);
    return volume;
}

static inline double magnitude(double x)
{
    return x < 0.0 ? -x : x;
}

/* Return whether the volume may change its sign, as CoplanarityPolynomial.may_have_root(). */
static int may_have_root(const double *c, double end)
{
    const double rounding = 1e-14 * (magnitude(c[0]) + magnitude(c[1]) + magnitude(c[2]) + magnitude(c[3]));
    const double one = c[0] + c[1] / 3.0, other = c[0] + (2.0 * c[1] + c[2]) / 3.0;
    if (c[0] >= 0.0 && end >= 0.0 && one > rounding && other > rounding) return 0;
    return !(c[0] < 0.0 && end < 0.0 && one < -rounding && other < -rounding);
}

static inline double within_step(double time)
{
    return time > 0.0 ? (time < 1.0 ? time : 1.0) : 0.0;
}

/* Write the times (2,) in [0, 1] at which a + b t + c t^2 vanishes, in ascending order; 0 where there is none. */
static void extrema(double a, double b, double c, double *times)
{
    const double square = b * b, product = 4.0 * a * c;
    const double difference = square - product, root = difference > 0.0 ? __builtin_sqrt(difference) : 0.0;
    const double q = -0.5 * (b + (b >= 0.0 ? root : -root));
    const double one = within_step(square >= product && c != 0.0 ? q / c : 0.0);
    const double other = within_step(square >= product && q != 0.0 ? a / q : 0.0);
    times[0] = one < other ? one : other;
    times[1] = one < other ? other : one;
}

/* Return whether a point in the plane of a triangle is inside of it, and write its weights (3,), none negative. */
static int weights_inside(const double *point, const double *a, const double *b, const double *c, double *weights)
{
    double u[3], v[3], w[3], normal[3], other[3];
    for (int k = 0; k < 3; k++) {
        u[k] = b[k] - a[k];
        v[k] = c[k] - a[k];
        w[k] = point[k] - a[k];
    }
    cross(u, v, normal);
    const double square = dot(normal, normal);
    if (!(square > 1e-24 * dot(u, u) * dot(v, v))) return 0;
    cross(w, v, other);
    weights[1] = dot(normal, other) / square;
    cross(u, w, other);
    weights[2] = dot(normal, other) / square;
    weights[0] = 1.0 - weights[1] - weights[2];
    double sum = 0.0;
    for (int k = 0; k < 3; k++) {
        if (!(weights[k] >= -WEIGHT_TOLERANCE)) return 0;
        weights[k] = weights[k] > 0.0 ? weights[k] : 0.0;
        sum += weights[k];
    }
    for (int k = 0; k < 3; k++) weights[k] /= sum > TINY ? sum : TINY;
    return 1;
}

/* Return the time at which a point first crosses a triangle, and write its weights (3,) and its side; infinity if it
 * does not. points: see volume_polynomial(). */
static double crossing_time(const double *const points[8], double *weights, double *side)
{
    double polynomial[4], times[4], values[4];
    const double end = volume_polynomial(points, polynomial);
    if (!may_have_root(polynomial, end)) return __builtin_inf();
    times[0] = 0.0;
    extrema(polynomial[1], 2.0 * polynomial[2], 3.0 * polynomial[3], times + 1);
    times[3] = 1.0;
    for (int k = 0; k < 4; k++)
        values[k] = times[k] <= 0.0   ? polynomial[0]
                    : times[k] >= 1.0 ? end
                                      : value_at(polynomial, times[k]);
    for (int k = 0; k < 3; k++) {
        const int sign = values[k] >= 0.0;
        if (sign == (values[k + 1] >= 0.0)) continue;
        double low = times[k], high = times[k + 1], at[4][3];
        for (int step = 0; step < BISECTIONS; step++) {
            const double middle = 0.5 * (low + high);
            if ((value_at(polynomial, middle) >= 0.0) == sign)
                low = middle;
            else
                high = middle;
        }
        for (int j = 0; j < 4; j++) {
            const double *from = j == 0 ? points[0] : points[1 + j], *to = j == 0 ? points[1] : points[4 + j];
            for (int axis = 0; axis < 3; axis++) at[j][axis] = from[axis] + high * (to[axis] - from[axis]);
        }
        if (!weights_inside(at[0], at[1], at[2], at[3], weights)) continue;
        *side = sign ? 1.0 : -1.0;
        return high;
    }
    return __builtin_inf();
}

/* Find the first triangle that each of p points crosses while both move steadily.
 *
 * boxes: (t, 6) of the tree, from dampsim_swept_boxes() with shift (3,) m, enlarged by slack in m.  corners: (t, 3) of
 * vertices first, last (v, 3) m.  points0, points1: (p, 3) m.  found: (p,) triangles, the lowest of simultaneous ones,
 * -1 for none.  times, sides: (p,).  weights: (p, 3).
 */
SHOWN void dampsim_crossings(int64_t t, int64_t leaves, const int32_t *restrict order, const double *restrict nodes,
                             const double *restrict boxes, const int32_t *restrict corners, const double *first,
                             const double *last, const double *restrict shift, double slack, int64_t p,
                             const double *points0, const double *points1, int32_t *restrict found,
                             double *restrict times, double *restrict weights, double *restrict sides)
{
    for (int64_t i = 0; i < p; i++) {
        double middle[3], half[3], earliest = __builtin_inf();
        for (int k = 0; k < 3; k++) {
            const double from = points0[3 * i + k], to = points1[3 * i + k] - shift[k];
            middle[k] = 0.5 * (from + to);
            half[k] = 0.5 * (to - from);
        }
        found[i] = -1;
        /* The first round finds the time, the second one the lowest triangle of that time. */
        for (int round = 0; round < 2; round++) {
            int64_t stack[STACK], depth = 0;
            stack[depth++] = 0;
            while (depth) {
                const int64_t node = stack[--depth];
                if (!is_crossing_box(middle, half, nodes + 6 * node, slack)) continue;
                if (node < leaves - 1) {
                    stack[depth++] = 2 * node + 1;
                    stack[depth++] = 2 * node + 2;
                    continue;
                }
                const int64_t leaf = node - (leaves - 1), end = first_of_leaf(leaf + 1, leaves, t);
                for (int64_t j = first_of_leaf(leaf, leaves, t); j < end; j++) {
                    const int64_t triangle = order[j];
                    if (!is_crossing_box(middle, half, boxes + 6 * triangle, slack)) continue;
                    const int32_t *corner = corners + 3 * triangle;
                    const double *const points[8] = {
                        points0 + 3 * i,
                        points1 + 3 * i,
                        first + 3 * (int64_t)corner[0],
                        first + 3 * (int64_t)corner[1],
                        first + 3 * (int64_t)corner[2],
                        last + 3 * (int64_t)corner[0],
                        last + 3 * (int64_t)corner[1],
                        last + 3 * (int64_t)corner[2],
                    };
                    double inside[3], side = 1.0;
                    const double time = crossing_time(points, inside, &side);
                    if (round == 0) {
                        earliest = time < earliest ? time : earliest;
                    } else if (time <= earliest + SIMULTANEOUS && (found[i] < 0 || triangle < found[i])) {
                        found[i] = (int32_t)triangle;
                        times[i] = time;
                        sides[i] = side;
                        for (int k = 0; k < 3; k++) weights[3 * i + k] = inside[k];
                    }
                }
            }
            if (!(earliest < __builtin_inf())) break;
        }
    }
}
