/* Trees of bounding boxes, see boxes.c, and vectors. Products are not fused with sums, as in numpy. */
#ifndef DAMPSIM_BOXES_H
#define DAMPSIM_BOXES_H

#include "kernel.h"

#pragma STDC FP_CONTRACT OFF

/* Depth of a tree of 2^31 boxes, with one more entry for each level. */
#define STACK 64
#define TINY 1e-300

static inline int64_t first_of_leaf(int64_t leaf, int64_t leaves, int64_t n)
{
    return leaf * n / leaves;
}

static inline double dot(const double *a, const double *b)
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static inline void cross(const double *a, const double *b, double *found)
{
    found[0] = a[1] * b[2] - a[2] * b[1];
    found[1] = a[2] * b[0] - a[0] * b[2];
    found[2] = a[0] * b[1] - a[1] * b[0];
}

#endif
