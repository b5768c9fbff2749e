/* Read before every source: hosts may have an older glibc than the machine that compiles.
 *
 * From 2.38 on strtol and sscanf are other symbols with _GNU_SOURCE, which older ones lack. */
#include <features.h>
#undef __GLIBC_USE_C2X_STRTOL
#define __GLIBC_USE_C2X_STRTOL 0
#undef __GLIBC_USE_C23_STRTOL
#define __GLIBC_USE_C23_STRTOL 0
