/* Trees of bounding boxes, see boxes.c. Products are not fused with sums, as in numpy. */
#ifndef DAMPSIM_BOXES_H
#define DAMPSIM_BOXES_H

#pragma STDC FP_CONTRACT OFF

#include "kernel.h"

/* Depth of a tree of 2^31 boxes, with one more entry for each level. */
#define STACK 64
#define TINY 1e-300

/* A tree of n boxes (n, 6) m, low and high corners.
 *
 * It has `leaves` leaves, a power of two, and its nodes (2 leaves - 1, 6) m are stored like those of a heap: the
 * children of node i are 2 i + 1 and 2 i + 2. Leaf j holds the boxes at the places first_of_leaf(j) to
 * first_of_leaf(j + 1) - 1; order (n,) has the index of the box at each place.
 */
struct tree {
    int64_t n, leaves;
    const int32_t *order;
    const double *nodes, *boxes;
};

static inline int64_t first_of_leaf(const struct tree *tree, int64_t leaf)
{
    return leaf * tree->n >> __builtin_ctzll((uint64_t)tree->leaves);
}

/* State of a search: nodes still to visit, and places of the boxes of the current leaf. */
struct walk {
    int64_t stack[STACK], depth, place, end;
};

static inline void begin_walk(struct walk *walk, int64_t node)
{
    walk->stack[0] = node;
    walk->depth = 1;
    walk->place = walk->end = 0;
}

/* Return the next leaf whose box a query meets, or -1. meets(): returns whether the query meets a box (6,). */
WIDE static inline __attribute__((always_inline)) int64_t next_leaf(const struct tree *tree, struct walk *walk,
                                                               int (*meets)(const void *query, const double *box),
                                                               const void *query)
{
    while (walk->depth) {
        const int64_t node = walk->stack[--walk->depth];
        if (!meets(query, tree->nodes + 6 * node)) continue;
        if (node >= tree->leaves - 1) return node - (tree->leaves - 1);
        walk->stack[walk->depth++] = 2 * node + 1;
        walk->stack[walk->depth++] = 2 * node + 2;
    }
    return -1;
}

/* Return the index of the next box that a query meets, or -1. */
WIDE static inline __attribute__((always_inline)) int64_t next_box(const struct tree *tree, struct walk *walk,
                                                              int (*meets)(const void *query, const double *box),
                                                              const void *query)
{
    for (;;) {
        while (walk->place < walk->end) {
            const int64_t place = walk->place++;
            if (meets(query, tree->boxes + 6 * place)) return tree->order[place];
        }
        const int64_t leaf = next_leaf(tree, walk, meets, query);
        if (leaf < 0) return -1;
        walk->place = first_of_leaf(tree, leaf);
        walk->end = first_of_leaf(tree, leaf + 1);
    }
}

/* Return a number limited to 0 to 1. */
static inline double clamped(double x)
{
    return x > 0.0 ? (x < 1.0 ? x : 1.0) : 0.0;
}

static inline double magnitude(double x)
{
    return x < 0.0 ? -x : x;
}

static inline double clamped_ratio(double along, double square)
{
    return clamped(along / (square > TINY ? square : TINY));
}

/* Return the squared distance of a point from a triangle, as closest_points_on_triangles() of numpy.
 *
 * weights: (3,) of the closest point.  offset: (3,) from there to the point.
 */
WIDE static inline double closest_point(const double *point, const double *a, const double *b, const double *c, double *weights,
                            double *offset)
{
    double u[3], v[3], w[3], normal[3], one[3], other[3];
    subtract(b, a, u);
    subtract(c, a, v);
    subtract(point, a, w);
    const double uu = dot(u, u), uv = dot(u, v), vv = dot(v, v);
    cross(u, v, normal);
    const double square = dot(normal, normal);
    if (square > 1e-24 * uu * vv) {
        cross(w, v, one);
        cross(u, w, other);
        weights[1] = dot(normal, one) / square;
        weights[2] = dot(normal, other) / square;
        weights[0] = 1.0 - weights[1] - weights[2];
        if (weights[0] > 0.0 && weights[1] > 0.0 && weights[2] > 0.0) {
            const double height = dot(w, normal) / square;
            for (int k = 0; k < 3; k++) offset[k] = height * normal[k];
            return dot(offset, offset);
        }
    }
    const double wu = dot(w, u), wv = dot(w, v);
    const double across = clamped_ratio(wv - wu + uu - uv, uu - 2.0 * uv + vv);
    const double t[3] = {clamped_ratio(wu, uu), clamped_ratio(wv, vv), across};
    double best = 0.0;
    int nearest = 0;
    for (int side = 0; side < 3; side++) {
        for (int k = 0; k < 3; k++)
            one[k] = side == 0   ? w[k] - t[0] * u[k]
                     : side == 1 ? w[k] - t[1] * v[k]
                                 : (w[k] - u[k]) - t[2] * (v[k] - u[k]);
        const double distance = dot(one, one);
        if (side > 0 && !(distance < best)) continue;
        best = distance;
        nearest = side;
        for (int k = 0; k < 3; k++) offset[k] = one[k];
    }
    weights[nearest == 2 ? 1 : 0] = 1.0 - t[nearest];
    weights[nearest == 0 ? 1 : 2] = t[nearest];
    weights[nearest == 0 ? 2 : nearest == 1 ? 1 : 0] = 0.0;
    return best;
}

#endif
