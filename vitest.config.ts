import { availableParallelism } from 'node:os'
import { matchesGlob, relative } from 'node:path'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type Reporter, type TestSpecification } from 'vitest/node'
import { keepCompiledCode } from './src/setup/compile-cache.mjs'

// Engines, databases and commands start hundreds of times.
keepCompiledCode()

/**
 * Tests that measure how long others wait or how much memory the machine has left, and one of what a process does that
 * has just started. They run one file at a time, after all others, each in a process of its own.
 */
const ALONE = [
  'src/inference/local/sampling/constraint-time.test.ts',
  '{src/lib/guarded/memory,test/media-descriptors,test/media-memory}.test.ts',
]
/** Tests that load llama.cpp into their own process. It must leave with them: a second file in that process may crash it. */
const NATIVE = [
  'src/inference/local/native/**/!(choice).test.ts',
  'src/inference/local/sampling/!(constrained-sampler|drawing-sampler).test.ts',
  'src/inference/local/scheduler/!(admission|priority-pace|queue-forecast|thread-count).test.ts',
  'src/inference/local/scheduler/batch/encoder-aside.test.ts',
  'src/inference/local/scheduler/{scoring/*,sequences/prefix-copies}.test.ts',
  'src/inference/local/tokens/!(text-slices).test.ts',
  'src/inference/local/worker/slow-model.test.ts',
  'test/export-hf.test.ts',
]
/** Each file takes twenty seconds or more: servers that are started or killed, models of every family, the documentation. */
const LONG = [
  'src/{conversation/tools/tool-grammar,inference/constraints/automaton,batches/index-input}.test.ts',
  'src/inference/local/host/{local-engine,warm-restart}.test.ts',
  'src/inference/local/{native/{device/device-rows,kernels/attention},scheduler/{same-bits,scheduler,scoring/reply-scorer,speculation}}.test.ts',
  'test/{batches-killed,chat-command,database-stops,doc-blocks,doctor,examinations,flood,main,mcp-calls,model-pulls}.test.ts',
  'test/{package,studio-snippets,survival,watch-socket,watches,watches-killed,webhooks}.test.ts',
  'test/{embeddings,families-reuse,family-images,ocr,other-encoders,picture-embeddings}.test.ts',
  'test/{backend-setup,batches-faults,card-command,cuda-setup,decisions-end-to-end,emitted-schemas,large-bodies,refusals,tool-syntaxes}.test.ts',
  'test/{adapters,transcriptions,cameras,commands,pull,vllm-images,conformance/tool-syntaxes}.test.ts',
  'test/{batch-command,decide-command,detect-command,hostile-documents,hostile-media,mcp,operations,responses-state,without-ffmpeg}.test.ts',
  'test/conformance/generated-clients.test.ts',
]
/** They take longest, and would end alone: without the times of an earlier run, Vitest starts the files with the most bytes first. */
const FIRST = [
  'test/{doc-blocks,flood,survival,database-stops,batches-killed,families-reuse,family-images,other-encoders}.test.ts',
  'src/inference/{constraints/automaton,local/scheduler/same-bits,local/scheduler/scheduler}.test.ts',
  'test/{site/pages,weights/doc-outputs}.test.ts',
]
/** What the shipped model answers. They turn red when it is trained badly, and only then. */
const WEIGHTS = ['test/weights/*.test.ts']
/** What published weights answer, which a package registry has; skipped where they cannot be fetched. */
const REAL = ['test/real/*.test.ts']
/** What needs a vLLM server, which takes a minute to start and gigabytes of disk and memory. */
const VLLM = ['test/vllm/*.test.ts']
/** What opens pages in chromium; skipped where there is none. */
const BROWSER = ['test/{reference,site,studio}/*.test.ts']
/** Tests of the shipped model, by HTTP or by `Engine`, that must hold on every engine: they start it as shipped-model.ts does. */
const EVERY_ENGINE = [
  'test/{compatibility,dialects,end-to-end,focus,fuzz,multilook-end-to-end}.test.ts',
  'test/{repetition,structured-output}.test.ts',
  'test/conformance/{shipped-model,tool-syntaxes}.test.ts',
  ...WEIGHTS,
]

const WORKERS = Math.min(8, Math.max(3, availableParallelism()))

const shared = {
  setupFiles: ['test/support/each-file.ts'],
  // The S3 store of the tests takes any keys.
  env: {
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
    // Whatever this machine has: rounding on a GPU may turn a token of random weights.
    LOOKOUT_BACKEND: process.env.LOOKOUT_BACKEND || 'cpu',
  },
  globalSetup: ['test/support/shared-database.ts'],
  restoreMocks: true,
  unstubEnvs: true,
  // Only for what hangs: a busy machine may take several times as long as an idle one.
  testTimeout: 120_000,
  hookTimeout: 120_000,
  expect: { poll: { timeout: 60_000 } },
  // Until `npm run test:repeat` has run in full without a failure. The report names each test that needed a second try.
  retry: process.env.CI ? 1 : 0,
}

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isFirst = ({ moduleId }: TestSpecification) =>
      FIRST.some((pattern) => matchesGlob(relative(import.meta.dirname, moduleId), pattern))
    const { first = [], rest = [] } = Object.groupBy(await super.sort(files), (file) =>
      isFirst(file) ? 'first' : 'rest',
    )
    return [...first, ...rest]
  }
}

/** Prints where the time went: the files whose tests and hooks took longest. */
const slowestFiles: Reporter = {
  onTestRunEnd(modules) {
    const seconds = modules.map((module) => [module.diagnostic().duration / 1000, module.relativeModuleId] as const)
    const slowest = seconds.sort(([one], [other]) => other - one).slice(0, 10)
    if (slowest.length === 1) return
    console.log('\nSlowest files:')
    for (const [duration, file] of slowest) console.log(`${duration.toFixed(1).padStart(7)} s  ${file}`)
  },
}

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    // Node runs the tests and what they import as it runs Lookout: no module is transformed, and compiled code is kept.
    experimental: { viteModuleRunner: false, nodeLoader: false },
    reporters: ['default', ...(process.env.GITHUB_ACTIONS === 'true' ? ['github-actions'] : []), slowestFiles],
    projects: [
      {
        test: {
          ...shared,
          name: 'parallel',
          include: ['{src,test,bench}/**/*.test.ts'],
          exclude: [...NATIVE, ...ALONE, ...LONG, ...WEIGHTS, ...REAL, ...VLLM, ...BROWSER],
          // The files of a worker share its modules, which loads them once.
          isolate: false,
          // More than two cores have: many tests wait for other processes, or for time to pass.
          maxWorkers: WORKERS,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          ...shared,
          name: 'native',
          include: NATIVE,
          exclude: [...ALONE, ...LONG],
          maxWorkers: WORKERS,
          sequence: { groupOrder: 0 },
        },
      },
      { test: { ...shared, name: 'alone', include: ALONE, fileParallelism: false, sequence: { groupOrder: 2 } } },
      {
        test: {
          ...shared,
          name: 'browser',
          include: BROWSER,
          // Each has a browser with processes of its own.
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          ...shared,
          name: 'long',
          include: LONG,
          maxWorkers: WORKERS,
          testTimeout: 600_000,
          sequence: { groupOrder: 2 },
        },
      },
      { test: { ...shared, name: 'weights', include: WEIGHTS, maxWorkers: 2, sequence: { groupOrder: 3 } } },
      {
        test: {
          ...shared,
          name: 'real',
          include: REAL,
          fileParallelism: false,
          // The weights are fetched first.
          hookTimeout: 600_000,
          sequence: { groupOrder: 5 },
        },
      },
      {
        test: {
          ...shared,
          name: 'vllm',
          include: [...VLLM, ...EVERY_ENGINE],
          // What the pages show is what the local engine answers.
          exclude: ['test/weights/doc-outputs.test.ts'],
          globalSetup: [...shared.globalSetup, 'test/support/vllm/setup.ts'],
          fileParallelism: false,
          testTimeout: 120_000,
          hookTimeout: 600_000,
          sequence: { groupOrder: 4 },
        },
      },
    ],
  },
})
