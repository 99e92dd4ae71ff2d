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

#endif
