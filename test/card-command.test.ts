import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { add } from '../src/commands/models/add.ts'
import { card as cardCommand } from '../src/commands/models/card.ts'
import { models as modelsCommand } from '../src/commands/models/models.ts'
import { type Outcome, outcomeHere, outcomeOf, startLookout } from './support/command-line.ts'
import { CARD } from './support/local-engine.ts'
import { writeHeader } from './support/model-header.ts'
import { ModelStore } from './support/model-store.ts'

const directory = await mkdtemp(join(tmpdir(), 'lookout-card-'))
afterAll(() => rm(directory, { recursive: true }))

const COMMANDS = { add, card: cardCommand, models: modelsCommand } as const

function lookout(
  [name, ...args]: readonly [keyof typeof COMMANDS, ...string[]],
  environment: Record<string, string> = {},
): Promise<Outcome> {
  return outcomeHere(COMMANDS[name], args, environment)
}

const MODEL = {
  'general.architecture': 'qwen3vl',
  'general.name': 'Some Model',
  'general.file_type': 15,
  'qwen3vl.context_length': 4096,
  'qwen3vl.embedding_length': 64,
  'tokenizer.ggml.tokens': ['a', '<start_of_turn>', '<end_of_turn>'],
}
const ENCODER = { 'clip.has_vision_encoder': true, 'clip.vision.projection_dim': 64 }

test('card show: a table of a model in the settings, by id or alias', async () => {
  const environment = { LOOKOUT_ALIASES: 'gpt-4o=service-mk1' }
  const [byId, byAlias] = await Promise.all([
    outcomeOf(startLookout(['card', 'show', 'service-mk1.5'], environment)),
    outcomeOf(startLookout(['card', 'show', 'gpt-4o', '--json'], environment)),
  ])
  expect(byId).toMatchObject({ code: 0, stderr: '' })
  const lines = byId.stdout.split('\n').map((line) => line.split(/ {2,}/))
  expect(lines[0]).toEqual(['field', 'value', 'from'])
  expect(lines).toContainEqual(['license', 'MIT', 'card'])
  expect(lines).toContainEqual(['dialect', 'markup', 'family lookout'])
  expect(lines).toContainEqual(['thought.begin', '"<think>\\n"', 'family'])
  expect(byId.stdout).toMatch(/\nSize: 18\.\d MiB\. Memory: about \d+\.\d MiB\.\n$/)
  const json = JSON.parse(byAlias.stdout)
  expect(json).toMatchObject({ file: CARD, card: { name: 'Lookout Nano' }, warnings: [] })
  expect(json.origins).toMatchObject({ dialect: 'family lookout', 'serves[1].id': 'card' })
})

test('add: says what a model is served without', async () => {
  const folder = await mkdtemp(join(directory, 'added-'))
  const [model, encoder] = [join(folder, 'm.gguf'), join(folder, 'e.gguf')]
  const shape = { 'qwen3vl.block_count': 2, 'qwen3vl.attention.head_count': 4, 'qwen3vl.attention.head_count_kv': 2 }
  await writeHeader(model, { ...MODEL, ...shape })
  await writeHeader(encoder, { ...ENCODER, 'general.architecture': 'clip', 'clip.projector_type': 'no-such' })
  const { code, stdout, stderr } = await lookout(['add', model, '--mmproj', encoder], { LOOKOUT_DATA_DIR: folder })
  expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringMatching(/^m is ready\n/) })
  expect(stderr).toMatch(
    /the image projector 'no-such' .+ is unknown to llama\.cpp .+: the model is served text only\n/,
  )
})

test('card show: what is derived for weights alone, with warnings on standard error', async () => {
  const file = join(directory, 'some-Q4_K_M.gguf')
  await writeHeader(file, MODEL)
  await writeHeader(join(directory, 'mmproj-some.gguf'), { ...ENCODER, 'clip.projector_type': 'no-such' })
  const { code, stdout, stderr } = await lookout(['card', 'show', file])
  expect(code).toBe(0)
  const lines = stdout.split('\n').map((line) => line.split(/ {2,}/))
  expect(lines).toContainEqual(['name', 'Some Model', 'general.name'])
  expect(lines).toContainEqual(['serves[0].id', 'some-Q4_K_M', "the file's name"])
  expect(lines).toContainEqual(['serves[0].modalities', 'text', 'the encoders'])
  expect(lines).toContainEqual(['engine.contextTokens', '4096', 'qwen3vl.context_length'])
  expect(lines).toContainEqual(['engine.chatTemplate', 'built-in:gemma', 'the vocabulary'])
  expect(stderr.trim().split('\n')).toEqual([
    expect.stringMatching(/^lookout: Model card .+: engine\.projector: the image projector 'no-such' .+ text only$/),
    expect.stringMatching(
      /^lookout: Model card .+: engine\.chatTemplate: the model has no chat template of its own: .+$/,
    ),
  ])

  const listed = await lookout(['models'], { LOOKOUT_MODEL_CARD: file })
  expect(listed.stdout).toMatch(/^some-Q4_K_M +Some Model +\d+ (B|KiB) +- +Q4_K_M +\d+\.\d MiB +4096 +at start /m)
})

test('card show and models: say what a model lacks that takes images', async () => {
  const folder = await mkdtemp(join(directory, 'lacking-'))
  const file = join(folder, 'seer.gguf')
  await writeHeader(file, MODEL)
  const message =
    /engine\.projector: Models of .+ take images, but the model's files hold no encoder for that\. Name the file/
  const shown = await lookout(['card', 'show', file, '--json'])
  expect(JSON.parse(shown.stdout).warnings).toContainEqual(expect.stringMatching(message))
  expect((await lookout(['models'], { LOOKOUT_MODEL_CARD: file })).stderr).toMatch(message)
  const card = join(folder, 'card.json')
  await writeFile(card, JSON.stringify({ engine: { model: file }, serves: [{ modalities: ['text'] }] }))
  expect((await lookout(['card', 'show', card])).stderr).not.toMatch(message)
})

const card = (change: object) => ({ ...{ engine: { model: 'model.gguf', projector: 'encoder.gguf' } }, ...change })
test.each<[string, object, RegExp]>([
  [
    'a missing file',
    card({ engine: { model: 'none.gguf' } }),
    /: engine\.model: the file .+none\.gguf does not exist$/,
  ],
  [
    'a broken file',
    card({ engine: { model: 'broken.gguf' } }),
    /: engine\.model: cannot read .+broken\.gguf: the file is not a GGUF file$/,
  ],
  ['a projector of another model', card({}), /: engine\.projector: .+encoder\.gguf does not belong to .+model\.gguf: /],
  [
    'weights in place of an encoder',
    card({ engine: { model: 'model.gguf', projector: 'model.gguf' } }),
    /: engine\.projector: .+ does not belong to .+: it is no image or audio encoder; its architecture is 'llama'$/,
  ],
  [
    'a promise that the card cannot keep',
    card({ serves: [{ id: 'a', capabilities: ['tool_calling'] }], dialect: null, engine: { model: 'model.gguf' } }),
    /: serves\[0\]\.capabilities: 'tool_calling' needs 'toolSyntax' in the card/,
  ],
  [
    'tools that the template does not render',
    card({ toolSyntax: 'hermes', engine: { model: 'model.gguf' } }),
    /: engine\.chatTemplate: the card has a 'toolSyntax', but the chat template does not render tools/,
  ],
])('%s is said in one line', async (_name, content, message) => {
  await writeHeader(join(directory, 'model.gguf'), {
    ...MODEL,
    'general.architecture': 'llama',
    'llama.context_length': 512,
    'llama.embedding_length': 64,
  })
  await writeHeader(join(directory, 'encoder.gguf'), {
    ...ENCODER,
    'clip.vision.projection_dim': 128,
    'clip.projector_type': 'internvl',
  })
  await writeFile(join(directory, 'broken.gguf'), 'no model')
  const file = join(directory, 'card.json')
  await writeFile(file, JSON.stringify(content))
  const shown = await lookout(['card', 'show', file])
  // The other command runs the same checks; one of each kind shows it.
  const isPromise = 'serves' in content
  const outcomes = isPromise ? [shown, await lookout(['models'], { LOOKOUT_MODEL_CARD: file })] : [shown]
  for (const { code, stderr } of outcomes) {
    const last = stderr.trimEnd().split('\n').at(-1)
    expect(code).toBe(1)
    expect(last).toMatch(/^lookout: Model card .+card\.json: /)
    expect(last).toMatch(message)
  }
})

test.each<[['card', ...string[]], RegExp]>([
  [['card'], /expected card show/],
  [['card', 'show'], /MODEL is missing/],
  [
    ['card', 'show', 'no-such'],
    /'no-such' is neither a file nor a model; the models are service-mk1\.5, service-mk1\n$/,
  ],
  [['card', 'show', dirname(dirname(CARD)), 'b'], /'b' is one argument too many/],
])('%j is refused in one line', async (args, message) => {
  const { code, stdout, stderr } = await lookout(args)
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toMatch(/^lookout: [^\n]+\n$/)
  expect(stderr).toMatch(message)
})

test('models and card show say of a stored model that ended its reader what is wrong, and show the others', async () => {
  const data = await mkdtemp(join(directory, 'data-'))
  const store = new ModelStore(data)
  const values = { ...MODEL, 'qwen3vl.block_count': 2, 'qwen3vl.attention.head_count': 2 }
  await store.putHeader('good', values)
  const template = `{% set ns = namespace(a=[0]) %}{% for i in range(64) %}{% set ns.a = ns.a + ns.a %}{% endfor %}{{ messages }}`
  await store.putHeader('hostile', { ...values, 'tokenizer.chat_template': template })
  // Each in a process of its own, which knows only what is kept.
  const run = (args: readonly string[]) => outcomeOf(startLookout(args, { LOOKOUT_DATA_DIR: data }))
  const problem =
    /hostile.card\.json: engine\.chatTemplate: the chat template cannot be used: it (needs|takes) more than/
  const json = await run(['models', '--json'])
  expect(json.code).toBe(0)
  const models: { ids: string[]; problem: string | null }[] = JSON.parse(json.stdout)
  expect(models.map(({ ids }) => ids[0])).toEqual(['service-mk1.5', 'good', 'hostile'])
  expect(models.map((model) => model.problem)).toEqual([null, null, expect.stringMatching(problem)])
  // It is not read again.
  const again =
    /hostile.card\.json: reading its files ended a process at 2.*It is read again when one of its files changes/
  const table = await run(['models'])
  expect(table).toMatchObject({ code: 0, stderr: expect.stringMatching(again) })
  expect(table.stdout).toMatch(/^hostile .* not served /m)
  expect(await run(['card', 'show', 'hostile'])).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(again),
  })
})

test('what a model’s template says does not control the terminal', async () => {
  const data = await mkdtemp(join(directory, 'data-'))
  const template = "{{ raise_exception('no\u001b[2J\u0007') }}"
  await new ModelStore(data).putHeader('loud', { ...MODEL, 'tokenizer.chat_template': template })
  const { stderr } = await lookout(['card', 'show', 'loud'], { LOOKOUT_DATA_DIR: data })
  expect(stderr).toContain('no\ufffd[2J\ufffd')
  expect(stderr).not.toMatch(/[^\P{Cc}\n]/u)
})
