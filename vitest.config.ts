import { defineConfig } from 'vitest/config'

/**
 * Tests that start an engine, or measure memory or how long others wait. They run one file at a time: two engines on two
 * cores slow each other many times over.
 */
const ALONE = [
  'src/inference/local/{host,sampling,scheduler,tokens}/*.test.ts',
  'test/{audio,broken-connections,compatibility,database-stops,detect,dialects,end-to-end,faults,focus}.test.ts',
  'test/{fuzz,main,media-descriptors,media-memory,models,multilook-end-to-end,operations}.test.ts',
  'test/{quantised-weights,repetition,structured-output}.test.ts',
  'test/conformance/{generated-client,shipped-model,tool-syntaxes}.test.ts',
]
/** What the shipped model answers. They turn red when it is trained badly, and only then. */
const WEIGHTS = ['test/weights/*.test.ts']

const shared = {
  setupFiles: ['test/support/property-seed.ts'],
  // The S3 store of the tests takes any.
  env: { AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' },
  globalSetup: ['test/support/shared-database.ts'],
  testTimeout: 30_000,
  hookTimeout: 120_000,
}

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          ...shared,
          name: 'parallel',
          include: ['{src,test,bench}/**/*.test.ts'],
          exclude: [...ALONE, ...WEIGHTS],
          // By default Vitest leaves a core to itself, which would be half of two.
          maxWorkers: '100%',
          sequence: { groupOrder: 0 },
        },
      },
      { test: { ...shared, name: 'alone', include: ALONE, fileParallelism: false, sequence: { groupOrder: 1 } } },
      { test: { ...shared, name: 'weights', include: WEIGHTS, fileParallelism: false, sequence: { groupOrder: 2 } } },
    ],
  },
})
