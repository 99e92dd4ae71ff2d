/* Normals of triangles, and heights of points above open surfaces. Results are the same as those of
 * core/geometry/mesh/triangles.py and core/geometry/collision/proximity.py, which work without this kernel.
 */
#include "boxes.h"

/* Return the larger number, or NaN if the second one is. */
static inline double larger(double a, double b)
{
    return b <= a ? a : b;
}

static inline double squared_distance(const double *a, const double *b)
{
    double way[3];
    subtract(a, b, way);
    return dot(way, way);
}

/* Write the doubled area normals (3, t) of triangles (t, 3) of vertices (v, 3) m, their lengths (t,) in m^2, and the unit
 * normals (t, 3) and (3, t).
 *
 * min_height: triangles lower than this, relative to their longest side, are degenerate: their normals are zero.
 * is_degenerate: (t,).
 */
WIDE SHOWN void dampsim_triangle_normals(int64_t t, const int64_t *restrict triangles, const double *restrict vertices,
                                         double min_height, double *restrict doubled, double *restrict lengths,
                                         double *restrict normals, double *restrict normal_rows,
                                         uint8_t *restrict is_degenerate)
{
    for (int64_t i = 0; i < t; i++) {
        const double *a = vertices + 3 * triangles[3 * i], *b = vertices + 3 * triangles[3 * i + 1];
        const double *c = vertices + 3 * triangles[3 * i + 2];
        double u[3], v[3], normal[3];
        subtract(b, a, u);
        subtract(c, a, v);
        cross(u, v, normal);
        const double length = __builtin_sqrt(dot(normal, normal));
        const double longest = larger(larger(squared_distance(b, a), squared_distance(c, b)), squared_distance(a, c));
        lengths[i] = length;
        is_degenerate[i] = length <= min_height * longest;
        for (int k = 0; k < 3; k++) {
            doubled[k * t + i] = normal[k];
            normals[3 * i + k] = normal_rows[k * t + i] = is_degenerate[i] ? 0.0 : normal[k] / length;
        }
    }
}

/* An open surface: triangles (t, 3) of vertices (v, 3) m with normals (t, 3), whether each is degenerate (t,), and its
 * fans, see CornerFans in core/geometry/mesh/surface.py.
 */
struct sheet {
    const int64_t *triangles;
    const double *vertices, *normals;
    const uint8_t *is_degenerate;
    const int64_t *fan, *first, *count, *members;
};

static inline double plane_height(const struct sheet *s, int64_t triangle, const double *point)
{
    double offset[3];
    subtract(point, s->vertices + 3 * s->triangles[3 * triangle], offset);
    return dot(offset, s->normals + 3 * triangle);
}

/* Return the squared distance of a point from a triangle, m^2. weights: see closest_point(). */
WIDE static inline double squared_height(const struct sheet *s, int64_t triangle, const double *point, double *weights)
{
    const int64_t *corner = s->triangles + 3 * triangle;
    double offset[3];
    return closest_point(point, s->vertices + 3 * corner[0], s->vertices + 3 * corner[1], s->vertices + 3 * corner[2],
                         weights, offset);
}

/* Write the signed distances (k,) m of points (k, 3) m from the part of an open surface around triangles (k,).
 *
 * triangles to members: see struct sheet.  tie: m, difference of equal distances.
 */
WIDE SHOWN void dampsim_sheet_heights(const int64_t *restrict triangles, const double *restrict vertices,
                                      const double *restrict normals, const uint8_t *restrict is_degenerate,
                                      const int64_t *restrict fan, const int64_t *restrict first,
                                      const int64_t *restrict count, const int64_t *restrict members, double tie,
                                      int64_t k, const double *restrict points, const int64_t *restrict near,
                                      double *restrict heights)
{
    const struct sheet sheet = {triangles, vertices, normals, is_degenerate, fan, first, count, members};
    for (int64_t i = 0; i < k; i++) {
        const double *point = points + 3 * i;
        const double height = plane_height(&sheet, near[i], point);
        double weights[3], nearest = __builtin_inf(), highest = -2.0, deciding = height;
        heights[i] = height;
        squared_height(&sheet, near[i], point, weights);
        if (weights[0] != 0.0 && weights[1] != 0.0 && weights[2] != 0.0) continue;
        /* First whether the triangles around disagree, then their distance, then the one that faces the point most. */
        int differs = 0;
        for (int round = 0; round < 3; round++) {
            for (int corner = 0; corner < 3; corner++) {
                const int64_t own = fan[3 * near[i] + corner];
                for (int64_t j = first[own]; j < first[own] + count[own]; j++) {
                    const double other = plane_height(&sheet, members[j], point);
                    differs |= other * height < 0.0;
                    if (round == 0) continue;
                    double distance = __builtin_inf();
                    if (!is_degenerate[members[j]])
                        distance = __builtin_sqrt(squared_height(&sheet, members[j], point, weights));
                    if (round == 1) {
                        nearest = distance < nearest ? distance : nearest;
                        continue;
                    }
                    const double rank = distance <= nearest + tie ? magnitude(other) : -1.0;
                    if (!(rank > highest)) continue;
                    highest = rank;
                    deciding = other;
                }
            }
            if (!differs) break;
        }
        if (differs) heights[i] = __builtin_copysign(nearest, deciding);
    }
}
