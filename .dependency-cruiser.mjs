/**
 * The rooms of `src`, from top to bottom, and the rooms that each one uses. This is the one list of them: `npm run lint`
 * rejects every import that it does not name, and `npm run rooms` draws it.
 *
 * A room is a folder with all that is in it, or `/*` for the files of a folder itself, where its subfolders are rooms.
 */
const BASICS = ['lib', 'config']
/** What an API needs of a conversation: requests to make, and replies to write. */
const CONVERSATION = ['*', 'call', 'decisions', 'reply', 'request'].map((name) => `conversation/${name}`)
const ROOMS = {
  'main.ts': ['commands', 'setup', ...BASICS],
  commands: [
    ...[
      'service',
      'doctor',
      'batches',
      'client',
      'drawing',
      'exports',
      'hub',
      'catalogue',
      'hugging-face',
      'inference/engines',
      'inference/catalog',
      'inference/local/*',
      'inference/contract',
      'media',
      'models',
      'tracing',
    ],
    // How sure boxes are, which `lookout calibrate` fits.
    'conversation/detecting',
    ...['grounding', 'accounts', 'storage', 'setup', ...BASICS],
  ],
  // The composition root: the only room that knows every part.
  service: [
    ...[
      'api/*',
      'api/pages',
      'api/http',
      'conversation/*',
      'conversation/prompt',
      'inference/engines',
      'inference/catalog',
      'inference/pool',
      'inference/contract',
      'models',
      'hub',
      'media',
      'metrics',
      'tracing',
    ],
    ...['catalogue', 'doctor', 'batches', 'watches', 'accounts', 'responses', 'files', 'storage', 'setup', ...BASICS],
  ],

  'api/*': [
    ...['openai', 'responses', 'anthropic', 'ollama', 'typesafe', 'mistral', '*'].map((name) => `api/surfaces/${name}`),
    ...['api/pages', 'api/native', 'api/openai', 'api/http'],
    ...['conversation/*', 'inference/catalog', 'inference/contract', 'batches', 'watches', 'accounts', 'responses'],
    ...['files', 'media', 'hub', 'catalogue', 'metrics', 'tracing', ...BASICS],
  ],
  'api/native': [
    ...['api/surfaces/openai', 'api/surfaces/*', 'api/http'],
    ...[...CONVERSATION, 'inference/catalog', 'inference/contract', 'watches', 'media', 'hub', 'catalogue', ...BASICS],
  ],
  'api/surfaces/responses': [
    ...['api/surfaces/openai', 'api/surfaces/*', 'api/http', ...CONVERSATION, 'inference/contract', 'media'],
    ...['grounding', 'responses', 'accounts', 'files', ...BASICS],
  ],
  'api/surfaces/anthropic': [
    ...['api/surfaces/openai', 'api/surfaces/*', 'api/http'],
    ...[...CONVERSATION, 'inference/catalog', 'inference/contract', ...BASICS],
  ],
  'api/surfaces/ollama': [
    ...['api/surfaces/openai', 'api/surfaces/*', 'api/http'],
    ...[...CONVERSATION, 'inference/catalog', 'inference/contract', 'media', ...BASICS],
  ],
  'api/surfaces/typesafe': [
    ...['api/surfaces/openai', 'api/surfaces/*', 'api/http'],
    ...[...CONVERSATION, 'inference/catalog', 'inference/contract', 'media', ...BASICS],
  ],
  'api/surfaces/mistral': [
    'api/surfaces/openai',
    'api/surfaces/*',
    'api/http',
    ...CONVERSATION,
    'grounding',
    'media',
    ...BASICS,
  ],
  'api/surfaces/openai': [
    ...['api/surfaces/*', 'api/http', ...CONVERSATION, 'inference/catalog', 'inference/contract'],
    ...['grounding', 'media', ...BASICS],
  ],
  // What a surface is, and what serves all of them.
  'api/surfaces/*': ['api/http', ...CONVERSATION, 'inference/catalog', ...BASICS],
  'api/pages': ['api/http', 'media', ...BASICS],
  'api/openai': [
    ...['api/http', 'inference/catalog', 'media', 'batches', 'accounts', 'files', 'storage', 'hub', ...BASICS],
  ],
  'api/http': [
    ...[
      'conversation/*',
      'conversation/call',
      'inference/catalog',
      'inference/pool',
      'inference/contract',
      'media',
      'metrics',
      'tracing',
      'accounts',
      'storage',
      ...BASICS,
    ],
  ],

  doctor: [
    'conversation/*',
    'conversation/reply',
    'conversation/prompt',
    'conversation/request',
    'inference/catalog',
    'inference/contract',
    'media',
    'models',
    'grounding',
    'setup',
    ...BASICS,
  ],

  'conversation/*': [
    ...['conversation/call', 'conversation/decisions', 'conversation/detecting', 'conversation/reply'],
    ...[
      'conversation/prompt',
      'conversation/tools',
      'conversation/request',
      'inference/catalog',
      'inference/contract',
      'families',
      'media',
      'models',
      'families',
      'grounding',
      ...BASICS,
    ],
  ],
  'conversation/call': [
    ...['conversation/reply', 'conversation/prompt', 'conversation/request', 'inference/catalog'],
    ...['inference/contract', 'media', ...BASICS],
  ],
  'conversation/detecting': [
    ...['conversation/decisions', 'conversation/reply', 'conversation/prompt', 'conversation/request'],
    ...['inference/catalog', 'inference/contract', 'media', 'models', 'families', 'grounding', ...BASICS],
  ],
  'conversation/decisions': [
    ...['conversation/reply', 'conversation/request', 'inference/contract', 'families', 'grounding', ...BASICS],
  ],
  'conversation/reply': [
    ...['conversation/prompt', 'conversation/tools', 'conversation/request'],
    ...[
      'inference/catalog',
      'inference/contract',
      'inference/constraints',
      'models',
      'families',
      'grounding',
      ...BASICS,
    ],
  ],
  'conversation/prompt': [
    ...['conversation/tools', 'conversation/request'],
    ...['inference/catalog', 'inference/contract', 'media', 'models', 'templates', 'families', 'grounding', ...BASICS],
  ],
  'conversation/tools': ['conversation/request', 'inference/constraints', 'inference/contract', 'families', ...BASICS],
  'conversation/request': ['inference/contract', 'media', 'grounding', ...BASICS],

  metrics: ['inference/pool', 'inference/contract', 'models', 'lib'],
  tracing: ['inference/pool', 'inference/contract', 'media', ...BASICS],
  'inference/engines': ['inference/local/host', 'inference/remote/*', 'inference/contract', 'models'],
  'inference/local/host': [
    ...['inference/local/*', 'inference/local/native', 'inference/contract', 'models', 'families', 'media', ...BASICS],
  ],
  'inference/local/worker': [
    ...['scheduler', 'disk', 'cache', 'native', '*'].map((name) => `inference/local/${name}`),
    ...['inference/contract', 'models', 'media', ...BASICS],
  ],
  'inference/local/scheduler': [
    ...['disk', 'cache', 'tokens', 'sampling', 'native', '*'].map((name) => `inference/local/${name}`),
    ...['inference/constraints', 'inference/contract', ...BASICS],
  ],
  'inference/local/disk': ['cache', 'native', '*']
    .map((name) => `inference/local/${name}`)
    .concat('inference/contract', 'setup', 'lib'),
  'inference/local/cache': ['inference/local/tokens', 'inference/local/native'],
  'inference/local/tokens': ['inference/local/*', 'inference/local/native', 'inference/contract', 'media', ...BASICS],
  'inference/local/sampling': [
    ...['inference/local/*', 'inference/local/native', 'inference/constraints', 'inference/contract', ...BASICS],
  ],
  // What both processes know.
  'inference/local/*': ['inference/contract', 'models', ...BASICS],
  'inference/local/native': ['inference/contract', 'setup', 'lib'],
  'inference/remote/*': [
    ...['vllm', 'sglang', 'openai', 'http', 'servers', 'tokens', 'wire'].map((name) => `inference/remote/${name}`),
    ...['inference/constraints', 'inference/contract', 'models', 'families', 'templates', 'media', ...BASICS],
  ],
  'inference/remote/vllm': ['inference/remote/http', 'inference/remote/wire', 'inference/contract'],
  'inference/remote/sglang': ['inference/remote/http', 'inference/remote/wire', 'inference/contract'],
  'inference/remote/openai': ['inference/remote/http', 'inference/remote/wire', 'inference/contract', 'media', 'lib'],
  'inference/remote/http': ['inference/remote/wire', 'media', 'lib'],
  'inference/remote/servers': ['inference/remote/wire', 'inference/contract', ...BASICS],
  'inference/remote/tokens': [...BASICS],
  'inference/remote/wire': ['inference/contract', 'media'],
  'inference/constraints': ['inference/contract', ...BASICS],
  'inference/catalog': ['inference/pool', 'inference/contract', 'models', ...BASICS],
  'inference/pool': ['inference/contract', 'models', ...BASICS],
  'inference/contract': ['models', 'media', 'templates', 'grounding', ...BASICS],

  responses: ['files', 'accounts', 'storage', ...BASICS],
  batches: ['files', 'accounts', 'storage', ...BASICS],
  watches: ['files', 'media', 'accounts', 'storage', ...BASICS],
  files: ['media', 'accounts', 'storage', ...BASICS],
  media: ['models', ...BASICS],
  hub: ['catalogue', 'models', 'families', ...BASICS],
  catalogue: ['models', ...BASICS],
  'hugging-face': ['models', 'lib'],
  models: ['templates', 'families', 'grounding', 'lib'],
  templates: ['families'],
  families: ['grounding'],
  grounding: [],
  accounts: ['storage', ...BASICS],
  // What the commands do with pictures and with a server, whichever it is.
  client: ['lib'],
  drawing: [],
  exports: ['lib'],
  storage: [...BASICS],
  config: [],
  setup: [],
  lib: [],
}

const pathOf = (room) => {
  if (room === 'service') return '^src/(service|state)([.]ts$|/)'
  return room.endsWith('/*') ? `^src/${room.slice(0, -2)}/[^/]+$` : `^src/${room}(/|$)`
}

const below = Object.keys(ROOMS)
const rules = Object.entries(ROOMS).map(([room, uses]) => {
  const upward = uses.find((used) => below.indexOf(used) <= below.indexOf(room))
  if (upward !== undefined) throw new Error(`${room} stands in the list above every room that it uses, ${upward} too`)
  return {
    name: `arrows-of-${room}`,
    comment: `${room} uses ${uses.join(', ') || 'no other room'}; the list is in .dependency-cruiser.mjs`,
    severity: 'error',
    from: { path: pathOf(room), pathNot: '[.]test[.]ts$' },
    to: { path: '^src/', pathNot: [room, ...uses].map(pathOf) },
  }
})

export default {
  forbidden: [
    ...rules,
    {
      name: 'every-file-has-a-room',
      severity: 'error',
      from: { path: '^src/', pathNot: below.map(pathOf) },
      to: {},
    },
    {
      name: 'no-index',
      comment:
        'Import the file that declares a name. A list of re-exports adds a step for a reader, and loads what is not needed.',
      severity: 'error',
      from: {},
      to: { path: '/index[.]ts$', pathNot: '^node_modules/' },
    },
    {
      name: 'no-circle',
      severity: 'error',
      from: { path: '^src/' },
      to: { circular: true },
    },
    {
      name: 'traces-on-demand',
      comment: 'Where requests are not traced, nothing of OpenTelemetry is loaded: import types, or call import().',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/tracing/' },
      to: { path: '^src/tracing/', dynamic: false, dependencyTypesNot: ['type-only'] },
    },
    { name: 'tests-without-benchmarks', severity: 'error', from: { path: '^test/' }, to: { path: '^bench/' } },
    {
      name: 'nothing-that-users-lack',
      comment: 'the npm package comes without devDependencies',
      severity: 'error',
      from: { path: '^src/', pathNot: '[.]test[.]ts$' },
      to: { dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown'], dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'sources-without-scripts',
      severity: 'error',
      from: { path: '^src/', pathNot: '[.]test[.]ts$' },
      to: { path: '^(scripts|test|bench)/' },
    },
  ],
  options: { tsPreCompilationDeps: true, doNotFollow: { path: 'node_modules' }, exclude: { path: '^node_modules' } },
}
