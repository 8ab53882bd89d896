// AMX tiles: registers of 16 lines of 64 bytes, whose products the processor adds to a third one.
#pragma once

#include "product-wide.h"

#if defined(__AMX_INT8__) && defined(__AMX_BF16__) && defined(__linux__)
#define LOOKOUT_TILES

#include <sys/syscall.h>
#include <unistd.h>

namespace {

/** Lines of a tile, each of LINE bytes: rows of weights, or of sums. */
constexpr int TILE_LINES = 16;
constexpr int TILE_BYTES = TILE_LINES * LINE;

/** What `ldtilecfg` reads. */
struct alignas(LINE) TileShapes {
    uint8_t palette = 0;
    uint8_t start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t line_bytes[16] = {};
    uint8_t lines[16] = {};
};

// GCC's own functions (as of GCC 12) do not tell the compiler all of the memory that they read and write.
inline void load_shapes(const TileShapes & shapes) { __asm__ volatile("ldtilecfg %0" ::"m"(shapes)); }
inline void store_shapes(TileShapes & shapes) { __asm__ volatile("sttilecfg %0" : "=m"(shapes)); }
inline void release_tiles() { __asm__ volatile("tilerelease" ::: "memory"); }
template <int TILE> inline void zero_tile() { __asm__ volatile("tilezero %%tmm%c0" ::"i"(TILE)); }
template <int TILE> inline void load_tile(const void * from) {
    __asm__ volatile("tileloadd (%1,%2,1), %%tmm%c0" ::"i"(TILE), "r"(from), "r"((int64_t) LINE) : "memory");
}
template <int TILE> inline void store_tile(void * to) {
    __asm__ volatile("tilestored %%tmm%c0, (%1,%2,1)" ::"i"(TILE), "r"(to), "r"((int64_t) LINE) : "memory");
}
/** Adds the products of signed bytes. */
template <int TO, int A, int B> inline void multiply_signed() {
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(TO), "i"(A), "i"(B));
}
/** Adds the products of unsigned and signed bytes. */
template <int TO, int A, int B> inline void multiply_unsigned() {
    __asm__ volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(TO), "i"(A), "i"(B));
}
/** Adds the products of numbers of bf16, whose sums are of f32. */
template <int TO, int A, int B> inline void multiply_bf16() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(TO), "i"(A), "i"(B));
}

/** Whether the system lets this process use tiles. */
inline bool has_tiles() {
    constexpr int REQUEST_PERMISSION = 0x1023, TILE_DATA = 18;
    static const bool granted = syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
    return granted;
}

/** Gives all tiles their full size, and leaves them as ggml's own code has set them. */
class TileSetting {
    TileShapes before;

  public:
    TileSetting() {
        store_shapes(before);
        TileShapes shapes;
        shapes.palette = 1;
        for (int tile = 0; tile < 8; tile++) {
            shapes.lines[tile] = TILE_LINES;
            shapes.line_bytes[tile] = LINE;
        }
        load_shapes(shapes);
    }

    ~TileSetting() {
        if (before.palette == 0) release_tiles();
        else load_shapes(before);
    }
};

}  // namespace

#endif
