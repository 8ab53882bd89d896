// ggml's matrix products on AMX tiles, with a fix for how the tile configuration is loaded.
//
// GCC's _tile_loadconfig (as of GCC 12) tells the compiler that the instruction reads 8 bytes, but it reads 64. The
// compiler then optimises away what ggml writes to the other 56, and the process crashes at the first product of
// quantised weights. This file is compiled in place of ggml's amx/mmq.cpp, which it includes.

#include <immintrin.h>

#if defined(__AMX_TILE__)
static inline void load_tile_configuration(const void * configuration) {
    __asm__ volatile("ldtilecfg %0" ::"m"(*(const char (*)[64]) configuration));
}
#define _tile_loadconfig(configuration) load_tile_configuration(configuration)
#endif

#include "amx/mmq.cpp"
