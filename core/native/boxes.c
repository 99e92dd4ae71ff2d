/* Trees of bounding boxes for collision detection: pairs of overlapping boxes, triangles near points, and edges near
 * edges. Results are the same as those of core/geometry/collision, which works without this kernel; a tree determines
 * only the order of the tests. Products are not fused with sums, as in numpy.
 */
#include "boxes.h"

/* Bits of a coordinate in the curve along which boxes are sorted. */
#define BITS 10

/* Return the bits of a number below 2^BITS with two zeros after each. */
static inline uint64_t spread_bits(uint64_t x)
{
    x = (x | x << 16) & 0x030000ff;
    x = (x | x << 8) & 0x0300f00f;
    x = (x | x << 4) & 0x030c30c3;
    return (x | x << 2) & 0x09249249;
}

/* Enlarge a box (6,) by another one. */
static inline void enlarge(double *box, const double *other)
{
    for (int k = 0; k < 3; k++) {
        box[k] = other[k] < box[k] ? other[k] : box[k];
        box[3 + k] = other[3 + k] > box[3 + k] ? other[3 + k] : box[3 + k];
    }
}

/* Write the order and the nodes of a tree of given boxes (n, 6), and the boxes in that order: a leaf's lie side by side.
 *
 * keys: (2n + 1024,) workspace.
 */
SHOWN void dampsim_tree_build(int64_t n, int64_t leaves, const double *restrict boxes, uint64_t *restrict keys,
                              int32_t *restrict order, double *restrict nodes, double *restrict sorted)
{
    const struct tree tree = {n, leaves, order, nodes, sorted};
    const double huge = __builtin_inf();
    double bottom[3] = {huge, huge, huge}, extent = 0.0;
    for (int k = 0; k < 3; k++) {
        double top = -huge;
        for (int64_t i = 0; i < n; i++) {
            const double middle = boxes[6 * i + k] + boxes[6 * i + 3 + k];
            /* Comparisons with NaN are false. */
            if (middle < bottom[k] && middle > -huge) bottom[k] = middle;
            if (middle > top && middle < huge) top = middle;
        }
        if (top - bottom[k] > extent) extent = top - bottom[k];
    }
    const double scale = extent > 0.0 && extent < huge ? ((1 << BITS) - 1) / extent : 0.0;
    uint64_t *source = keys, *target = keys + n, *counts = keys + 2 * n;
    for (int64_t i = 0; i < n; i++) {
        uint64_t code = 0;
        for (int k = 0; k < 3; k++) {
            double place = (boxes[6 * i + k] + boxes[6 * i + 3 + k] - bottom[k]) * scale;
            place = place > 0.0 ? place : 0.0;
            place = place < (1 << BITS) - 1 ? place : (1 << BITS) - 1;
            code |= spread_bits((uint64_t)place) << k;
        }
        source[i] = code << 32 | (uint64_t)i;
    }
    /* Radix sort by the code; equal codes keep their order. */
    for (int shift = 32; shift < 32 + 3 * BITS; shift += 10) {
        uint64_t sum = 0;
        for (int64_t c = 0; c < 1024; c++) counts[c] = 0;
        for (int64_t i = 0; i < n; i++) counts[source[i] >> shift & 1023]++;
        for (int64_t c = 0; c < 1024; c++) {
            const uint64_t count = counts[c];
            counts[c] = sum;
            sum += count;
        }
        for (int64_t i = 0; i < n; i++) target[counts[source[i] >> shift & 1023]++] = source[i];
        uint64_t *swapped = source;
        source = target;
        target = swapped;
    }
    for (int64_t i = 0; i < n; i++) {
        order[i] = (int32_t)(source[i] & 0xffffffff);
        for (int k = 0; k < 6; k++) sorted[6 * i + k] = boxes[6 * (int64_t)order[i] + k];
    }
    for (int64_t node = 2 * leaves - 2; node >= 0; node--) {
        double *box = nodes + 6 * node;
        const int64_t leaf = node - (leaves - 1);
        for (int k = 0; k < 3; k++) box[k] = huge, box[3 + k] = -huge;
        if (leaf >= 0)
            for (int64_t j = first_of_leaf(&tree, leaf); j < first_of_leaf(&tree, leaf + 1); j++)
                enlarge(box, sorted + 6 * j);
        else
            for (int64_t child = 2 * node + 1; child <= 2 * node + 2; child++) enlarge(box, nodes + 6 * child);
    }
}

typedef double wide __attribute__((vector_size(32), aligned(8)));

/* Bounds of the first and of the last four numbers of boxes that meet an asked one, all upper bounds by their signs. */
struct bounds {
    wide first, last;
};

#define FIRST_SIGNS (wide){1.0, 1.0, 1.0, -1.0}
#define LAST_SIGNS (wide){1.0, -1.0, -1.0, -1.0}

/* Return the bounds for boxes that overlap an asked one (6,), enlarged by reach. */
WIDE static inline struct bounds bounds_of(const double *asked, double reach)
{
    const double *low = asked, *high = asked + 3;
    const double x = reach - low[0], y = reach - low[1], z = reach - low[2];
    return (struct bounds){{high[0] + reach, high[1] + reach, high[2] + reach, x}, {high[2] + reach, x, y, z}};
}

/* Return whether a box (6,) keeps the bounds. Which comparison fails is hard to predict, so all are made at once. */
WIDE static inline int is_overlapping(const void *query, const double *box)
{
    const struct bounds *bounds = query;
    const wide first = *(const wide *)box, last = *(const wide *)(box + 2);
    const __typeof__(first <= last) fine =
        (first * FIRST_SIGNS <= bounds->first) & (last * LAST_SIGNS <= bounds->last);
    return (fine[0] & fine[1] & fine[2] & fine[3]) != 0;
}

/* Sort the results of one query. */
static void sort_indices(int32_t *found, int64_t count)
{
    int64_t gap = 1;
    while (gap < count / 3) gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3)
        for (int64_t i = gap; i < count; i++) {
            const int32_t one = found[i];
            int64_t j = i;
            for (; j >= gap && found[j - gap] > one; j -= gap) found[j] = found[j - gap];
            found[j] = one;
        }
}

/* Return whether two spheres may meet while their centres move steadily. a, b: first centre, last centre, radius. */
static inline int may_meet(const double *a, const double *b)
{
    double first[3], change[3], along = 0.0, square = 0.0, distance = 0.0;
    for (int k = 0; k < 3; k++) {
        first[k] = a[k] - b[k];
        change[k] = a[3 + k] - b[3 + k] - first[k];
        along -= first[k] * change[k];
        square += change[k] * change[k];
    }
    const double time = clamped_ratio(along, square);
    for (int k = 0; k < 3; k++) {
        const double offset = first[k] + time * change[k];
        distance += offset * offset;
    }
    const double reach = a[6] + b[6];
    return distance <= reach * reach;
}

/* Return whether two labels of an edge and three of a triangle have one in common. */
static inline int have_common_label(const int32_t *edge, const int32_t *triangle)
{
    for (int k = 0; k < 3; k++)
        if (triangle[k] == edge[0] || triangle[k] == edge[1]) return 1;
    return 0;
}

/* Find the boxes of a tree that overlap each of m boxes, and return their number; -1 if it exceeds the capacity.
 *
 * asked: (m, 6).  balls, asked_balls: (n, 7), (m, 7) of moving spheres that must meet too, or NULL.
 * labels, asked_labels: (n, 3), (m, 2) of triangles and edges in the boxes, or NULL; pairs with a common one are left
 * out.  first, second: (capacity,) indices of asked boxes and of boxes, in ascending order.
 */
WIDE SHOWN int64_t dampsim_tree_overlaps(int64_t n, int64_t leaves, const int32_t *restrict order,
                                    const double *restrict nodes, const double *restrict boxes, int64_t m,
                                    const double *restrict asked, const double *restrict balls,
                                    const double *restrict asked_balls, const int32_t *restrict labels,
                                    const int32_t *restrict asked_labels, int64_t capacity, int32_t *restrict first,
                                    int32_t *restrict second)
{
    const struct tree tree = {n, leaves, order, nodes, boxes};
    int64_t count = 0, other;
    struct walk walk;
    for (int64_t i = 0; i < m; i++) {
        const int64_t begin = count;
        const struct bounds bounds = bounds_of(asked + 6 * i, 0.0);
        begin_walk(&walk, 0);
        while ((other = next_box(&tree, &walk, is_overlapping, &bounds)) >= 0) {
            if (balls && !may_meet(asked_balls + 7 * i, balls + 7 * other)) continue;
            if (labels && have_common_label(asked_labels + 2 * i, labels + 3 * other)) continue;
            if (count == capacity) return -1;
            first[count] = (int32_t)i;
            second[count++] = (int32_t)other;
        }
        sort_indices(second + begin, count - begin);
    }
    return count;
}

/* Rules that exclude pairs of points and triangles, see core/geometry/collision/pair_rules.py. Any array may be NULL,
 * with those that belong to it. */
struct pair_rules {
    /* Own vertex (p,) of each point; the corners are triangles (t, 3). */
    const int32_t *vertices;
    /* Whether points (p,) and triangles (t,) can move. */
    const uint8_t *can_point_move, *can_triangle_move;
    /* Rest positions (p, 3) m, and the bounding spheres of the triangles at rest, (t, 3) m and (t,) m. */
    const double *rest, *middles, *radii;
    /* The nearest place on the other side of a seam (p, 3) m, and the distance (p,) m to it. */
    const double *sewn, *seam_distances;
    /* Positions (p, 3) m at the start, and a corner (t, 3) m and the normal (t, 3) of each triangle then. */
    const double *start, *start_corners, *start_normals;
    /* Normals (p, 3) that a triangle's normal (t, 3) must oppose. */
    const double *point_normals, *normals;
    /* Normals (p, 3) of points and faces (p, degree) at them with normals (f, 3), one of which must oppose it. */
    const double *vertex_normals;
    const int32_t *faces;
    const double *face_normals;
    int64_t degree;
    double min_rest_distance, min_start_height, max_normal_cosine, max_face_cosine;
};

WIDE static double rest_distance(const double *rest, const double *middle)
{
    double way[3];
    subtract(rest, middle, way);
    return __builtin_sqrt(dot(way, way));
}

WIDE static int is_excluded(const struct pair_rules *rules, int64_t point, int64_t triangle, const int32_t *corners)
{
    if (rules->vertices)
        for (int k = 0; k < 3; k++)
            if (corners[3 * triangle + k] == rules->vertices[point]) return 1;
    if (rules->can_point_move && !rules->can_point_move[point] && !rules->can_triangle_move[triangle]) return 1;
    if (rules->rest) {
        const double *middle = rules->middles + 3 * triangle;
        double distance = rest_distance(rules->rest + 3 * point, middle) - rules->radii[triangle];
        if (rules->sewn) {
            const double across = rules->seam_distances[point] + rest_distance(rules->sewn + 3 * point, middle);
            distance = distance < across - rules->radii[triangle] ? distance : across - rules->radii[triangle];
        }
        if (distance < rules->min_rest_distance) return 1;
    }
    if (rules->start) {
        double way[3];
        subtract(rules->start + 3 * point, rules->start_corners + 3 * triangle, way);
        if (dot(way, rules->start_normals + 3 * triangle) < rules->min_start_height) return 1;
    }
    if (rules->point_normals &&
        !(dot(rules->point_normals + 3 * point, rules->normals + 3 * triangle) < rules->max_normal_cosine))
        return 1;
    if (rules->vertex_normals) {
        const double *normal = rules->normals + 3 * triangle;
        if (dot(rules->vertex_normals + 3 * point, normal) < rules->max_face_cosine) return 0;
        for (int64_t k = 0; k < rules->degree; k++)
            if (dot(rules->face_normals + 3 * (int64_t)rules->faces[rules->degree * point + k], normal) <
                rules->max_face_cosine)
                return 0;
        return 1;
    }
    return 0;
}

static inline double squared_box_distance(const double *box, const double *point)
{
    double total = 0.0;
    for (int k = 0; k < 3; k++) {
        const double below = box[k] - point[k], above = point[k] - box[3 + k];
        const double beside = below > above ? below : above, distance = beside > 0.0 ? beside : 0.0;
        total += distance * distance;
    }
    return total;
}

/* Surface with triangles (t, 3) of vertices (v, 3) m in the boxes of a tree, and p points (p, 3) m to search for.
 *
 * reach: (p,) m; NaN for points to leave out.
 */
struct surface_search {
    const struct tree *tree;
    const int32_t *corners;
    const double *vertices, *points, *reach;
    const struct pair_rules *rules;
};

/* Return the distance of a point of the search from a triangle in m; see closest_point(). */
WIDE static inline double triangle_distance(const struct surface_search *s, int64_t point, int64_t triangle, double *weights,
                                       double *offset)
{
    const int32_t *corner = s->corners + 3 * triangle;
    return __builtin_sqrt(closest_point(s->points + 3 * point, s->vertices + 3 * (int64_t)corner[0],
                                        s->vertices + 3 * (int64_t)corner[1], s->vertices + 3 * (int64_t)corner[2],
                                        weights, offset));
}

/* Return the distance of a point of the search from a triangle in m; -1 if rules or reach exclude it. */
WIDE static inline double allowed_distance(const struct surface_search *s, int64_t point, int64_t triangle)
{
    double weights[3], offset[3];
    if (is_excluded(s->rules, point, triangle, s->corners)) return -1.0;
    const double distance = triangle_distance(s, point, triangle, weights, offset);
    return distance <= s->reach[point] ? distance : -1.0;
}

/* A point (3,) m and the square of a distance in m^2. */
struct ball {
    const double *point;
    double square;
};

static inline int is_in_reach(const void *query, const double *box)
{
    const struct ball *ball = query;
    return squared_box_distance(box, ball->point) <= ball->square;
}

/* Find the triangles in reach of p points, and return the number of pairs; -1 if it exceeds the capacity.
 *
 * corners to reach: see surface_search.  slack: (p,) m by which boxes are enlarged for rounding.
 * found_points, found_triangles: (capacity,).
 */
WIDE SHOWN int64_t dampsim_near_triangles(int64_t n, int64_t leaves, const int32_t *restrict order,
                                     const double *restrict nodes, const double *restrict boxes,
                                     const int32_t *restrict corners, const double *restrict vertices, int64_t p,
                                     const double *restrict points, const double *restrict reach,
                                     const double *restrict slack, const struct pair_rules *rules, int64_t capacity,
                                     int32_t *restrict found_points, int32_t *restrict found_triangles)
{
    const struct tree tree = {n, leaves, order, nodes, boxes};
    const struct surface_search search = {&tree, corners, vertices, points, reach, rules};
    int64_t count = 0, triangle;
    struct walk walk;
    for (int64_t i = 0; i < p; i++) {
        const double limit = reach[i] + slack[i];
        const struct ball ball = {points + 3 * i, limit * limit};
        begin_walk(&walk, 0);
        while ((triangle = next_box(&tree, &walk, is_in_reach, &ball)) >= 0) {
            if (allowed_distance(&search, i, triangle) < 0.0) continue;
            if (count == capacity) return -1;
            found_points[count] = (int32_t)i;
            found_triangles[count++] = (int32_t)triangle;
        }
    }
    return count;
}

/* Largest number of stored triangles that may be the nearest. */
#define STORED 16

/* Triangles that may be the nearest of a point, and their distances, m. count: -1 if they were too many. */
struct candidates {
    int64_t count, triangles[STORED];
    double distances[STORED];
};

/* Store a triangle. tied: m, largest distance at which those stored before still may be the nearest. */
static void store_candidate(struct candidates *stored, int64_t triangle, double distance, double tied)
{
    if (stored->count == STORED) {
        stored->count = 0;
        for (int64_t k = 0; k < STORED; k++)
            if (stored->distances[k] <= tied) {
                stored->triangles[stored->count] = stored->triangles[k];
                stored->distances[stored->count++] = stored->distances[k];
            }
        if (stored->count == STORED) stored->count = -1;
    }
    if (stored->count < 0) return;
    stored->triangles[stored->count] = triangle;
    stored->distances[stored->count++] = distance;
}

/* Return the rank of a triangle among equally near ones: its index, but degenerate ones come last. */
static inline int64_t rank_of(int64_t triangle, const uint8_t *is_degenerate, int64_t count)
{
    return triangle + (is_degenerate[triangle] ? count : 0);
}

/* Return the distance in m of the allowed triangle nearest to a point; infinity if there is none within its reach.
 *
 * Distances are ties within slack, m, besides their fraction `tie`.
 * stored: receives the triangles that may be the nearest.
 * best: if not NULL, `nearest` is that distance, and the lowest rank of the triangles tied with it is written.
 */
WIDE static double search_nearest(const struct surface_search *s, int64_t i, double slack, double tie,
                                  const uint8_t *is_degenerate, double nearest, struct candidates *stored,
                                  int64_t *best)
{
    const struct tree *tree = s->tree;
    const double *point = s->points + 3 * i;
    double tied = nearest * (1.0 + tie) + slack;
    /* Boxes are compared with a limit that allows for rounding. */
    double limit = nearest * (1.0 + 2.0 * tie) + slack, bounds[STACK];
    int64_t stack[STACK], depth = 0;
    int is_found = 0;
    stack[depth] = 0;
    bounds[depth++] = squared_box_distance(tree->nodes, point);
    while (depth) {
        const int64_t node = stack[--depth];
        if (!(bounds[depth] <= limit * limit)) continue;
        if (node < tree->leaves - 1) {
            const int64_t left = 2 * node + 1, right = left + 1;
            const double a = squared_box_distance(tree->nodes + 6 * left, point);
            const double b = squared_box_distance(tree->nodes + 6 * right, point);
            /* The nearer child is visited first. */
            stack[depth] = a < b ? right : left;
            bounds[depth++] = a < b ? b : a;
            stack[depth] = a < b ? left : right;
            bounds[depth++] = a < b ? a : b;
            continue;
        }
        const int64_t leaf = node - (tree->leaves - 1), end = first_of_leaf(tree, leaf + 1);
        for (int64_t j = first_of_leaf(tree, leaf); j < end; j++) {
            if (!(squared_box_distance(tree->boxes + 6 * j, point) <= limit * limit)) continue;
            const int64_t triangle = tree->order[j];
            const double distance = allowed_distance(s, i, triangle);
            if (distance < 0.0) continue;
            is_found = 1;
            if (best) {
                const int64_t rank = rank_of(triangle, is_degenerate, tree->n);
                if (distance <= tied && rank < *best) *best = rank;
                continue;
            }
            if (distance < nearest) {
                nearest = distance;
                tied = nearest * (1.0 + tie) + slack;
                limit = nearest * (1.0 + 2.0 * tie) + slack;
            }
            if (distance <= tied) store_candidate(stored, triangle, distance, tied);
        }
    }
    return is_found ? nearest : __builtin_inf();
}

/* Find the nearest triangle of each of p points. Of equally near ones the first wins, degenerate ones last.
 *
 * corners to reach: see surface_search.  is_degenerate: (t,).  slack: (p,) m, and tie: see search_nearest().
 * found: (p,) triangles, -1 for none.  weights: (p, 3) of the closest points.  offsets: (p, 3) m from there to the
 * points.  distances: (p,) m.
 */
WIDE SHOWN void dampsim_nearest_triangles(int64_t n, int64_t leaves, const int32_t *restrict order,
                                     const double *restrict nodes, const double *restrict boxes,
                                     const int32_t *restrict corners, const double *restrict vertices,
                                     const uint8_t *restrict is_degenerate, int64_t p, const double *restrict points,
                                     const double *restrict reach, const double *restrict slack, double tie,
                                     const struct pair_rules *rules, int32_t *restrict found, double *restrict weights,
                                     double *restrict offsets, double *restrict distances)
{
    const struct tree tree = {n, leaves, order, nodes, boxes};
    const struct surface_search search = {&tree, corners, vertices, points, reach, rules};
    for (int64_t i = 0; i < p; i++) {
        found[i] = -1;
        if (!(reach[i] >= 0.0)) continue;
        struct candidates stored = {.count = 0};
        const double nearest = search_nearest(&search, i, slack[i], tie, is_degenerate, reach[i], &stored, 0);
        /* Distances within an infinite reach are finite. */
        if (nearest == __builtin_inf()) continue;
        int64_t best = 2 * n;
        if (stored.count < 0) search_nearest(&search, i, slack[i], tie, is_degenerate, nearest, 0, &best);
        for (int64_t k = 0; k < stored.count; k++) {
            const int64_t rank = rank_of(stored.triangles[k], is_degenerate, n);
            if (stored.distances[k] <= nearest * (1.0 + tie) + slack[i] && rank < best) best = rank;
        }
        if (best == 2 * n) continue;
        best -= best >= n ? n : 0;
        found[i] = (int32_t)best;
        distances[i] = triangle_distance(&search, i, best, weights + 3 * i, offsets + 3 * i);
    }
}

/* Return the distance of two edges in m, as numpy does; infinity if their closest points are not inside of both.
 *
 * sine: squared sine of the angle up to which edges are parallel.
 */
WIDE static double edge_distance(const double *const ends[4], double sine)
{
    double a[3], b[3], between[3], normal[3], one[3], other[3];
    subtract(ends[1], ends[0], a);
    subtract(ends[3], ends[2], b);
    subtract(ends[2], ends[0], between);
    cross(a, b, normal);
    cross(between, b, one);
    cross(between, a, other);
    const double square = dot(normal, normal), along = dot(one, normal), beside = dot(other, normal);
    /* Most pairs end here, without a division. */
    if (!((along > 0.0) & (along < square) & (beside > 0.0) & (beside < square))) return __builtin_inf();
    const double lengths = dot(a, a) * dot(b, b), sines = square / (lengths > TINY ? lengths : TINY);
    const double s = along / square, t = beside / square;
    if (!(sines > sine && sines > 1e-24 && square > TINY && s > 0.0 && s < 1.0 && t > 0.0 && t < 1.0))
        return __builtin_inf();
    for (int k = 0; k < 3; k++) one[k] = ends[0][k] - ends[2][k] + s * a[k] - t * b[k];
    return __builtin_sqrt(dot(one, one));
}

/* Find the edges of a tree near each of m edges, and return the number of pairs; -1 if it exceeds the capacity.
 *
 * edges: (n, 2) of points (v, 3) m.  asked_edges: (m, 2) of asked_points (w, 3) m.  margins: (m,) m by which the boxes
 * of the asked edges are enlarged.  reach: m, largest distance of a pair.
 */
WIDE SHOWN int64_t dampsim_near_edges(int64_t n, int64_t leaves, const int32_t *restrict order,
                                 const double *restrict nodes, const double *restrict boxes,
                                 const int32_t *restrict edges, const double *restrict points, int64_t m,
                                 const int32_t *restrict asked_edges, const double *restrict asked_points,
                                 const double *restrict margins, double reach, double sine, int64_t capacity,
                                 int32_t *restrict first, int32_t *restrict second)
{
    const struct tree tree = {n, leaves, order, nodes, boxes};
    int64_t count = 0, other;
    struct walk walk;
    for (int64_t i = 0; i < m; i++) {
        const double *ends[4] = {asked_points + 3 * (int64_t)asked_edges[2 * i],
                                 asked_points + 3 * (int64_t)asked_edges[2 * i + 1], 0, 0};
        double box[6];
        for (int k = 0; k < 3; k++) {
            const double a = ends[0][k], b = ends[1][k];
            box[k] = a < b ? a : b;
            box[3 + k] = a < b ? b : a;
        }
        const struct bounds bounds = bounds_of(box, margins[i]);
        const int64_t begin = count;
        begin_walk(&walk, 0);
        while ((other = next_box(&tree, &walk, is_overlapping, &bounds)) >= 0) {
            ends[2] = points + 3 * (int64_t)edges[2 * other];
            ends[3] = points + 3 * (int64_t)edges[2 * other + 1];
            if (!(edge_distance(ends, sine) < reach)) continue;
            if (count == capacity) return -1;
            first[count] = (int32_t)i;
            second[count++] = (int32_t)other;
        }
        sort_indices(second + begin, count - begin);
    }
    return count;
}

/* Return the largest length of the relative motions between the ends of two edges, m. */
WIDE static double relative_motion(const double *motion, const int32_t *edge, const int32_t *other)
{
    double largest = 0.0;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            double way[3];
            subtract(motion + 3 * (int64_t)edge[i], motion + 3 * (int64_t)other[j], way);
            const double square = dot(way, way);
            largest = square > largest ? square : largest;
        }
    return __builtin_sqrt(largest);
}

/* Edges (n, 2) of points (v, 3) m in the boxes of a tree, with motion (v, 3) m, and when a pair is near: see
 * dampsim_meeting_edges().
 */
struct edge_search {
    const int32_t *edges;
    const double *points, *motion;
    double reach, sine;
};

/* Return whether two edges without a common vertex end close to each other. */
WIDE static int is_meeting(const struct edge_search *s, int64_t first, int64_t second)
{
    const int32_t *edge = s->edges + 2 * first, *met = s->edges + 2 * second;
    if ((met[0] == edge[0]) | (met[0] == edge[1]) | (met[1] == edge[0]) | (met[1] == edge[1])) return 0;
    const double *ends[4] = {s->points + 3 * (int64_t)edge[0], s->points + 3 * (int64_t)edge[1],
                             s->points + 3 * (int64_t)met[0], s->points + 3 * (int64_t)met[1]};
    const double distance = edge_distance(ends, s->sine);
    return distance < __builtin_inf() && distance < s->reach + relative_motion(s->motion, edge, met);
}

/* Find the pairs of edges of one moving surface without common vertices that end close to each other, and return their
 * number; -1 if it exceeds the capacity.
 *
 * boxes: (n, 6) around the edges at the end, enlarged by their motion.  edges: (n, 2) of points (v, 3) m.
 * motion: (v, 3) m.  reach: m, enlarged by the relative motion of a pair.  sine: see edge_distance().  first, second:
 * (capacity,), first < second, in the order of the tree.
 */
WIDE SHOWN int64_t dampsim_meeting_edges(int64_t n, int64_t leaves, const int32_t *restrict order,
                                         const double *restrict nodes, const double *restrict boxes,
                                         const int32_t *restrict edges, const double *restrict points,
                                         const double *restrict motion, double reach, double sine, int64_t capacity,
                                         int32_t *restrict first, int32_t *restrict second)
{
    const struct tree tree = {n, leaves, order, nodes, boxes};
    const struct edge_search search = {edges, points, motion, reach, sine};
    int64_t count = 0;
    /* Each leaf is searched for in itself and in those after it: in the right siblings of all nodes on its way up. */
    for (int64_t leaf = 0; leaf < leaves; leaf++) {
        const int64_t begin = first_of_leaf(&tree, leaf), end = first_of_leaf(&tree, leaf + 1);
        const struct bounds asked = bounds_of(nodes + 6 * (leaves - 1 + leaf), reach);
        for (int64_t node = leaves - 1 + leaf, other = leaf, is_own = 1; is_own || node > 0; is_own = 0) {
            struct walk walk;
            if (!is_own) {
                const int is_left = node & 1;
                if (is_left) begin_walk(&walk, node + 1);
                node = (node - 1) / 2;
                if (!is_left) continue;
            }
            while (is_own || (other = next_leaf(&tree, &walk, is_overlapping, &asked)) >= 0) {
                const int64_t last = first_of_leaf(&tree, other + 1);
                for (int64_t i = begin; i < end; i++) {
                    const struct bounds bounds = bounds_of(boxes + 6 * i, reach);
                    for (int64_t j = is_own ? i + 1 : first_of_leaf(&tree, other); j < last; j++) {
                        if (!is_overlapping(&bounds, boxes + 6 * j)) continue;
                        const int64_t one = order[i] < order[j] ? order[i] : order[j], two = order[i] + order[j] - one;
                        if (!is_meeting(&search, one, two)) continue;
                        if (count == capacity) return -1;
                        first[count] = (int32_t)one;
                        second[count++] = (int32_t)two;
                    }
                }
                if (is_own) break;
            }
        }
    }
    return count;
}
