/* Contacts: potential with lagged friction, its gradient and its Hessian in 3 x 3 blocks, as in
 * core/contact/penalty_and_friction.py.
 *
 * A contact i has the weights starts[i] to starts[i + 1] - 1 of its offset, at nodes.
 */
#include "kernel.h"

#define TINY 1e-30
/* Additional stiffness of deep contacts, and the fraction of the contact distance at which it begins. */
#define DEEP_STIFFNESS 20.0
#define DEEP_FRACTION 0.5

/* Return the potential in J of k contacts, and add its gradient to gradient (n, 3) N.
 *
 * base: (k, 3) m.  normal: (k, 3).  distance, target: (k,) m.  stiffness: (k,) N/m.  anchor: (k, 3) m.  See ContactSet.
 * limit: (k,) N of friction.  positions: (n, 3) m.
 * gap, force, slip, offset: receive the members of ContactForces.  states: (k,) receives contact_states().
 */
WIDE SHOWN double dampsim_contacts(int64_t k, const int32_t *restrict starts, const int32_t *restrict nodes,
                                   const double *restrict weights, const double *restrict base,
                                   const double *restrict normal, const double *restrict distance,
                                   const double *restrict target, const double *restrict stiffness,
                                   const double *restrict anchor, const double *restrict limit,
                                   const double *restrict positions, double *restrict gap, double *restrict force,
                                   double *restrict slip, double *restrict offset, int64_t *restrict states,
                                   double *restrict gradient)
{
    double total = 0.0;
    for (int64_t i = 0; i < k; i++) {
        const double *n = normal + 3 * i;
        double *d = offset + 3 * i, *u = slip + 3 * i;
        for (int c = 0; c < 3; c++) d[c] = 0.0;
        for (int32_t e = starts[i]; e < starts[i + 1]; e++)
            for (int c = 0; c < 3; c++) d[c] += weights[e] * positions[3 * (int64_t)nodes[e] + c];
        for (int c = 0; c < 3; c++) {
            d[c] += base[3 * i + c];
            u[c] = d[c] - anchor[3 * i + c];
        }
        const double g = dot(n, d) - target[i], along = dot(n, u), deep = g + DEEP_FRACTION * distance[i];
        for (int c = 0; c < 3; c++) u[c] -= along * n[c];
        /* Written so that NaN remains. */
        const double depth = g > 0.0 ? 0.0 : g, deeper = deep > 0.0 ? 0.0 : deep, s = stiffness[i];
        const double f = -s * (depth + DEEP_STIFFNESS * deeper);
        const double length = __builtin_sqrt(dot(u, u)), most = limit[i];
        const int sliding = length * s > most;
        gap[i] = g;
        force[i] = f;
        states[i] = (g < 0.0) + (deep < 0.0) + (sliding && most > 0.0 ? 4 : 0);
        total += 0.5 * s * (depth * depth + DEEP_STIFFNESS * deeper * deeper);
        total += sliding ? most * (length - 0.5 * most / at_least(s, TINY)) : 0.5 * s * length * length;
        const double across = sliding ? most / at_least(length, TINY) : s;
        if (f == 0.0 && (across == 0.0 || length == 0.0)) continue;
        double pull[3];
        for (int c = 0; c < 3; c++) pull[c] = across * u[c] - f * n[c];
        for (int32_t e = starts[i]; e < starts[i + 1]; e++)
            for (int c = 0; c < 3; c++) gradient[3 * (int64_t)nodes[e] + c] += weights[e] * pull[c];
    }
    return total;
}

/* Return the place of a block in its row of a matrix, or -1. */
static inline int64_t place_of(const int32_t *rows, const int32_t *columns, int32_t row, int32_t column)
{
    int32_t low = rows[row], high = rows[row + 1];
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (columns[middle] < column)
            low = middle + 1;
        else
            high = middle;
    }
    return low < rows[row + 1] && columns[low] == column ? low : -1;
}

/* Add the Hessian of k contacts times factor to blocks (b, 3, 3), and return 0; if blocks are missing, only return their
 * number.
 *
 * slip, states: of dampsim_contacts().  slots: (n,) row of each node, or -1.  rows: (m + 1,) and columns: (b,),
 * ascending in each row, of the matrix.
 */
WIDE SHOWN int64_t dampsim_contact_blocks(int64_t k, const int32_t *restrict starts, const int32_t *restrict nodes,
                                          const double *restrict weights, const double *restrict normal,
                                          const double *restrict stiffness, const double *restrict limit,
                                          const double *restrict slip, const int64_t *restrict states, double factor,
                                          const int32_t *restrict slots, const int32_t *restrict rows,
                                          const int32_t *restrict columns, double *restrict blocks)
{
    int64_t missing = 0;
    for (int pass = 0; pass < 2 && !missing; pass++)
        for (int64_t i = 0; i < k; i++) {
            const int64_t depth = states[i] % 4;
            if (!depth && !(limit[i] > 0.0)) continue;
            const double *n = normal + 3 * i, *u = slip + 3 * i;
            const double length = at_least(__builtin_sqrt(dot(u, u)), TINY);
            const double along = stiffness[i] * ((depth > 0) + DEEP_STIFFNESS * (depth > 1));
            const double across = limit[i] > 0.0 ? (states[i] < 4 ? stiffness[i] : limit[i] / length) : 0.0;
            const double sliding = states[i] < 4 ? 0.0 : across / (length * length);
            double stiff[9];
            for (int x = 0; x < 3; x++)
                for (int y = 0; y < 3; y++)
                    stiff[3 * x + y] =
                        factor * ((along - across) * n[x] * n[y] + (x == y ? across : 0.0) - sliding * u[x] * u[y]);
            for (int32_t a = starts[i]; a < starts[i + 1]; a++) {
                const int32_t row = slots[nodes[a]];
                if (row < 0) continue;
                for (int32_t b = starts[i]; b < starts[i + 1]; b++) {
                    const int32_t column = slots[nodes[b]];
                    if (column < 0) continue;
                    const int64_t place = place_of(rows, columns, row, column);
                    if (!pass) {
                        missing += place < 0;
                        continue;
                    }
                    const double product = weights[a] * weights[b];
                    for (int x = 0; x < 9; x++) blocks[9 * place + x] += product * stiff[x];
                }
            }
        }
    return missing;
}
