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

/* A segment, by its middle and half of its vector, and the slack by which boxes are enlarged, m. */
struct segment {
    double middle[3], half[3], slack;
};

static inline int is_crossing_box(const void *query, const double *box)
{
    const struct segment *s = query;
    double offset[3], extent[3], way[3];
    for (int k = 0; k < 3; k++) {
        offset[k] = s->middle[k] - 0.5 * (box[k] + box[3 + k]);
        extent[k] = 0.5 * (box[3 + k] - box[k]) + s->slack;
        way[k] = magnitude(s->half[k]);
        if (!(magnitude(offset[k]) <= extent[k] + way[k])) return 0;
    }
    for (int k = 0; k < 3; k++) {
        const int i = k == 2 ? 0 : k + 1, j = k == 0 ? 2 : k - 1;
        const double across = offset[i] * s->half[j] - offset[j] * s->half[i];
        if (!(magnitude(across) <= extent[i] * way[j] + extent[j] * way[i])) return 0;
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
    subtract(points[3], points[2], a);
    subtract(points[4], points[2], c);
    subtract(points[0], points[2], e);
    subtract(points[6], points[5], b);
    subtract(points[7], points[5], d);
    subtract(points[1], points[5], f);
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

/* Return whether the volume may change its sign, as CoplanarityPolynomial.may_have_root(). */
static int may_have_root(const double *c, double end)
{
    const double rounding = 1e-14 * (magnitude(c[0]) + magnitude(c[1]) + magnitude(c[2]) + magnitude(c[3]));
    const double one = c[0] + c[1] / 3.0, other = c[0] + (2.0 * c[1] + c[2]) / 3.0;
    if (c[0] >= 0.0 && end >= 0.0 && one > rounding && other > rounding) return 0;
    return !(c[0] < 0.0 && end < 0.0 && one < -rounding && other < -rounding);
}

/* Write the times (2,) in [0, 1] at which a + b t + c t^2 vanishes, in ascending order; 0 where there is none. */
static void extrema(double a, double b, double c, double *times)
{
    const double square = b * b, product = 4.0 * a * c;
    const double difference = square - product, root = difference > 0.0 ? __builtin_sqrt(difference) : 0.0;
    const double q = -0.5 * (b + (b >= 0.0 ? root : -root));
    const double one = clamped(square >= product && c != 0.0 ? q / c : 0.0);
    const double other = clamped(square >= product && q != 0.0 ? a / q : 0.0);
    times[0] = one < other ? one : other;
    times[1] = one < other ? other : one;
}

/* Return whether a point in the plane of a triangle is inside of it, and write its weights (3,), none negative. */
static int weights_inside(const double *point, const double *a, const double *b, const double *c, double *weights)
{
    double u[3], v[3], w[3], normal[3], other[3];
    subtract(b, a, u);
    subtract(c, a, v);
    subtract(point, a, w);
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
WIDE SHOWN void dampsim_crossings(int64_t t, int64_t leaves, const int32_t *restrict order,
                                  const double *restrict nodes, const double *restrict boxes,
                                  const int32_t *restrict corners, const double *first, const double *last,
                                  const double *restrict shift, double slack, int64_t p, const double *points0,
                                  const double *points1, int32_t *restrict found, double *restrict times,
                                  double *restrict weights, double *restrict sides)
{
    const struct tree tree = {t, leaves, order, nodes, boxes};
    for (int64_t i = 0; i < p; i++) {
        struct segment way = {.slack = slack};
        double earliest = __builtin_inf();
        for (int k = 0; k < 3; k++) {
            const double from = points0[3 * i + k], to = points1[3 * i + k] - shift[k];
            way.middle[k] = 0.5 * (from + to);
            way.half[k] = 0.5 * (to - from);
        }
        found[i] = -1;
        /* The first round finds the time, the second one the lowest triangle of that time. */
        for (int round = 0; round < 2; round++) {
            struct walk walk;
            int64_t triangle;
            begin_walk(&walk, 0);
            while ((triangle = next_box(&tree, &walk, is_crossing_box, &way)) >= 0) {
                const double *points[8] = {points0 + 3 * i, points1 + 3 * i};
                for (int k = 0; k < 3; k++) {
                    points[2 + k] = first + 3 * (int64_t)corners[3 * triangle + k];
                    points[5 + k] = last + 3 * (int64_t)corners[3 * triangle + k];
                }
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
            if (!(earliest < __builtin_inf())) break;
        }
    }
}
