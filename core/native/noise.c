/* Gradient noise of turbulence, equal to core/fields/forces.py to the last bit. */
#include "kernel.h"

#pragma STDC FP_CONTRACT OFF

static const uint64_t STRIDES[3] = {0x9E3779B97F4A7C15ULL, 0xC2B2AE3D27D4EB4FULL, 0x165667B19E3779F9ULL};
/* Midpoints of the twelve edges of a cube, four of them twice. */
static const double GRADIENTS[16][3] = {
    {1, 1, 0}, {1, -1, 0}, {-1, 1, 0}, {-1, -1, 0}, {1, 0, 1},   {1, 0, -1}, {-1, 0, 1},  {-1, 0, -1},
    {0, 1, 1}, {0, 1, -1}, {0, -1, 1}, {0, -1, -1}, {1, 1, 0},   {-1, 1, 0}, {0, -1, 1},  {0, -1, -1},
};

/* Return a hashed word, in which each bit depends on all bits of the input word. */
static inline uint64_t hashed(uint64_t word)
{
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ULL;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBULL;
    return word ^ (word >> 31);
}

/* Return smooth noise from -1 to 1 at a point (3,). start: hashed with the cell. */
WIDE static inline double noise(const double *point, uint64_t start)
{
    double part[3], ease[3];
    uint64_t cell[3];
    for (int k = 0; k < 3; k++) {
        const double low = __builtin_floor(point[k]), p = point[k] - low;
        cell[k] = (uint64_t)(int64_t)low;
        part[k] = p;
        ease[k] = p * p * p * (p * (6.0 * p - 15.0) + 10.0);
    }
    double total = 0.0;
    for (int corner = 0; corner < 8; corner++) {
        const int at[3] = {corner >> 2 & 1, corner >> 1 & 1, corner & 1};
        uint64_t words = 0;
        double weight = 1.0, along = 0.0;
        for (int k = 0; k < 3; k++) words += (cell[k] + (uint64_t)at[k]) * STRIDES[k];
        const double *gradient = GRADIENTS[hashed(start + words) >> 60];
        for (int k = 0; k < 3; k++) {
            weight *= at[k] ? ease[k] : 1.0 - ease[k];
            along += (part[k] - at[k]) * gradient[k];
        }
        total += weight * along;
    }
    return total;
}

/* Write vector noise from -1 to 1 at points (n, 3) to found (n, 3).
 *
 * Octaves have half the size and half the strength of the previous one.  divisor: of their sum.
 */
WIDE SHOWN void dampsim_noise(int64_t n, int64_t octaves, uint64_t seed, double divisor, const double *restrict points,
                              double *restrict found)
{
    for (int64_t i = 0; i < n; i++)
        for (int axis = 0; axis < 3; axis++) {
            const uint64_t start = (3 * seed + (uint64_t)axis) * 0xD1342543DE82EF95ULL;
            double sum = 0.0, strength = 1.0, scale = 1.0;
            for (int64_t k = 0; k < octaves; k++) {
                const double point[3] = {scale * points[3 * i], scale * points[3 * i + 1], scale * points[3 * i + 2]};
                sum += strength * noise(point, start);
                strength *= 0.5;
                scale *= 2.0;
            }
            found[3 * i + axis] = sum / divisor;
        }
}
