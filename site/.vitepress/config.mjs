import { defineConfig } from 'vitepress'
import { API_PAGES } from '../api-pages.ts'

/** GitHub's anchors of headings, because the pages are read there too. */
const slugify = (heading) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-')

/** Indented code names no language. Code that begins like a command is highlighted as shell. */
const languageOf = (code) => (/^(?:[A-Z_]+=\S* )*[a-z][\w-]*(?: (?!=)|$)/.test(code) ? 'sh' : 'text')

const base = process.env.SITE_BASE ?? '/'

const docs = (text, page) => ({ text, link: `/docs/${page}` })

const USERS = [
  {
    text: 'Start',
    items: [
      { text: 'Quick start', link: '/README' },
      docs('All pages', ''),
      docs('Installing', 'install'),
      docs('Choosing a model', 'choosing'),
      docs('Hardware', 'hardware'),
      docs('Comparison', 'comparison'),
      docs('The Studio', 'studio'),
      docs('The command line', 'command-line'),
    ],
  },
  {
    text: 'Guides',
    items: [
      docs('Overview', 'guides/'),
      docs('A robot’s camera', 'guides/robot'),
      docs('A factory line', 'guides/factory-line'),
      docs('Labelling a folder', 'guides/labelling'),
      docs('Documents and labels', 'guides/documents'),
    ],
  },
  {
    text: 'Using the API',
    items: [
      docs('Chat and multilook', 'chat'),
      docs('Grounding', 'grounding'),
      docs('Decisions', 'decisions'),
      docs('Reasoning, tools, structure', 'reasoning-and-tools'),
      docs('JSON Schema', 'json-schema'),
      docs('Responses', 'responses'),
      docs('Messages', 'messages'),
      docs('Ollama’s API', 'ollama'),
      docs('Further endpoints', 'own-endpoints'),
      docs('Clients and frameworks', 'clients'),
      docs('Generated clients', 'generated-clients'),
      docs('MCP', 'mcp'),
      docs('Limits', 'limits'),
    ],
  },
  {
    text: 'API reference',
    collapsed: true,
    items: API_PAGES.map(({ name, title }) => ({ text: title, link: `/api/${name}` })),
  },
  {
    text: 'Models',
    items: [
      docs('Getting models', 'models'),
      docs('The doctor', 'doctor'),
      docs('Cards', 'cards'),
      { text: 'Lookout Nano', link: '/models/lookout-nano/README' },
    ],
  },
  {
    text: 'Operating',
    items: [
      docs('Settings, keys, storage', 'operations'),
      docs('Deploying', 'deploy'),
      docs('GPUs', 'gpu'),
      docs('Running on vLLM', 'cluster'),
      docs('Privacy', 'privacy'),
      { text: 'Security', link: '/SECURITY' },
      docs('Licences', 'licences'),
    ],
  },
]

const CONTRIBUTORS = [
  {
    text: 'For contributors',
    items: [
      docs('Overview', 'contributing/'),
      { text: 'Contributing', link: '/CONTRIBUTING' },
      docs('Architecture', 'contributing/architecture'),
      docs('The rooms', 'contributing/rooms'),
      docs('The life of a request', 'contributing/life-of-a-request'),
      docs('The scheduler', 'contributing/scheduler'),
      docs('Model families', 'contributing/families'),
      docs('Notations', 'contributing/notations'),
      docs('The contract', 'contributing/contract'),
      docs('How we test', 'contributing/testing'),
      docs('What was tried', 'contributing/operations-notes'),
      docs('The session file', 'contributing/session-file'),
      docs('Packages', 'contributing/packages'),
      { text: 'Training', link: '/training/README' },
    ],
  },
  {
    text: 'Measured',
    items: [
      docs('Benchmarks', 'contributing/benchmarks'),
      docs('One whole run', 'contributing/benchmark-run'),
      docs('GPUs', 'contributing/gpus'),
      docs('Parity', 'contributing/parity'),
      docs('Scale', 'contributing/scale'),
    ],
  },
  { text: 'For users', items: [docs('All pages', '')] },
]

export default defineConfig({
  title: 'Lookout',
  description: 'A self-hosted inference server for vision-language models.',
  base,
  srcDir: '.pages',
  outDir: '../out/site',
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: `${base}icon.svg` }]],
  lastUpdated: false,
  markdown: {
    anchor: { slugify },
    config(md) {
      const fence = md.renderer.rules.fence
      md.renderer.rules.fence = (tokens, index, options, env, self) => {
        const { info, content } = tokens[index]
        if (info.trim() !== 'mermaid') return fence(tokens, index, options, env, self)
        return `<MermaidDiagram source="${encodeURIComponent(content)}" />`
      }
      md.renderer.rules.code_block = (tokens, index, options, env, self) => {
        tokens[index].info = languageOf(tokens[index].content)
        return fence(tokens, index, options, env, self)
      }
    },
  },
  themeConfig: {
    logo: '/icon.svg',
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      { text: 'Quick start', link: '/README', activeMatch: '^/README' },
      docs('Guides', 'guides/'),
      docs('Models', 'choosing'),
      { text: 'API', link: '/api/', activeMatch: '^/api/' },
      docs('Operating', 'operations'),
      docs('Contributing', 'contributing/'),
    ],
    sidebar: {
      '/docs/contributing/': CONTRIBUTORS,
      '/training/': CONTRIBUTORS,
      '/CONTRIBUTING': CONTRIBUTORS,
      '/': USERS,
    },
  },
})
