/* Skinning weights of single vertices with few influences; see core/frames/bone_weights.py. */
#include "kernel.h"

/* Problem of a vertex with m influences.
 *
 * gram: (m, m) m2, symmetric.  curvature: (m, m) m2, second derivatives of half the error along transfers of weight.
 * inverse: (m, m), of the curvature; 0 where no weight can move, between groups.
 * slope: (m,) m2, half the gradient.  w: (m,) weights.  found: (m,), room.  group, place: (m,), place in the result.
 */
struct vertex {
    int64_t m;
    double *gram, *curvature, *inverse, *slope, *w, *found;
    int32_t *group, *place;
};

/* Prepare the problem of all influences. */
WIDE static void begin(struct vertex *v, int64_t c, const double *gram, const int32_t *group, const double *weights)
{
    double trace = 0.0;
    v->m = c;
    for (int64_t i = 0; i < c; i++) {
        trace += gram[i * c + i];
        v->w[i] = weights[i];
        v->group[i] = group[i];
        v->place[i] = (int32_t)i;
    }
    const double least = 1e-12 * trace + 1e-300;
    for (int64_t i = 0; i < c; i++)
        for (int64_t j = 0; j < c; j++) {
            const int64_t k = i * c + j;
            const double h = at_least(gram[i * c + i] + gram[j * c + j] - 2.0 * gram[k], least);
            v->gram[k] = gram[k];
            v->curvature[k] = h;
            v->inverse[k] = i != j && group[i] == group[j] ? 1.0 / h : 0.0;
        }
}

/* Leave out the influences without weight. */
static void leave_out_empty(struct vertex *v)
{
    const int64_t m = v->m;
    int64_t k = 0, row = 0;
    for (int64_t i = 0; i < m; i++) {
        if (!(v->w[i] > 0.0)) continue;
        for (int64_t j = 0; j < m; j++) {
            if (!(v->w[j] > 0.0)) continue;
            /* No entry is overwritten before it is read. */
            v->gram[k] = v->gram[i * m + j];
            v->curvature[k] = v->curvature[i * m + j];
            v->inverse[k++] = v->inverse[i * m + j];
        }
    }
    for (int64_t i = 0; i < m; i++) {
        if (!(v->w[i] > 0.0)) continue;
        v->w[row] = v->w[i];
        v->group[row] = v->group[i];
        v->place[row++] = v->place[i];
    }
    v->m = row;
}

/* Compute half the gradient of the error. */
WIDE static void find_slope(struct vertex *v)
{
    const int64_t m = v->m;
    for (int64_t i = 0; i < m; i++) {
        double sum = 0.0;
        for (int64_t j = 0; j < m; j++) sum += v->gram[i * m + j] * v->w[j];
        v->slope[i] = sum;
    }
}

/* Move weight along the best pairs of influences. */
WIDE static void descend(struct vertex *v, int64_t steps, double min_decrease)
{
    const int64_t m = v->m;
    double *restrict slope = v->slope, *restrict w = v->w, *restrict found = v->found;
    find_slope(v);
    for (int64_t step = 0; step < steps; step++) {
        double best = 0.0;
        int64_t to = -1, from = -1;
        for (int64_t j = 0; j < m; j++) {
            const double most = w[j], high = slope[j];
            const double *restrict inverse = v->inverse + j * m, *restrict curvature = v->curvature + j * m;
            if (!(most > 0.0)) continue;
            for (int64_t i = 0; i < m; i++) {
                const double down = high - slope[i];
                double amount = down * inverse[i];
                amount = amount < most ? amount : most;
                amount = amount > 0.0 ? amount : 0.0;
                found[i] = amount * (down - 0.5 * amount * curvature[i]);
            }
            for (int64_t i = 0; i < m; i++)
                if (found[i] > best) {
                    best = found[i];
                    to = i;
                    from = j;
                }
        }
        if (to < 0) return;
        double moved = (slope[from] - slope[to]) * v->inverse[from * m + to], error = 0.0;
        moved = moved < w[from] ? moved : w[from];
        w[to] += moved;
        w[from] = at_least(w[from] - moved, 0.0);
        for (int64_t i = 0; i < m; i++) {
            slope[i] += moved * (v->gram[to * m + i] - v->gram[from * m + i]);
            error += 0.5 * w[i] * slope[i];
        }
        if (!(best > min_decrease * at_least(error, 0.0) + 1e-300)) return;
    }
}

/* Move all weight of one influence to another of its group where the error grows least; return whether. */
WIDE static int remove_least(struct vertex *v)
{
    const int64_t m = v->m;
    double least = __builtin_inf();
    int64_t to = -1, from = -1;
    find_slope(v);
    for (int64_t j = 0; j < m; j++)
        for (int64_t i = 0; i < m; i++) {
            const double w = v->w[j];
            const double growth = w * (v->slope[i] - v->slope[j]) + 0.5 * w * w * v->curvature[j * m + i];
            if (v->inverse[j * m + i] > 0.0 && growth < least) {
                least = growth;
                to = i;
                from = j;
            }
        }
    if (to < 0) return 0;
    v->w[to] += v->w[from];
    v->w[from] = 0.0;
    return 1;
}

/* Give weights below a least one to the others of their group, which keeps its sum. */
static void drop_small(struct vertex *v, double min_weight)
{
    const int64_t m = v->m;
    double *kept = v->slope;
    for (int64_t i = 0; i < m; i++) {
        kept[i] = v->w[i];
        for (int64_t j = 0; j < m && v->w[i] < min_weight; j++)
            if (v->group[j] == v->group[i] && v->w[j] > v->w[i]) kept[i] = 0.0;
    }
    for (int64_t i = 0; i < m; i++) {
        double before = 0.0, after = 0.0;
        for (int64_t j = 0; j < m; j++)
            if (v->group[j] == v->group[i]) {
                before += v->w[j];
                after += kept[j];
            }
        v->found[i] = after > 0.0 ? kept[i] * (before / after) : kept[i];
    }
    for (int64_t i = 0; i < m; i++) v->w[i] = v->found[i];
}

/* Improve feasible weights (n, c); see solve_weights() in bone_weights.py.
 *
 * gram: (n, c, c) m2.  groups: (n, c).  limits: (n,) largest numbers of weights above zero.
 * steps: at the start and at the end, and after each removal.  room: (3 c c + 3 c,).  marks: (2 c,).
 */
SHOWN void dampsim_skin_weights(int64_t n, int64_t c, const double *gram, const int32_t *groups, const int32_t *limits,
                                int64_t steps, int64_t repair_steps, double min_decrease, double min_weight,
                                double *room, int32_t *marks, double *weights)
{
    double *rows = room + 3 * c * c;
    struct vertex v = {c,    room,     room + c * c, room + 2 * c * c, rows, rows + c, rows + 2 * c,
                       marks, marks + c};
    for (int64_t k = 0; k < n; k++) {
        double *own = weights + k * c;
        begin(&v, c, gram + k * c * c, groups + k * c, own);
        descend(&v, steps, min_decrease);
        drop_small(&v, min_weight);
        leave_out_empty(&v);
        while (v.m > limits[k] && remove_least(&v)) {
            leave_out_empty(&v);
            descend(&v, repair_steps, min_decrease);
            leave_out_empty(&v);
        }
        descend(&v, steps, min_decrease);
        drop_small(&v, min_weight);
        for (int64_t i = 0; i < c; i++) own[i] = 0.0;
        for (int64_t i = 0; i < v.m; i++) own[v.place[i]] = v.w[i];
    }
}
