import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts', 'bench/**/*.test.ts'],
    setupFiles: ['test/support/property-seed.ts'],
    globalSetup: ['test/support/shared-database.ts'],
    testTimeout: 30_000,
    hookTimeout: 120_000,
    // One file at a time: each engine owns the machine's cores, and two spinning thread teams starve each other.
    fileParallelism: false,
  },
})
