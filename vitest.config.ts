import { defineConfig } from 'vitest/config'

/**
 * Tests that start an engine or a server process, or measure how long others wait. They run one file at a time: two
 * engines on two cores slow each other many times over.
 */
const ALONE = [
  'src/inference/local/{host,sampling,scheduler,tokens}/*.test.ts',
  'test/{audio,backends,broken-connections,commands,compatibility,database-stops,detect,dialects,disk-full}.test.ts',
  'test/{end-to-end,faults,focus,fuzz,large-bodies,main,many-keys,media-descriptors,media-memory,models}.test.ts',
  'test/{multilook,multilook-end-to-end,operations,quantised-weights,refusals,repetition,setup}.test.ts',
  'test/{structured-output,survival,unknown-keys,usage}.test.ts',
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
          sequence: { groupOrder: 0 },
        },
      },
      { test: { ...shared, name: 'alone', include: ALONE, fileParallelism: false, sequence: { groupOrder: 1 } } },
      { test: { ...shared, name: 'weights', include: WEIGHTS, fileParallelism: false, sequence: { groupOrder: 2 } } },
    ],
  },
})
