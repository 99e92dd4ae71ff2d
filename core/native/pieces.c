/* Newton's method for ropes piece by piece: no block couples two pieces, so each has its own step and line search.
 *
 * The same steps as in core/solvers/newton.py and core/solvers/line_search.py, for the potential of
 * core/objective/step_problem.py with springs, rods and contacts. Rows are those of the matrix; all elements are sorted
 * by piece.
 */
#include "kernel.h"

/* See core/solvers/line_search.py. */
#define SUFFICIENT 1e-4
#define CURVATURE 0.9
#define ROUNDING 1e-15
#define MOST_TRIES 40

/* Tasks of a piece: nothing, the first direction, a line search and a new direction; and results instead of a
 * direction: the search found no lower value, or a number is not finite. */
enum { REST = 0, BEGIN = 1, SEARCH = 2, STUCK = -1, NOT_FINITE = -2 };

/* All members have 8 bytes. See CompiledPieces in core/native/pieces.py, which makes it. */
struct pieces {
    int64_t max_friction_updates;
    double h, noise;
    /* The matrix: (p + 1,) first rows of pieces, blocks (b, 3, 3) of its constant part, its pattern and envelope. */
    const int32_t *rows, *starts, *columns, *first;
    const int64_t *offsets;
    const double *base;
    /* (f,) node of each row, and (n,) row of each node, or -1. */
    const int32_t *nodes, *slots;
    /* (f,) kg/s, and (f, 3) m/s, N and m: predicted velocities, load and positions at the start. */
    const double *inertia, *predicted, *load, *start;
    /* (p + 1,) first elements of pieces, and the elements as in ropes.c. */
    const int32_t *spring_starts, *edges, *spring_places;
    const double *lengths, *spring_weights;
    const int32_t *rod_starts, *rods, *rod_places;
    const double *rod_weights, *rest, *smoothing;
    /* (p + 1,) first contacts of pieces, and the contacts as in contacts.c. */
    const int32_t *contact_starts, *weight_starts, *weight_nodes;
    const double *weights, *contact_base, *normal, *distance, *target, *stiffness, *anchor, *friction;
    double *limit, *lagged, *force, *gap, *slip, *offset;
    int64_t *states;
    /* State: (f, 3) m/s velocities and those before a line search, (n, 3) m positions, gradients by node and by row,
     * directions, blocks and factors. */
    double *v, *before, *positions, *pulls, *gradient, *direction, *blocks, *factors;
    /* (p,) values of psi, friction updates and evaluations so far. */
    double *values;
    int64_t *updates, *evaluations;
};

/* Return psi of a piece at its velocities, and update its positions, gradient and contacts. */
static double evaluate(const struct pieces *at, int64_t piece)
{
    const int32_t begin = at->rows[piece], end = at->rows[piece + 1];
    for (int32_t r = begin; r < end; r++) {
        const int64_t node = 3 * (int64_t)at->nodes[r];
        for (int c = 0; c < 3; c++) {
            at->positions[node + c] = at->start[3 * (int64_t)r + c] + at->h * at->v[3 * (int64_t)r + c];
            at->pulls[node + c] = 0.0;
        }
    }
    const int64_t s = at->spring_starts[piece], b = at->rod_starts[piece], k = at->contact_starts[piece];
    double energy = dampsim_springs(at->spring_starts[piece + 1] - s, at->edges + 2 * s, at->lengths + s,
                                    at->spring_weights + s, at->positions, at->pulls);
    energy += dampsim_rods(at->rod_starts[piece + 1] - b, at->rods + 3 * b, at->rod_weights + b, at->rest + b,
                           at->smoothing + b, at->positions, at->pulls);
    energy += dampsim_contacts(at->contact_starts[piece + 1] - k, at->weight_starts + k, at->weight_nodes, at->weights,
                               at->contact_base + 3 * k, at->normal + 3 * k, at->distance + k, at->target + k,
                               at->stiffness + k, at->anchor + 3 * k, at->limit + k, at->positions, at->gap + k,
                               at->force + k, at->slip + 3 * k, at->offset + 3 * k, at->states + k, at->pulls);
    double value = energy / at->h;
    for (int32_t r = begin; r < end; r++) {
        const int64_t node = 3 * (int64_t)at->nodes[r];
        for (int c = 0; c < 3; c++) {
            const int64_t i = 3 * (int64_t)r + c;
            const double change = at->v[i] - at->predicted[i], push = at->inertia[r] * change;
            value += 0.5 * push * change - at->load[i] * at->v[i];
            at->gradient[i] = push - at->load[i] + at->pulls[node + c];
        }
    }
    at->evaluations[piece]++;
    return value;
}

/* Let friction follow the normal forces at the current velocities. */
static void update_friction(const struct pieces *at, int64_t piece)
{
    int has_friction = 0;
    for (int32_t i = at->contact_starts[piece]; i < at->contact_starts[piece + 1]; i++)
        has_friction |= at->friction[i] != 0.0;
    if (!has_friction || at->updates[piece] >= at->max_friction_updates) return;
    at->updates[piece]++;
    for (int32_t i = at->contact_starts[piece]; i < at->contact_starts[piece + 1]; i++) {
        at->lagged[i] = at->force[i];
        at->limit[i] = at->friction[i] * at->force[i];
    }
    at->values[piece] = evaluate(at, piece);
    at->evaluations[piece]--;
}

static double slope_of(const struct pieces *at, int64_t piece)
{
    double slope = 0.0;
    for (int64_t i = 3 * (int64_t)at->rows[piece]; i < 3 * (int64_t)at->rows[piece + 1]; i++)
        slope += at->gradient[i] * at->direction[i];
    return slope;
}

/* Search along the direction of a piece, and return whether a lower value was found. */
static int search(const struct pieces *at, int64_t piece)
{
    const int64_t begin = 3 * (int64_t)at->rows[piece], end = 3 * (int64_t)at->rows[piece + 1];
    const double known = at->values[piece], slope = slope_of(at, piece);
    for (int64_t i = begin; i < end; i++) at->before[i] = at->v[i];
    double length = 1.0;
    for (int tries = 0; tries < MOST_TRIES; tries++, length *= 0.5) {
        for (int64_t i = begin; i < end; i++) at->v[i] = at->before[i] + length * at->direction[i];
        const double value = evaluate(at, piece), change = value - known;
        int is_accepted = change <= SUFFICIENT * length * slope;
        if (!is_accepted && __builtin_fabs(change) <= at->noise + ROUNDING * __builtin_fabs(known))
            is_accepted = __builtin_fabs(slope_of(at, piece)) <= CURVATURE * __builtin_fabs(slope);
        if (is_accepted) {
            at->values[piece] = value;
            update_friction(at, piece);
            return 1;
        }
    }
    for (int64_t i = begin; i < end; i++) at->v[i] = at->before[i];
    at->values[piece] = evaluate(at, piece);
    return 0;
}

/* Assemble and factorise the Hessian of a piece, and return whether it is positive definite. */
static int factorise(const struct pieces *at, int64_t piece, int project)
{
    const int64_t first = at->starts[at->rows[piece]], last = at->starts[at->rows[piece + 1]];
    for (int64_t i = 9 * first; i < 9 * last; i++) at->blocks[i] = at->base[i];
    const int64_t s = at->spring_starts[piece], b = at->rod_starts[piece], k = at->contact_starts[piece];
    dampsim_spring_blocks(at->spring_starts[piece + 1] - s, at->edges + 2 * s, at->lengths + s, at->spring_weights + s,
                          project, at->h, at->positions, at->spring_places + 4 * s, at->blocks);
    dampsim_rod_blocks(at->rod_starts[piece + 1] - b, at->rods + 3 * b, at->rod_weights + b, at->rest + b,
                       at->smoothing + b, project, at->h, at->positions, at->rod_places + 9 * b, at->blocks);
    const int64_t missing = dampsim_contact_blocks(
        at->contact_starts[piece + 1] - k, at->weight_starts + k, at->weight_nodes, at->weights, at->normal + 3 * k,
        at->stiffness + k, at->limit + k, at->slip + 3 * k, at->states + k, at->h, at->slots, at->starts, at->columns,
        at->blocks);
    int32_t wanted = 1;
    return !missing && !dampsim_envelope_factorise(1, at->rows + piece, at->starts, at->columns, at->first, at->offsets,
                                                   at->blocks, &wanted, at->factors);
}

/* Do the tasks (p,) of all pieces, which receive STUCK or NOT_FINITE where there is no new direction.
 *
 * slopes: (p,) W, receives those along the new directions, -g^T H^-1 g.
 */
WIDE SHOWN void dampsim_piece_steps(int64_t p, const struct pieces *restrict at, int32_t *restrict tasks,
                                    double *restrict slopes)
{
    for (int64_t piece = 0; piece < p; piece++) {
        if (tasks[piece] <= REST) continue;
        if (tasks[piece] == BEGIN) {
            at->values[piece] = evaluate(at, piece);
        } else if (!search(at, piece)) {
            tasks[piece] = STUCK;
            continue;
        }
        const int64_t begin = at->rows[piece], end = at->rows[piece + 1];
        int is_right = 0;
        for (int project = 0; project < 2 && !is_right; project++) {
            if (!factorise(at, piece, project)) continue;
            for (int64_t i = 3 * begin; i < 3 * end; i++) at->direction[i] = -at->gradient[i];
            solve_envelope(begin, end, at->first, at->offsets, at->factors, at->direction);
            slopes[piece] = slope_of(at, piece);
            is_right = slopes[piece] <= 0.0;
        }
        /* A number minus itself is not zero if it is not finite. */
        const int is_finite = at->values[piece] - at->values[piece] == 0.0 && slopes[piece] - slopes[piece] == 0.0;
        if (!is_right) tasks[piece] = STUCK;
        if (!is_finite) tasks[piece] = NOT_FINITE;
    }
}
