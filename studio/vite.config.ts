import { defineConfig } from 'vite'

const server = process.env.LOOKOUT_URL ?? 'http://127.0.0.1:8080'

/** Set-up builds the page (`src/setup/pages.mjs`); `npm run studio` serves it with live reload beside a running server. */
export default defineConfig({
  base: '/studio/',
  // `h` is what Preact itself has: smaller calls than those of the automatic runtime, and no runtime.
  oxc: {
    jsx: { runtime: 'classic', pragma: 'h', pragmaFrag: 'Fragment' },
    jsxInject: "import { h, Fragment } from 'preact'",
  },
  build: { target: 'es2023', cssTarget: 'esnext', assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  server: { proxy: { '/v1': server, '/studio/samples': server, '/studio/fetch': server } },
})
