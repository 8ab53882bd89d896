import { defineConfig } from 'vitepress'
import { API_PAGES } from '../api-pages.ts'

/** GitHub's anchors of headings, because the pages are read there too. */
const slugify = (heading) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-')

const base = process.env.SITE_BASE ?? '/'

const docs = (text, page) => ({ text, link: `/docs/${page}` })

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
    },
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      { text: 'Quick start', link: '/README', activeMatch: '^/README' },
      docs('Guides', 'guides/'),
      { text: 'API', link: '/api/', activeMatch: '^/api/' },
      docs('Operating', 'operations'),
    ],
    sidebar: [
      {
        text: 'Start',
        items: [
          { text: 'Quick start', link: '/README' },
          docs('Installing', 'install'),
          docs('The Studio', 'studio'),
          docs('The command line', 'command-line'),
          { text: 'The shipped model', link: '/models/lookout-nano/README' },
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
        text: 'API reference',
        items: API_PAGES.map(({ name, title }) => ({ text: title, link: `/api/${name}` })),
      },
      {
        text: 'Using the API',
        items: [
          docs('Grounding', 'grounding'),
          docs('Reasoning, tools, structure', 'reasoning-and-tools'),
          docs('JSON Schema', 'json-schema'),
          docs('Decisions', 'decisions'),
          docs('Beyond the contract', 'own-endpoints'),
          docs('The contract and its limits', 'contributing/contract'),
        ],
      },
      {
        text: 'Models',
        items: [
          docs('Choosing a model', 'choosing'),
          docs('Getting models', 'models'),
          docs('Cards', 'cards'),
          docs('The doctor', 'doctor'),
          docs('Families', 'contributing/families'),
          { text: 'Training', link: '/training/README' },
        ],
      },
      {
        text: 'Operating',
        items: [
          docs('Settings, keys, limits', 'operations'),
          docs('Deploying', 'deploy'),
          docs('GPUs', 'gpu'),
          docs('Running on vLLM', 'cluster'),
          docs('Scale', 'scale'),
          docs('Benchmarks', 'contributing/benchmarks'),
          docs('One whole benchmark run', 'contributing/benchmark-run'),
          { text: 'Security', link: '/SECURITY' },
          docs('Licences', 'licences'),
        ],
      },
      {
        text: 'Inside',
        items: [
          docs('How we test', 'contributing/testing'),
          docs('Architecture', 'contributing/architecture'),
          docs('The rooms', 'contributing/rooms'),
          docs('The life of a request', 'contributing/life-of-a-request'),
          docs('The scheduler', 'contributing/scheduler'),
          { text: 'Contributing', link: '/CONTRIBUTING' },
        ],
      },
    ],
  },
})
