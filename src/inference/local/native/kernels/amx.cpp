// ggml's matrix products on AMX tiles, with the tiles' configuration loaded whole.
//
// GCC's _tile_loadconfig (12 has it so) tells the compiler that the instruction reads 8 bytes, where it reads 64: what ggml
// writes into the rest is optimised away, and the process ends at the first product of quantised weights.
// Compiled in place of ggml's amx/mmq.cpp, which it includes.

#include <immintrin.h>

#if defined(__AMX_TILE__)
static inline void load_tile_configuration(const void * configuration) {
    __asm__ volatile("ldtilecfg %0" ::"m"(*(const char (*)[64]) configuration));
}
#define _tile_loadconfig(configuration) load_tile_configuration(configuration)
#endif

#include "amx/mmq.cpp"
