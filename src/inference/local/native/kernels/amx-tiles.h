// AMX tile registers: 16 rows of 64 bytes. An instruction multiplies two tiles and accumulates into a third.
#pragma once

#include "gemm-avx512.h"

#if defined(__AMX_INT8__) && defined(__AMX_BF16__) && defined(__linux__)
#define LOOKOUT_AMX

#include <sys/syscall.h>
#include <unistd.h>

namespace {

/** Rows of a tile, each of CACHE_LINE bytes. */
constexpr int TILE_ROWS = 16;
constexpr int TILE_BYTES = TILE_ROWS * CACHE_LINE;

/** The operand of `ldtilecfg`. */
struct alignas(CACHE_LINE) TileConfig {
    uint8_t palette_id = 0;
    uint8_t start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t colsb[16] = {};
    uint8_t rows[16] = {};
};

// GCC's intrinsics (as of GCC 12) do not declare all the memory that they read and write.
inline void load_config(const TileConfig & config) { __asm__ volatile("ldtilecfg %0" ::"m"(config)); }
inline void store_config(TileConfig & config) { __asm__ volatile("sttilecfg %0" : "=m"(config)); }
inline void release_tiles() { __asm__ volatile("tilerelease" ::: "memory"); }
template <int TILE> inline void zero_tile() { __asm__ volatile("tilezero %%tmm%c0" ::"i"(TILE)); }
template <int TILE> inline void load_tile(const void * from) {
    __asm__ volatile("tileloadd (%1,%2,1), %%tmm%c0" ::"i"(TILE), "r"(from), "r"((int64_t) CACHE_LINE) : "memory");
}
template <int TILE> inline void store_tile(void * to) {
    __asm__ volatile("tilestored %%tmm%c0, (%1,%2,1)" ::"i"(TILE), "r"(to), "r"((int64_t) CACHE_LINE) : "memory");
}
/** Accumulates products of signed bytes. */
template <int TO, int A, int B> inline void dpbssd() {
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(TO), "i"(A), "i"(B));
}
/** Accumulates products of unsigned (A) and signed (B) bytes. */
template <int TO, int A, int B> inline void dpbusd() {
    __asm__ volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(TO), "i"(A), "i"(B));
}
/** Accumulates products of bf16 in f32. */
template <int TO, int A, int B> inline void dpbf16ps() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(TO), "i"(A), "i"(B));
}

/** Whether the operating system grants this process the use of tiles. */
inline bool has_amx() {
    constexpr int REQUEST_PERMISSION = 0x1023, TILE_DATA = 18;
    static const bool granted = syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
    return granted;
}

/** Configures all tiles at full size while it lives, and then restores ggml's configuration. */
class TileConfigScope {
    TileConfig before;

  public:
    TileConfigScope() {
        store_config(before);
        TileConfig config;
        config.palette_id = 1;
        for (int tile = 0; tile < 8; tile++) {
            config.rows[tile] = TILE_ROWS;
            config.colsb[tile] = CACHE_LINE;
        }
        load_config(config);
    }

    ~TileConfigScope() {
        if (before.palette_id == 0) release_tiles();
        else load_config(before);
    }
};

}  // namespace

#endif
