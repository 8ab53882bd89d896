// Encoders of media that can be paused. See `encoder.ts`.

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
 * Between two pauses, an encoder computes at least so many multiplications: some ms. Where it may pause depends on the shapes
 * alone, so that the results do too.
 */
constexpr double BETWEEN_PAUSES = 1e8;
/** As large as that of a main thread. What is not touched takes no memory. */
constexpr size_t STACK_BYTES = 8 << 20;

constexpr int32_t PAUSED = -1000;
/** The result holds values that are not finite numbers. */
constexpr int32_t NOT_FINITE = -1001;
/** The result has another size than its caller expects. */
constexpr int32_t OTHER_SIZE = -1002;

/** As wide as the registers of every processor: twice that takes more than twice the time where they are no wider. */
typedef uint32_t Lanes __attribute__((vector_size(16)));

/** Looks at exponents: a single pass, as fast as memory is read. */
bool are_finite_here(const float * values, size_t count) {
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

/** Results that are larger are read by several threads: one reads 33 MB in 4 ms. */
constexpr size_t MANY_VALUES = 1 << 21;
constexpr size_t READERS = 4;

bool are_finite(const float * values, size_t count) {
    if (count < MANY_VALUES) return are_finite_here(values, count);
    const size_t part = count / READERS;
    bool found[READERS];
    std::vector<std::thread> others;
    const auto look = [&](size_t reader) {
        const size_t from = reader * part;
        found[reader] = are_finite_here(values + from, reader + 1 < READERS ? part : count - from);
    };
    for (size_t reader = 1; reader < READERS; reader++) others.emplace_back(look, reader);
    look(0);
    for (auto & other : others) other.join();
    return std::all_of(found, found + READERS, [](bool is_finite) { return is_finite; });
}

/** What nothing has touched is mapped in large pages, where the system has them: one fault for 2 MiB, not for 4 KiB. */
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

double multiplications(const ggml_tensor * node) {
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
 * Encodes one chunk at a time, on a stack of its own. Between two nodes of the graph it may leave that stack, and come back
 * to it in a later call. All of it happens on the thread of the caller, so that the kernels' threads stay the same.
 */
struct lookout_encoder {
    mtmd_context * context = nullptr;
    /** Held while a chunk is encoded: where a device computes, another thread may have begun one. */
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
    double since_pause = 0;
    void * stack = nullptr;
    ucontext_t caller, own;
#endif
};

namespace {

/** The one that runs on this thread, or null. */
thread_local lookout_encoder * running = nullptr;

/** @return what a run that has ended returns. */
int32_t outcome(const lookout_encoder * encoder) {
    if (encoder->code != 0) return encoder->code;
    if (!encoder->is_written) return OTHER_SIZE;
    return are_finite(encoder->output, encoder->output_size) ? 0 : NOT_FINITE;
}

}  // namespace

/**
 * `clip_encode` asks it where the result goes: straight into the memory of the one that runs, so that nothing copies it
 * again. See the fix of `clip.cpp` in native-library.mjs.
 * @param own where it goes without an encoder of ours.
 */
float * lookout_encoder_output(float * own, size_t size) {
    if (running == nullptr || running->output_size != size) return own;
    running->is_written = true;
    prefer_large_pages(running->output, size * sizeof(float));
    return running->output;
}

#if defined(__linux__)

namespace {

/** ggml calls it for each node, before (`asks`) and, where it has said so, after the node has been computed. */
bool observe(ggml_tensor * node, bool asks, void * data) {
    auto * encoder = static_cast<lookout_encoder *>(data);
    if (asks) {
        encoder->since_pause += multiplications(node);
        return encoder->is_cancelled || encoder->since_pause >= BETWEEN_PAUSES;
    }
    encoder->since_pause = 0;
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
    encoder->since_pause = 0;
    getcontext(&encoder->own);
    encoder->own.uc_stack.ss_sp = encoder->stack;
    encoder->own.uc_stack.ss_size = STACK_BYTES;
    encoder->own.uc_link = &encoder->caller;
    const auto address = reinterpret_cast<uintptr_t>(encoder);
    makecontext(&encoder->own, reinterpret_cast<void (*)()>(encode), 2, unsigned(address >> 32), unsigned(address));
}

}  // namespace

#endif

/** @return null where there is no memory for a stack. */
extern "C" lookout_encoder * lookout_encoder_new() {
    auto * encoder = new lookout_encoder();
#if defined(__linux__)
    const auto flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE;
    void * stack = mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (stack == MAP_FAILED) {
        delete encoder;
        return nullptr;
    }
    // Writing beyond its end is a fault, not damage.
    mprotect(stack, 4096, PROT_NONE);
    encoder->stack = stack;
#endif
    return encoder;
}

/**
 * Loads the encoders of a model. To be called once.
 * @param can_pause false where they run on a device, which would have to wait at each place for a pause.
 * @return null when the file is not one of this model.
 */
extern "C" mtmd_context * lookout_encoder_load(lookout_encoder * encoder, const char * file, const llama_model * model,
                                               mtmd_context_params params, bool can_pause) {
#if defined(__linux__)
    if (can_pause) {
        params.cb_eval = observe;
        params.cb_eval_user_data = encoder;
    }
#endif
    encoder->context = mtmd_init_from_file(file, model, params);
    return encoder->context;
}

/** Gives up the chunk that is being encoded, if there is one. */
extern "C" void lookout_encoder_cancel(lookout_encoder * encoder) {
#if defined(__linux__)
    if (encoder->chunk == nullptr) return;
    encoder->is_cancelled = true;
    swapcontext(&encoder->caller, &encoder->own);
#endif
}

/**
 * Begins to encode a chunk, or goes on with it, for about so many ms; another chunk that was begun is given up.
 * @param output memory for the result, of `size` floats. A chunk that goes on may bring other memory.
 * @return 0 when it is done, `PAUSED`, `NOT_FINITE`, `OTHER_SIZE`, or what `mtmd_encode_chunk` returned.
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
    // Longer than a year is for ever.
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
 * Positions of the tokens `from` to `to` of an image.
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
