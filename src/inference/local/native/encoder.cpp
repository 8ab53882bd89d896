// Media encoders that run as a coroutine and can be paused between graph nodes. See `encoder.ts`.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "ggml.h"
#include "mtmd.h"

#if defined(__linux__)
#include <sys/mman.h>
#include <ucontext.h>
#endif

namespace {

using Clock = std::chrono::steady_clock;

/**
 * Minimum multiply-adds between two pauses: a few ms. Where an encoder may pause depends on the shapes alone, and so do the
 * results.
 */
constexpr double MIN_MACS_BETWEEN_PAUSES = 1e8;
/** As large as a main thread's stack. Untouched pages take no memory. */
constexpr size_t STACK_BYTES = 8 << 20;

constexpr int32_t PAUSED = -1000;
/** The result has values that are NaN or infinite. */
constexpr int32_t NOT_FINITE = -1001;
/** The size of the result is not the expected one. */
constexpr int32_t SIZE_MISMATCH = -1002;

/**
 * 128 bits, the minimum width of vector registers: on processors with no wider ones, 256 bits take more than twice the
 * time.
 */
typedef uint32_t Lanes __attribute__((vector_size(16)));

/** Tests the exponents in a single pass, at memory bandwidth. */
bool are_finite_in(const float * values, size_t count) {
    constexpr uint32_t EXPONENT = 0x7f800000;
    constexpr size_t LANES = sizeof(Lanes) / sizeof(float);
    Lanes found = {};
    size_t at = 0;
    for (; at + LANES <= count; at += LANES) {
        Lanes bits;
        memcpy(&bits, values + at, sizeof(bits));
        found |= Lanes((bits & EXPONENT) == EXPONENT);
    }
    uint32_t any = 0;
    for (size_t lane = 0; lane < LANES; lane++) any |= found[lane];
    for (; at < count; at++) {
        uint32_t bits;
        memcpy(&bits, values + at, sizeof(bits));
        any |= (bits & EXPONENT) == EXPONENT;
    }
    return any == 0;
}

/** Minimum values to test on several threads: one takes 4 ms for 33 MB. */
constexpr size_t MIN_PARALLEL_VALUES = 1 << 21;
constexpr size_t CHECK_THREADS = 4;

bool are_finite(const float * values, size_t count) {
    if (count < MIN_PARALLEL_VALUES) return are_finite_in(values, count);
    const size_t part = count / CHECK_THREADS;
    bool found[CHECK_THREADS];
    std::vector<std::thread> others;
    const auto check = [&](size_t thread) {
        const size_t from = thread * part;
        found[thread] = are_finite_in(values + from, thread + 1 < CHECK_THREADS ? part : count - from);
    };
    for (size_t thread = 1; thread < CHECK_THREADS; thread++) others.emplace_back(check, thread);
    check(0);
    for (auto & other : others) other.join();
    return std::all_of(found, found + CHECK_THREADS, [](bool is_finite) { return is_finite; });
}

/** Requests transparent huge pages for untouched memory: one page fault for 2 MiB instead of for 4 KiB. */
void prefer_large_pages(void * memory, size_t bytes) {
#if defined(__linux__)
    constexpr uintptr_t LARGE = 2 << 20;
    const uintptr_t from = (uintptr_t(memory) + LARGE - 1) / LARGE * LARGE;
    const uintptr_t to = (uintptr_t(memory) + bytes) / LARGE * LARGE;
    if (to > from) madvise(reinterpret_cast<void *>(from), to - from, MADV_HUGEPAGE);
#else
    (void) memory;
    (void) bytes;
#endif
}

double multiply_adds(const ggml_tensor * node) {
    switch (node->op) {
        case GGML_OP_MUL_MAT:
        case GGML_OP_MUL_MAT_ID:
            return double(ggml_nelements(node)) * double(node->src[0]->ne[0]);
        case GGML_OP_FLASH_ATTN_EXT:
            return 2 * double(ggml_nelements(node)) * double(node->src[1]->ne[1]);
        case GGML_OP_CONV_2D:
            return double(ggml_nelements(node)) * double(ggml_nelements(node->src[0])) / double(node->src[0]->ne[3]);
        default:
            return 0;
    }
}

}  // namespace

/**
 * Encodes one chunk at a time as a coroutine with its own stack. Between two nodes of the graph it may yield, and a later call
 * resumes it. It always runs on the caller's thread, so that the kernels' OpenMP threads stay the same.
 */
struct lookout_encoder {
    mtmd_context * context = nullptr;
    /** Held while a chunk is encoded: with a device, another thread may already encode one. */
    std::mutex in_use;
    /** The chunk that is being encoded, or null. */
    const mtmd_input_chunk * chunk = nullptr;
    int32_t code = 0;
    /** The caller's memory for the result, in floats. */
    float * output = nullptr;
    size_t output_size = 0;
    bool is_written = false;
#if defined(__linux__)
    Clock::time_point deadline;
    bool is_cancelled = false;
    double macs_since_pause = 0;
    void * stack = nullptr;
    ucontext_t caller, own;
#endif
};

namespace {

/** The encoder that runs on this thread, or null. */
thread_local lookout_encoder * running = nullptr;

/** @return the result of a completed run. */
int32_t outcome(const lookout_encoder * encoder) {
    if (encoder->code != 0) return encoder->code;
    if (!encoder->is_written) return SIZE_MISMATCH;
    return are_finite(encoder->output, encoder->output_size) ? 0 : NOT_FINITE;
}

}  // namespace

/**
 * `clip_encode` calls this to get the destination of its result: the caller's memory, which saves a copy. See the fix of
 * `clip.cpp` in native-library.mjs.
 * @param own the destination where no encoder runs.
 */
float * lookout_encoder_output(float * own, size_t size) {
    if (running == nullptr || running->output_size != size) return own;
    running->is_written = true;
    prefer_large_pages(running->output, size * sizeof(float));
    return running->output;
}

#if defined(__linux__)

namespace {

/** ggml's eval callback. ggml calls it before each node (`asks`), and again after the node if that returned true. */
bool eval_callback(ggml_tensor * node, bool asks, void * data) {
    auto * encoder = static_cast<lookout_encoder *>(data);
    if (asks) {
        encoder->macs_since_pause += multiply_adds(node);
        return encoder->is_cancelled || encoder->macs_since_pause >= MIN_MACS_BETWEEN_PAUSES;
    }
    encoder->macs_since_pause = 0;
    if (!encoder->is_cancelled && Clock::now() >= encoder->deadline) swapcontext(&encoder->own, &encoder->caller);
    return !encoder->is_cancelled;
}

void encode(unsigned high, unsigned low) {
    auto * encoder = reinterpret_cast<lookout_encoder *>(uintptr_t(high) << 32 | low);
    encoder->code = mtmd_encode_chunk(encoder->context, encoder->chunk);
    encoder->chunk = nullptr;
}

void begin(lookout_encoder * encoder) {
    encoder->is_cancelled = false;
    encoder->macs_since_pause = 0;
    getcontext(&encoder->own);
    encoder->own.uc_stack.ss_sp = encoder->stack;
    encoder->own.uc_stack.ss_size = STACK_BYTES;
    encoder->own.uc_link = &encoder->caller;
    const auto address = reinterpret_cast<uintptr_t>(encoder);
    makecontext(&encoder->own, reinterpret_cast<void (*)()>(encode), 2, unsigned(address >> 32), unsigned(address));
}

}  // namespace

#endif

/** @return null if there is no memory for a stack. */
extern "C" lookout_encoder * lookout_encoder_new() {
    auto * encoder = new lookout_encoder();
#if defined(__linux__)
    const auto flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE;
    void * stack = mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (stack == MAP_FAILED) {
        delete encoder;
        return nullptr;
    }
    // Guard page: a stack overflow faults.
    mprotect(stack, 4096, PROT_NONE);
    encoder->stack = stack;
#endif
    return encoder;
}

/**
 * Loads the encoders of a model. Call it once.
 * @param can_pause false if they run on a device, which would have to synchronise at each possible pause.
 * @return null if the file does not fit the model.
 */
extern "C" mtmd_context * lookout_encoder_load(lookout_encoder * encoder, const char * file, const llama_model * model,
                                               mtmd_context_params params, bool can_pause) {
#if defined(__linux__)
    if (can_pause) {
        params.cb_eval = eval_callback;
        params.cb_eval_user_data = encoder;
    }
#endif
    encoder->context = mtmd_init_from_file(file, model, params);
    return encoder->context;
}

/** Abandons the chunk that is being encoded, if any. */
extern "C" void lookout_encoder_cancel(lookout_encoder * encoder) {
#if defined(__linux__)
    if (encoder->chunk == nullptr) return;
    encoder->is_cancelled = true;
    swapcontext(&encoder->caller, &encoder->own);
#endif
}

/**
 * Starts to encode a chunk, or resumes it, for about `ms` ms. Abandons another chunk that was started.
 * @param output memory for the result, of `size` floats. It may differ between calls for the same chunk.
 * @return 0 when complete, `PAUSED`, `NOT_FINITE`, `SIZE_MISMATCH`, or the error code of `mtmd_encode_chunk`.
 */
extern "C" int32_t lookout_encoder_run(lookout_encoder * encoder, const mtmd_input_chunk * chunk, double ms,
                                       float * output, size_t size) {
    const std::lock_guard<std::mutex> held(encoder->in_use);
#if defined(__linux__)
    if (encoder->chunk != chunk) {
        lookout_encoder_cancel(encoder);
        encoder->chunk = chunk;
        begin(encoder);
    }
    // Infinity would overflow the duration.
    const std::chrono::duration<double, std::milli> time(std::min(ms, 4e10));
    encoder->deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(time);
#endif
    encoder->output = output;
    encoder->output_size = size;
    encoder->is_written = false;
    running = encoder;
#if defined(__linux__)
    swapcontext(&encoder->caller, &encoder->own);
#else
    encoder->code = mtmd_encode_chunk(encoder->context, chunk);
#endif
    running = nullptr;
    return encoder->chunk == nullptr ? outcome(encoder) : PAUSED;
}

/**
 * Returns the decoder positions of the tokens `from` to `to` of an image.
 * @param planes t, y, x, z, each of `to - from` positions.
 */
extern "C" void lookout_image_positions(const mtmd_image_tokens * tokens, int32_t start, size_t from, size_t to,
                                        int32_t * planes) {
    const size_t count = to - from;
    for (size_t i = 0; i < count; i++) {
        const mtmd_decoder_pos position = mtmd_image_tokens_get_decoder_pos(tokens, start, from + i);
        planes[i] = int32_t(position.t);
        planes[count + i] = int32_t(position.y);
        planes[2 * count + i] = int32_t(position.x);
        planes[3 * count + i] = int32_t(position.z);
    }
}

extern "C" void lookout_encoder_free(lookout_encoder * encoder) {
    lookout_encoder_cancel(encoder);
    if (encoder->context != nullptr) mtmd_free(encoder->context);
#if defined(__linux__)
    munmap(encoder->stack, STACK_BYTES);
#endif
    delete encoder;
}
