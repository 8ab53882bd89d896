import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { keepCompiledCode } from './src/setup/compile-cache.mjs'

// Engines, databases and commands start hundreds of times.
keepCompiledCode()

/**
 * Tests that measure how long others wait, or how much memory the machine has left. They run one file at a time, after all
 * others.
 */
const ALONE = ['src/inference/local/sampling/constraint-time.test.ts', 'test/{media-descriptors,media-memory}.test.ts']
/** What the shipped model answers. They turn red when it is trained badly, and only then. */
const WEIGHTS = ['test/weights/*.test.ts']

const WORKERS = Math.min(8, Math.max(3, availableParallelism()))

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
          // More than two cores have: many tests wait for other processes, or for time to pass.
          maxWorkers: WORKERS,
          sequence: { groupOrder: 0 },
        },
      },
      { test: { ...shared, name: 'alone', include: ALONE, fileParallelism: false, sequence: { groupOrder: 1 } } },
      { test: { ...shared, name: 'weights', include: WEIGHTS, fileParallelism: false, sequence: { groupOrder: 2 } } },
    ],
  },
})
