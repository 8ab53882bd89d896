import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { estimateSpeed } from '../../src/catalogue/speed-estimate.ts'
import { machineSpeed } from '../../src/inference/engines/engines.ts'
import { outcomeOf, startLookout } from '../support/command-line.ts'
import { type FakeHub, startFakeHub } from '../support/fake-hub.ts'
import { GEMMA, QWEN, type RealWeights, realWeights } from '../support/real-weights.ts'

/** Published models, from the hub to their answers, as a user has them: pulled, served, asked by HTTP, and examined. */
const KEY = 'real'
const NAMES = { qwen: 'acme/Qwen2.5-Coder-0.5B-Instruct-GGUF', gemma: 'acme/gemma-3-270m-GGUF' }
type Name = keyof typeof NAMES

let hub: FakeHub
let home: string
let url: string
let server: ReturnType<typeof startLookout>

/** Why a model cannot be had, by its file. */
const missing = new Map<string, string>()
async function find(weights: RealWeights): Promise<Buffer | null> {
  try {
    return await readFile(await realWeights(weights))
  } catch (error) {
    const lines = (error as Error).message.split('\n')
    missing.set(weights.file, lines.find((line) => line.startsWith('ERROR')) ?? lines[0]!)
    return null
  }
}
const files = { qwen: await find(QWEN), gemma: await find(GEMMA) }
for (const [file, why] of missing) console.warn(`SKIPPED: the tests of ${file}, which cannot be fetched: ${why}`)

const environment = () => ({
  HF_HOME: join(home, 'hf'),
  HF_ENDPOINT: hub.url,
  LOOKOUT_DATA_DIR: join(home, 'data'),
  LOOKOUT_API_KEY: KEY,
  LOOKOUT_PORT: '0',
  LOOKOUT_LOG_LEVEL: 'warn',
  LOOKOUT_RATE_LIMITS: 'off',
  // Allows forced calls.
  LOOKOUT_COMPATIBILITY: 'openai',
  LOOKOUT_BACKEND: process.env.LOOKOUT_BACKEND ?? '',
})
const lookout = (...args: string[]) => outcomeOf(startLookout(args, environment()))

beforeAll(async () => {
  if (missing.size === 2) return
  home = await mkdtemp(join(tmpdir(), 'lookout-real-'))
  hub = await startFakeHub()
  for (const [name, weights] of [
    ['qwen', QWEN],
    ['gemma', GEMMA],
  ] as const) {
    if (files[name] === null) continue
    hub.repositories.set(NAMES[name], new Map([[weights.file, files[name]]]))
    const pulled = await lookout('pull', NAMES[name])
    expect(pulled, pulled.stderr).toMatchObject({ code: 0 })
  }
  server = startLookout(['serve'], environment())
  let printed = ''
  server.stderr!.resume()
  for await (const piece of server.stdout!.iterator({ destroyOnReturn: false })) {
    printed += piece
    url = /listens on (\S+)/.exec(printed)?.[1] ?? ''
    if (url !== '') break
  }
  expect(url).not.toBe('')
})

afterAll(async () => {
  if (missing.size === 2) return
  server?.kill('SIGTERM')
  if (server?.exitCode === null) await once(server, 'exit')
  await hub?.[Symbol.asyncDispose]()
  await rm(home, { recursive: true, force: true })
})

interface Delta {
  readonly content?: string | null
  readonly tool_calls?: readonly {
    readonly id: string
    readonly function: { readonly name: string; readonly arguments: string }
  }[]
}

interface Reply {
  readonly choices: readonly { readonly message: Delta; readonly finish_reason: string }[]
  readonly usage: { readonly completion_tokens: number }
}

async function post(path: string, body: object): Promise<Response> {
  const response = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error(await response.text())
  return response
}

const idOf = (name: Name) => `${NAMES[name]}:Q4_K_M`

async function chat(name: Name, question: string | object[], fields: object = {}) {
  const messages = typeof question === 'string' ? [{ role: 'user', content: question }] : question
  const body = { model: idOf(name), messages, temperature: 0, max_tokens: 100, ...fields }
  const response = await post('/v1/chat/completions', body)
  return (await response.json()) as Reply
}

/** The texts of a stream, and why it ended. */
async function streamed(name: Name, question: string, fields: object = {}) {
  const messages = [{ role: 'user', content: question }]
  const body = { model: idOf(name), messages, temperature: 0, max_tokens: 100, stream: true, ...fields }
  const response = await post('/v1/chat/completions', body)
  const events = (await response.text()).split('\n\n').flatMap((event) => /^data: (\{.*)/.exec(event)?.[1] ?? [])
  const choices = events.flatMap(
    (event) => JSON.parse(event).choices as { delta: Delta; finish_reason: string | null }[],
  )
  return {
    pieces: choices.flatMap(({ delta }) => delta.content ?? []),
    finish: choices.findLast(({ finish_reason }) => finish_reason !== null)?.finish_reason,
    fields: new Set(choices.flatMap(({ delta }) => Object.keys(delta))),
  }
}

async function probabilityOf(name: Name, claim: string): Promise<number> {
  const questions = [{ type: 'predicate', instructions: claim }]
  const response = await post('/v1/decisions', { model: idOf(name), input: 'Geography.', questions })
  const { answers } = (await response.json()) as { answers: { probability: number }[] }
  return answers[0]!.probability
}

interface Report {
  readonly ok: boolean
  readonly findings: readonly { readonly check: string; readonly verdict: string; readonly finding: string }[]
}

async function examined(name: Name): Promise<Map<string, Report['findings'][number]>> {
  const { stdout } = await lookout('doctor', idOf(name), '--json')
  const { findings } = JSON.parse(stdout) as Report
  return new Map(findings.map((finding) => [finding.check, finding]))
}

/** Prints what the catalogue would say of the model's speed here beside what the doctor measured. A busy machine may miss both. */
async function tellSpeed({ file, bytes }: RealWeights, parameters: number, measured: string | undefined) {
  const speed = await machineSpeed({ dataDirectory: join(home, 'data'), backend: 'cpu' })
  if (speed === null) return
  const { tokensPerSecond, promptTokensPerSecond } = estimateSpeed({ bytes, parameters }, speed)
  const estimated = `prompt ${promptTokensPerSecond.toFixed(0)} tokens/s; decode ${tokensPerSecond.toFixed(0)} tokens/s`
  console.info(`${file}: estimated: ${estimated}. Measured: ${measured}`)
}

const CITY = {
  type: 'object',
  properties: {
    city: { type: 'string', maxLength: 20 },
    country: { enum: ['France', 'Italy', 'Japan'] },
    isCapital: { type: 'boolean' },
  },
  required: ['city', 'country', 'isCapital'],
  additionalProperties: false,
}
const asCity = { response_format: { type: 'json_schema', json_schema: { name: 'city', schema: CITY, strict: true } } }

describe.skipIf(files.qwen === null)(QWEN.file, () => {
  test.each([
    ['What is the capital of France?', /\bParis\b/],
    ['What is 7 + 5? Answer with the number only.', /^12\.?$/],
    ['Which planet do we live on? Answer in one word.', /^Earth\.?$/],
    ['Write a Python function that adds two numbers.', /def \w+\(.*\):\s+[\s\S]*return /],
  ])('answers %j', async (question, answer) => {
    const { choices } = await chat('qwen', question, { max_tokens: 200 })
    expect(choices[0]!.message.content).toMatch(answer)
    // The mark that ends a turn ends the reply and is not in it; a model that does not think shows no thoughts.
    expect(choices[0]).toMatchObject({ finish_reason: expect.stringMatching(/^(stop|length)$/) })
    expect(choices[0]!.message).not.toHaveProperty('reasoning_content')
    expect(choices[0]!.message.content).not.toContain('<|im_')
  })

  test('ends a reply by itself', async () => {
    const { choices, usage } = await chat('qwen', 'What is the capital of France?')
    expect(choices[0]!.finish_reason).toBe('stop')
    expect(usage.completion_tokens).toBeLessThan(20)
  })

  test('follows the system text and the turns before', async () => {
    const { choices } = await chat('qwen', [
      { role: 'system', content: 'You answer in one word.' },
      { role: 'user', content: 'My name is Ada. What is the capital of Italy?' },
      { role: 'assistant', content: 'Rome' },
      { role: 'user', content: 'What is my name?' },
    ])
    expect(choices[0]!.message.content).toMatch(/\bAda\b/)
  })

  test('a stream says what the whole reply says', async () => {
    const question = 'Name three colours.'
    const { pieces, finish, fields } = await streamed('qwen', question)
    const { choices } = await chat('qwen', question)
    expect(pieces.length).toBeGreaterThan(3)
    expect(pieces.join('')).toBe(choices[0]!.message.content)
    expect(finish).toBe(choices[0]!.finish_reason)
    expect(fields).not.toContain('reasoning_content')
  })

  test('a JSON schema gives what it asks for', async () => {
    const { choices } = await chat('qwen', 'Describe Paris as JSON.', asCity)
    expect(JSON.parse(choices[0]!.message.content!)).toEqual({ city: 'Paris', country: 'France', isCapital: true })
  })

  test('calls a tool with the right arguments, and reads its result', async () => {
    const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
    const description = 'The weather of a city now.'
    const tools = [{ type: 'function', function: { name: 'get_weather', description, parameters } }]
    const question = { role: 'user', content: 'What is the weather in Paris?' }
    const { choices } = await chat('qwen', [question], { tools, tool_choice: 'required' })
    const { message, finish_reason } = choices[0]!
    expect(finish_reason).toBe('tool_calls')
    expect(message.tool_calls).toHaveLength(1)
    expect(message.tool_calls![0]!.function.name).toBe('get_weather')
    expect(JSON.parse(message.tool_calls![0]!.function.arguments)).toEqual({ city: 'Paris' })
    const result = { role: 'tool', tool_call_id: message.tool_calls![0]!.id, content: '17 degrees, light rain' }
    // With the tools before it, this small model goes on calling.
    const answer = await chat('qwen', [question, message, result])
    expect(answer.choices[0]!.message.content).toMatch(/17|rain/)
  })

  test('finds true claims likelier than false ones', async () => {
    const paris = await probabilityOf('qwen', 'Is Paris a city in France?')
    expect(paris).toBeGreaterThan(0.5)
    expect(paris).toBeGreaterThan(await probabilityOf('qwen', 'Is Paris a city in Japan?'))
  })

  test('the doctor says what is true of it', async () => {
    const findings = await examined('qwen')
    const verdicts = Object.fromEntries([...findings.values()].map(({ check, verdict }) => [check, verdict]))
    expect(verdicts).toMatchObject({
      template: 'ok',
      images: 'skipped',
      coordinates: 'skipped',
      'forced call': 'ok',
      thinking: 'skipped',
      'JSON schema': 'ok',
      speed: 'measured',
    })
    await tellSpeed(QWEN, 494e6, findings.get('speed')?.finding)
  })
})

describe.skipIf(files.gemma === null)(GEMMA.file, () => {
  const shots = ['Italy Rome', 'Spain Madrid', 'Japan Tokyo'].flatMap((pair) => {
    const [country, capital] = pair.split(' ')
    return [
      { role: 'user', content: `Capital of ${country}` },
      { role: 'assistant', content: capital },
    ]
  })

  test('goes on as the turns before it, which is all that it was trained for', async () => {
    const { choices } = await chat('gemma', [...shots, { role: 'user', content: 'Capital of France' }])
    expect(choices[0]!.message.content).toMatch(/^Paris/)
    expect(choices[0]!.message).not.toHaveProperty('reasoning_content')
  })

  test('a reply ends at a stop text, which is not in it', async () => {
    const { choices } = await chat('gemma', 'The capital of France is', { stop: ['France'] })
    expect(choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: 'The capital of ' } })
  })

  test('a stream says what the whole reply says', async () => {
    const { pieces } = await streamed('gemma', 'The sea is')
    const { choices } = await chat('gemma', 'The sea is')
    expect(pieces.join('')).toBe(choices[0]!.message.content)
  })

  test('a JSON schema gives what it asks for', async () => {
    const { choices } = await chat('gemma', 'Describe Paris as JSON.', asCity)
    expect(JSON.parse(choices[0]!.message.content!)).toMatchObject({ city: 'Paris', country: 'France' })
  })

  test('the doctor says what is true of it: a model for text, without tools', async () => {
    const findings = await examined('gemma')
    const verdicts = Object.fromEntries([...findings.values()].map(({ check, verdict }) => [check, verdict]))
    expect(verdicts).toMatchObject({ template: 'ok', images: 'skipped', 'tool calls': 'skipped', thinking: 'skipped' })
    // Larger models of Gemma 3 see; this one has no encoder to look for.
    expect(verdicts).not.toHaveProperty('files')
    await tellSpeed(GEMMA, 268e6, findings.get('speed')?.finding)
  })
})
