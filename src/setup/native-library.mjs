// Locates the engine's native libraries, for set-up and for the service. It is plain JavaScript because set-up may run
// on an older Node than the service.
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { atLevel, processorFeatures, supportedLevels } from './levels.mjs'

/** @import { FindLibrary, Recipe } from './types.ts' */

/** The llama.cpp release that the bindings are written for, and the npm release that contains it. */
export const LLAMA_RELEASE = '0.4.0'
export const PACKAGE_RELEASE = '3.21.1'

/** The npm package whose tarball contains the source of that llama.cpp release. */
export const SOURCE_PACKAGE = 'node-llama-cpp'
export const SOURCE_INTEGRITY =
  'sha512-E3N0Ev2Va0wzydvXYFwM9Hvyo07PoWjt8T/9GMc43Cvt8YkV/NU/tYUgEMC1grTPv2o9PRjQi0G3Wb5P/awiMg=='

/** @type {Recipe} */
export const MTMD = {
  name: 'mtmd',
  what: 'the image encoder (libmtmd)',
  source: SOURCE_INTEGRITY,
  folders: ['tools/mtmd', 'include', 'ggml/include', 'vendor'],
  root: 'tools/mtmd',
  includes: ['tools/mtmd', 'include', 'ggml/include', 'vendor'],
  // The most expensive one first: it takes as long as all others together.
  sources: ['clip.cpp', 'mtmd.cpp', 'mtmd-image.cpp', 'mtmd-audio.cpp'],
  // Each takes two seconds for the headers, and a quarter of a second for itself.
  together: ['models/*.cpp'],
  // Compiled into this library because the engine always needs it.
  own: ['encoder', 'pulse', 'spin'].map((name) => `src/inference/local/native/${name}.cpp`),
  flags: ['-O2', '-fPIC', '-DNDEBUG', '-DLLAMA_SHARED', '-DGGML_SHARED'],
  needs: ['llama', 'ggml', 'ggmlBase'],
  fixes: [
    // Pixtral's row ends are computed from an uninitialised tensor. Zero times NaN is NaN, not zero.
    { file: 'tools/mtmd/models/pixtral.cpp', text: 'ggml_scale(ctx0, tok, 0.0)', by: 'ggml_fill(ctx0, tok, 0.0f)' },
    // 256 values have 256 results per channel: a table replaces two divisions for each of three million values.
    {
      file: 'tools/mtmd/clip-impl.h',
      text: '    void normalize(const float mean[3], const float std[3]) {\n',
      by: `    void from_u8_normalized(const clip_image_u8 & img, const float mean[3], const float std[3]) {
        float table[3][256];
        for (int c = 0; c < 3; ++c) {
            for (int value = 0; value < 256; ++value) {
                table[c][value] = ((float) value / 255.0f - mean[c]) / std[c];
            }
        }
        nx_ = img.get_size().width;
        ny_ = img.get_size().height;
        buf.resize(img.n_elements());
        const auto & u8_buf = img.get_ro_buf();
        for (size_t i = 0; i < buf.size(); i += 3) {
            for (size_t c = 0; c < 3; ++c) {
                buf[i + c] = table[c][u8_buf[i + c]];
            }
        }
    }

    void normalize(const float mean[3], const float std[3]) {
`,
    },
    {
      file: 'tools/mtmd/mtmd-image.cpp',
      text: '    dst.from_u8(img);\n    if (normalized) {\n        dst.normalize(hparams.image_mean, hparams.image_std);\n    }\n',
      by: '    if (normalized && !img.is_placeholder()) {\n        dst.from_u8_normalized(img, hparams.image_mean, hparams.image_std);\n    } else {\n        dst.from_u8(img);\n    }\n',
    },
    // The result goes to the destination that `lookout_encoder_run` wants. See encoder.cpp.
    {
      file: 'tools/mtmd/clip.cpp',
      text: '            ggml_backend_tensor_get(embeddings, out_batch_embd.data(), 0, ggml_nbytes(embeddings));\n',
      by: '            extern float * lookout_encoder_output(float *, size_t);\n            float * output = lookout_encoder_output(out_batch_embd.data(), out_batch_embd.size());\n            ggml_backend_tensor_get(embeddings, output, 0, ggml_nbytes(embeddings));\n',
    },
  ],
}

/**
 * ggml's kernels compiled for this processor, with attention, products and GELU of our own. The prebuilt kernels are made for a family of
 * processors, and their code for f16 weights is slow: the compiled ones take 0.65 of the time for a prompt. They are
 * compiled only where the package has nothing better (Metal) and where they have been tested.
 * @type {Recipe}
 */
export const CPU = {
  name: 'cpu',
  what: "the kernels for this machine's processor",
  source: SOURCE_INTEGRITY,
  folders: ['ggml'],
  root: 'ggml/src',
  includes: ['ggml/src', 'ggml/include', 'ggml/src/ggml-cpu'],
  sources: [
    ...['ggml-cpu.c', 'quants.c', 'arch/x86/quants.c'],
    ...['ggml-cpu', 'repack', 'iqp', 'hbm', 'traits', 'binary-ops', 'unary-ops', 'vec'].map((n) => `${n}.cpp`),
    ...['amx/amx.cpp', 'arch/x86/repack.cpp', 'arch/x86/cpu-feats.cpp'],
  ].map((name) => `ggml-cpu/${name}`),
  // Three of them replace ops.cpp, amx/mmq.cpp and llamafile/sgemm.cpp, which they include.
  own: [
    ...['attention', 'amx', 'logits', 'gemm', 'quantize', 'gemm-f16', 'gemm-f32', 'zero-pages', 'cell-order'],
    'thread-team',
  ].map((name) => `src/inference/local/native/kernels/${name}.cpp`),
  ownHeaders: [
    ...['micro-kernel', 'floats', 'panels', 'gelu', 'cell-order', 'encoder-attention'],
    ...['attention', 'attention-micro-kernel', 'attention-work', 'logit-rows', 'softmax', 'gumbel-noise'],
    ...[
      'gemm',
      'gemm-activations',
      'gemm-amx',
      'gemm-avx2',
      'gemm-avx512',
      'gemm-panel',
      'gemv',
      'quant-blocks',
      'amx-tiles',
    ],
  ].map((name) => `src/inference/local/native/kernels/${name}.h`),
  flags: [
    ...['-O3', '-march=native', '-fPIC', '-DNDEBUG', '-D_GNU_SOURCE', '-DGGML_SHARED', '-DGGML_BACKEND_SHARED'],
    ...['-DGGML_BACKEND_BUILD', '-DGGML_BACKEND_DL', '-DGGML_USE_LLAMAFILE', '-DGGML_USE_CPU_REPACK'],
    // With it, ggml sums products of f16 in f16: probabilities then differ by a hundredth, depending on the batch.
    '-U__AVX512FP16__',
  ],
  // ggml's own threads wait for each other in an endless loop. Beside one busy program, on two cores, a token then
  // takes 8 to 30 times as long; OpenMP's threads wait for a moment and then sleep (GOMP_SPINCOUNT).
  openmp: ['-fopenmp', '-DGGML_USE_OPENMP'],
  needs: ['ggmlBase'],
  fixes: [
    // See gemm.cpp.
    {
      file: 'ggml/src/ggml-cpu/ggml-cpu.c',
      text: '    ggml_barrier(params->threadpool);\n\n    for (int cur_a = 0; cur_a < n_as; ++cur_a) {\n',
      by: `    ggml_barrier(params->threadpool);

    extern bool lookout_mul_mat_id(const struct ggml_compute_params *, const struct ggml_tensor *, const int64_t *, const void *, void *);
    if (lookout_mul_mat_id(params, dst, matrix_row_counts, matrix_rows, atomic_current_chunk)) {
        return;
    }

    for (int cur_a = 0; cur_a < n_as; ++cur_a) {
`,
    },
    // See thread-team.cpp.
    {
      file: 'ggml/src/ggml-cpu/ggml-cpu.c',
      text: '        #pragma omp parallel num_threads(n_threads)\n        {\n            #pragma omp single\n',
      by: `        extern void * lookout_place_team(int);
        extern void lookout_join_team(void *, int);
        void * team = lookout_place_team(n_threads);
        #pragma omp parallel num_threads(n_threads)
        {
            lookout_join_team(team, omp_get_thread_num());
            #pragma omp single
`,
    },
    {
      file: 'ggml/src/ggml-cpu/ggml-cpu.c',
      text: '            ggml_graph_compute_thread(&threadpool->workers[ith]);\n        }\n',
      by: `            ggml_graph_compute_thread(&threadpool->workers[ith]);
        }
        extern void lookout_leave_team(void *);
        lookout_leave_team(team);
`,
    },
    // See quantize.cpp.
    {
      file: 'ggml/src/ggml-cpu/arch/x86/quants.c',
      text: '    quantize_row_q8_K_ref(x, y, k);\n',
      by: '    extern void lookout_quantize_row_q8_K(const float *, void *, int64_t);\n    lookout_quantize_row_q8_K(x, y, k);\n',
    },
    // With AMX, ggml rearranges f16 weights for code that does not use AMX, and is slower than gemm-f16.cpp.
    {
      file: 'ggml/src/ggml-cpu/amx/amx.cpp',
      text: '            case GGML_TYPE_F16:\n                alignment = 16;\n                break;\n',
      by: '',
    },
  ],
}

const PROJECT_ROOT = new URL('../../', import.meta.url)

/** Paths of a recipe's own sources. @param {Pick<Recipe, 'own'>} recipe */
export function ownSources({ own = [] }) {
  return own.map(inProject)
}

/**
 * Paths of their headers.
 * @param {Pick<Recipe, 'ownHeaders'>} recipe
 */
export function ownHeaders({ ownHeaders: names = [] }) {
  return names.map(inProject)
}

function inProject(name) {
  return fileURLToPath(new URL(name, PROJECT_ROOT))
}

/** A problem that the person who installs Lookout can solve. The message says how. */
export class SetupError extends Error {
  constructor(message) {
    super(message)
    this.name = 'SetupError'
  }
}

/**
 * Folder for files that are built once per machine. It is outside node_modules because `npm ci` deletes that.
 * @returns {string}
 */
export function cacheDirectory(env = process.env) {
  for (const [name, directory] of [
    ['LOOKOUT_CACHE_DIR', env.LOOKOUT_CACHE_DIR],
    ['XDG_CACHE_HOME', env.XDG_CACHE_HOME],
  ]) {
    if (!directory) continue
    if (!isAbsolute(directory)) throw new SetupError(`${name} must be an absolute path, not "${directory}".`)
    return name === 'LOOKOUT_CACHE_DIR' ? directory : join(directory, 'lookout')
  }
  if (process.platform === 'darwin') return join(homedir(), 'Library', 'Caches', 'lookout')
  return join(homedir(), '.cache', 'lookout')
}

/**
 * The name of a build's folder, which identifies everything that determines the build. A build for a level is the same
 * on all machines.
 * @param {Recipe} recipe
 * @param {string} platform
 */
export function buildName(recipe, platform) {
  const machine = recipe === CPU ? processorFeatures() : ''
  const hash = createHash('sha256')
    .update(JSON.stringify(recipe) + machine + [...ownSources(recipe), ...ownHeaders(recipe)].map(sha256).join())
    .digest('hex')
    .slice(0, 12)
  return `${recipe.name}-${LLAMA_RELEASE}-${platform}-${hash}`
}

/**
 * The folder of a compiled library in the cache. It may not exist.
 * @param {Recipe} recipe
 * @param {string} platform
 */
export function libraryDirectory(recipe, platform, env = process.env) {
  return join(cacheDirectory(env), 'native', buildName(recipe, platform))
}

/** Whether set-up compiles the kernels on this platform. @param {string} platform */
export function wantsOwnKernels(platform) {
  return platform === 'linux-x64' && processorFeatures() !== ''
}

/** File name of a compiled library. @param {Recipe} recipe */
export function libraryFile({ name }, platform = `${process.platform}-${process.arch}`) {
  return `liblookout-${name}.${platform.startsWith('darwin') ? 'dylib' : 'so'}`
}

/** The npm package with the libraries that were compiled ahead for a platform. @param {string} platform */
export function platformPackage(platform) {
  return `@lookout/native-${platform}`
}

export const MANIFEST_FILE = 'manifest.json'

/**
 * Path of a library: the one that was compiled on this machine, or else the platform package's. Null when there is none,
 * or when what there is is damaged or refused.
 * @type {FindLibrary}
 */
export function findLibrary(recipe, platform, env = process.env) {
  return findCompiled(recipe, platform, env) ?? findPackaged(recipe, platform, env)?.path ?? null
}

/**
 * Path of a library that was compiled on this machine; null when it is missing, damaged or refused.
 * @type {FindLibrary}
 */
export function findCompiled(recipe, platform, env = process.env) {
  return usable(readBuild(libraryDirectory(recipe, platform, env), recipe))
}

/**
 * A library of the platform package, with its recipe; null if none belongs to these sources and runs on this processor.
 * For the kernels, it is the best one that the processor supports and set-up has not refused.
 * @param {Recipe} recipe
 * @param {string} platform
 * @returns {{ readonly path: string, readonly recipe: Recipe } | null}
 */
export function findPackaged(recipe, platform, env = process.env) {
  const directory = packageDirectory(platform)
  if (directory === null) return null
  const variants = recipe === CPU ? supportedLevels(processorFeatures()).map((level) => atLevel(CPU, level)) : [recipe]
  for (const variant of variants) {
    const path = usable(readBuild(join(directory, 'native', buildName(variant, platform)), variant))
    if (path !== null && findRefusal(variant, platform, env) === null) return { path, recipe: variant }
  }
  return null
}

/** The folder of the installed platform package; null when there is none. @param {string} platform */
export function packageDirectory(platform) {
  try {
    return dirname(createRequire(import.meta.url).resolve(`${platformPackage(platform)}/package.json`))
  } catch {
    return null
  }
}

/**
 * The problem with a library that failed its check on this machine; null if there is none.
 * @type {FindLibrary}
 */
export function findRefusal(recipe, platform, env = process.env) {
  return readBuild(libraryDirectory(recipe, platform, env), recipe)?.refused ?? null
}

function usable(build) {
  return build !== null && build.refused === null ? build.path : null
}

function readBuild(directory, recipe) {
  try {
    const manifest = JSON.parse(readFileSync(join(directory, MANIFEST_FILE), 'utf8'))
    const path = join(directory, libraryFile(recipe))
    return manifest.sha256 === sha256(path) ? { path, refused: manifest.refused ?? null } : null
  } catch {
    return null
  }
}

/**
 * Completes the folder of a library that has been compiled, so that `findLibrary` finds the library there.
 * @param {string} directory
 * @param {Recipe} recipe
 * @param {string} platform
 * @param {string | null} refused the problem with the library, which is then not used; null if there is none.
 */
export function writeManifest(directory, recipe, platform, refused) {
  const library = libraryFile(recipe, platform)
  const manifest = { library, release: LLAMA_RELEASE, platform, sha256: sha256(join(directory, library)), refused }
  writeFileSync(join(directory, MANIFEST_FILE), `${JSON.stringify(manifest, null, 2)}\n`)
}

/** In hexadecimal. @param {string} file */
export function sha256(file) {
  return createHash('sha256').update(readFileSync(file)).digest('hex')
}
