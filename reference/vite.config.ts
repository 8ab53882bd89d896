import { defineConfig } from 'vite'
import { guide } from './guide.ts'

/** Set-up builds the page (`src/setup/pages.mjs`). */
export default defineConfig({
  base: '/docs/',
  // The icon of the Studio.
  publicDir: '../studio/public',
  plugins: [guide()],
  build: {
    target: 'es2023',
    cssTarget: 'esnext',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // Swagger UI is one file, and more than the bundler likes.
    chunkSizeWarningLimit: 2_000,
  },
})
