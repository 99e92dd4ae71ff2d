/* Steps: positions at their end, and inertia, load and drag in psi, see core/objective/step_problem.py. */
#include "kernel.h"

/* Positions and gradients equal those of numpy to the last bit. */
#pragma STDC FP_CONTRACT OFF

/* Return the part of psi in W that depends on the velocities v (f, 3) m/s alone.
 *
 * free: (f,) nodes.  start: (f, 3) m.  inertia: (f,) kg/s.  predicted: (f, 3) m/s.  load: (f, 3) N.
 * n: number of nodes, or 0 without drag.  starts, columns, values: sparse matrix (3 n, 3 n) of the drag, kg/s.
 * velocities: (n, 3) m/s, with those of hard pins; the others are overwritten.  forces: (n, 3) workspace.
 * positions: (n, 3) m receives the positions of free nodes.  gradient: (f, 3) N receives the gradient.
 */
WIDE SHOWN double dampsim_step_terms(int64_t f, const int32_t *restrict free, double h, const double *restrict start,
                                     const double *restrict inertia, const double *restrict predicted,
                                     const double *restrict load, int64_t n, const int32_t *restrict starts,
                                     const int32_t *restrict columns, const double *restrict values,
                                     double *restrict velocities, double *restrict forces, const double *restrict v,
                                     double *restrict positions, double *restrict gradient)
{
    double kinetic = 0.0, work = 0.0, drag = 0.0;
    for (int64_t i = 0; i < f; i++)
        for (int c = 0; c < 3; c++) {
            const int64_t k = 3 * i + c, node = 3 * (int64_t)free[i] + c;
            const double change = v[k] - predicted[k], force = inertia[i] * change;
            positions[node] = start[k] + h * v[k];
            if (n) velocities[node] = v[k];
            gradient[k] = force - load[k];
            kinetic += force * change;
            work += load[k] * v[k];
        }
    for (int64_t row = 0; row < 3 * n; row++) {
        double force = 0.0;
        for (int32_t e = starts[row]; e < starts[row + 1]; e++) force += values[e] * velocities[columns[e]];
        forces[row] = force;
        drag += force * velocities[row];
    }
    if (n)
        for (int64_t i = 0; i < f; i++)
            for (int c = 0; c < 3; c++) gradient[3 * i + c] += forces[3 * (int64_t)free[i] + c];
    return 0.5 * kinetic - work + 0.5 * drag;
}
