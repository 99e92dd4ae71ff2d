/* Declarations shared by the sources of the compiled kernel.
 *
 * No library is called, not even the C library. The wrappers in core/native check all arguments.
 */
#ifndef DAMPSIM_KERNEL_H
#define DAMPSIM_KERNEL_H

#include <stdint.h>

#if defined(_WIN32)
#define SHOWN __declspec(dllexport)
#else
#define SHOWN __attribute__((visibility("default")))
#endif

#if defined(__x86_64__)
#define WIDE __attribute__((target("avx2,fma")))
#else
#define WIDE
#endif

#define PI 3.14159265358979323846

/* ---- Vectors ---- */

static inline void subtract(const double *a, const double *b, double *found)
{
    for (int k = 0; k < 3; k++) found[k] = a[k] - b[k];
}

static inline void cross(const double *a, const double *b, double *found)
{
    found[0] = a[1] * b[2] - a[2] * b[1];
    found[1] = a[2] * b[0] - a[0] * b[2];
    found[2] = a[0] * b[1] - a[1] * b[0];
}

static inline double dot(const double *a, const double *b)
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/* Written so that NaN remains. */
static inline double at_least(double value, double least)
{
    return value < least ? least : value;
}

/* Return the angle of the vector (x, y) in rad, from -pi to pi, to a few units in the last place. */
static inline double angle_of(double y, double x)
{
    /* Arc tangents of 0, 1/8, ..., 1. */
    static const double table[9] = {0.0,
                                    0.12435499454676144,
                                    0.24497866312686414,
                                    0.35877067027057225,
                                    0.4636476090008061,
                                    0.5585993153435624,
                                    0.6435011087932844,
                                    0.7188299996216245,
                                    0.7853981633974483};
    const double width = x < 0.0 ? -x : x, height = y < 0.0 ? -y : y;
    const double large = width > height ? width : height, small = width > height ? height : width;
    if (!(large > 0.0)) return x + y;
    const double t = small / large;
    const int32_t k = (int32_t)(8.0 * t + 0.5);
    const double at = 0.125 * k, u = (t - at) / (1.0 + t * at), z = u * u;
    double p = -1.0 / 15.0;
    p = p * z + 1.0 / 13.0;
    p = p * z - 1.0 / 11.0;
    p = p * z + 1.0 / 9.0;
    p = p * z - 1.0 / 7.0;
    p = p * z + 1.0 / 5.0;
    p = p * z - 1.0 / 3.0;
    double found = table[k >= 0 && k <= 8 ? k : 0] + (u + u * z * p);
    if (height > width) found = 0.5 * PI - found;
    if (x < 0.0) found = PI - found;
    return y < 0.0 ? -found : found;
}

/* Used by pieces.c; see contacts.c and ropes.c. */
SHOWN double dampsim_springs(int64_t, const int32_t *restrict, const double *restrict, const double *restrict,
                             const double *restrict, double *restrict);
SHOWN void dampsim_spring_blocks(int64_t, const int32_t *restrict, const double *restrict, const double *restrict,
                                 int64_t, double, const double *restrict, const int32_t *restrict, double *restrict);
SHOWN double dampsim_rods(int64_t, const int32_t *restrict, const double *restrict, const double *restrict,
                          const double *restrict, const double *restrict, double *restrict);
SHOWN void dampsim_rod_blocks(int64_t, const int32_t *restrict, const double *restrict, const double *restrict,
                              const double *restrict, int64_t, double, const double *restrict,
                              const int32_t *restrict, double *restrict);
SHOWN int64_t dampsim_envelope_factorise(int64_t, const int32_t *restrict, const int32_t *restrict,
                                         const int32_t *restrict, const int32_t *restrict, const int64_t *restrict,
                                         const double *restrict, int32_t *restrict, double *restrict);
SHOWN double dampsim_contacts(int64_t, const int32_t *restrict, const int32_t *restrict, const double *restrict,
                              const double *restrict, const double *restrict, const double *restrict,
                              const double *restrict, const double *restrict, const double *restrict,
                              const double *restrict, const double *restrict, double *restrict, double *restrict,
                              double *restrict, double *restrict, int64_t *restrict, double *restrict);
SHOWN int64_t dampsim_contact_blocks(int64_t, const int32_t *restrict, const int32_t *restrict,
                                     const double *restrict, const double *restrict, const double *restrict,
                                     const double *restrict, const double *restrict, const int64_t *restrict, double,
                                     const int32_t *restrict, const int32_t *restrict, const int32_t *restrict,
                                     double *restrict);

/* Solve with the factors of the rows begin to end - 1, which no other rows are coupled with, for a right-hand side
 * (3 n,) that receives the answer. */
void solve_envelope(int64_t begin, int64_t end, const int32_t *restrict first, const int64_t *restrict offsets,
                    const double *restrict factors, double *restrict answer);

#endif
