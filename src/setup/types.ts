/** The types of set-up's plain JavaScript, which may run on an older Node than the service. */

/** The prebuilt llama.cpp libraries, each by its path. */
export interface PrebuiltLibraries {
  /** Node's platform and architecture, e.g. `linux-x64`. */
  readonly platform: string
  readonly directory: string
  readonly ggmlBase: string
  readonly ggml: string
  readonly llama: string
  readonly llamaCommon: string
}

/**
 * A library that set-up compiles, with everything that determines the result: any change gives it another folder in the
 * cache.
 */
export interface Recipe {
  readonly name: string
  /** In words, for messages. */
  readonly what: string
  /** The level for which it is compiled; without one, this machine's processor. */
  readonly level?: string
  /** The parts of the source tree that the compilation reads. */
  readonly folders: readonly string[]
  /** Relative to `root`, as are `includes`. */
  readonly sources: readonly string[]
  /** Sources that are compiled as one file: they share their headers, and their names do not collide. */
  readonly together?: readonly string[]
  /** Sources of this project that are compiled with the others, and their headers. */
  readonly own?: readonly string[]
  readonly ownHeaders?: readonly string[]
  readonly flags: readonly string[]
  /** Added if the compiler has OpenMP. */
  readonly openmp?: readonly string[]
  /** The prebuilt libraries that it is linked with. */
  readonly needs: readonly string[]
  /** Applied to the sources before they are compiled. */
  readonly fixes?: readonly Fix[]
}

interface Fix {
  /** Relative to the source tree. */
  readonly file: string
  readonly text: string
  readonly by: string
}

/** Finds something about a library on a machine, such as its path; null if there is nothing. */
export type FindLibrary = (recipe: Recipe, platform: string, env?: NodeJS.ProcessEnv) => string | null

/** A level of x86-64 for which kernels are precompiled. */
export interface Level {
  readonly name: string
  /** Required features of the processor, as in /proc/cpuinfo. */
  readonly needs: readonly string[]
  /** The compiler's flags, in place of -march=native. */
  readonly flags: readonly string[]
}

/** The inputs of a compilation, and where the result goes. */
export interface Compilation {
  /** The result of `findCompiler`, or nvcc. */
  readonly compiler: readonly string[]
  /** The source tree. */
  readonly source: string
  /** A folder for object files. */
  readonly objects: string
  /** Path of the library. */
  readonly output: string
  readonly prebuilt: PrebuiltLibraries
  readonly linkFlags?: readonly string[]
  /** Identifies what the compiled code depends on besides its source, its flags and its compiler. */
  readonly machine?: string
  /** Called with the number of finished files and of all files. */
  readonly progress: (done: number, all: number) => void
}

/** Values of LOOKOUT_BACKEND. */
export type Backend = 'auto' | 'cpu' | 'vulkan' | 'cuda' | 'metal'

export interface GpuBackend {
  readonly name: 'cuda' | 'vulkan'
  /** The npm package that contains it. */
  readonly package: string
  /** Hash of the package's tarball. */
  readonly integrity: string
  /** The library within the tarball. */
  readonly file: string
}

/** Returns a path of a backend in the cache; null if there is none. */
export type FindBackend = (backend: GpuBackend, platform: string, env?: NodeJS.ProcessEnv) => string | null

export interface Gpu {
  readonly name: string
  /** The compute capability, times ten. */
  readonly capability: number
  readonly driver: string
}

/** Lookout's package of the CUDA backend. */
export interface CudaPackage {
  readonly name: string
  readonly architectures: readonly number[]
  /** Why it is never used; null if there is no problem. */
  readonly problem: string | null
}

export interface Wheel {
  /** Name of the package. */
  readonly name: string
  readonly version: string
  /** The wheel's name. */
  readonly file: string
  /** In hexadecimal. */
  readonly sha256: string
}

/** How wheels are downloaded. */
export interface WheelOptions {
  /** PIP_INDEX_URL names an index other than PyPI's. */
  readonly env?: NodeJS.ProcessEnv
  /** Called with the number of downloaded bytes, and of all. */
  readonly progress?: (done: number, all: number) => void
  readonly get?: typeof fetch | undefined
}

/** A page for browsers that the server serves. */
export interface Page {
  /** The folder of its source. */
  readonly source: string
  /** Where the server looks for the built page. */
  readonly directory: string
}
