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
 * children of node i are 2 i + 1 and 2 i + 2. Leaf j holds the boxes order[first_of_leaf(j)] to
 * order[first_of_leaf(j + 1) - 1].
 */
struct tree {
    int64_t n, leaves;
    const int32_t *order;
    const double *nodes, *boxes;
};

static inline int64_t first_of_leaf(const struct tree *tree, int64_t leaf)
{
    return leaf * tree->n / tree->leaves;
}

/* State of a search: nodes still to visit, and positions in the order of the boxes of the current leaf. */
struct walk {
    int64_t stack[STACK], depth, place, end;
};

static inline void begin_walk(struct walk *walk)
{
    walk->stack[0] = 0;
    walk->depth = 1;
    walk->place = walk->end = 0;
}

/* Return the next box that a query meets, or -1. meets(): returns whether the query meets a box (6,). */
static inline __attribute__((always_inline)) int64_t next_box(const struct tree *tree, struct walk *walk,
                                                              int (*meets)(const void *query, const double *box),
                                                              const void *query)
{
    for (;;) {
        while (walk->place < walk->end) {
            const int64_t box = tree->order[walk->place++];
            if (meets(query, tree->boxes + 6 * box)) return box;
        }
        if (!walk->depth) return -1;
        const int64_t node = walk->stack[--walk->depth];
        if (!meets(query, tree->nodes + 6 * node)) continue;
        if (node < tree->leaves - 1) {
            walk->stack[walk->depth++] = 2 * node + 1;
            walk->stack[walk->depth++] = 2 * node + 2;
            continue;
        }
        walk->place = first_of_leaf(tree, node - (tree->leaves - 1));
        walk->end = first_of_leaf(tree, node - (tree->leaves - 1) + 1);
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

#endif
