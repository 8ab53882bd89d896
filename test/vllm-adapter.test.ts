/** The adapter to vLLM, with recorded streams of a real server (test/vllm/recording.test.ts). */
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startRemoteEngine } from '../src/inference/remote/start.ts'
import { loadCard, remoteCard } from '../src/models/card.ts'
import { outcomeOf, startLookout } from './support/command-line.ts'
import { countTokens, untrusted } from './support/local-engine.ts'
import { errorOf, jsonOf, startTestServer, type TestServer } from './support/server.ts'
import { ID, writeVllmCard } from './support/vllm/card.ts'
import { type Exchange, Player } from './support/vllm/recording.ts'
import { type Answer, SCENARIOS } from './support/vllm/scenarios.ts'

const recorded: readonly Exchange[] = JSON.parse(
  await readFile(new URL('support/vllm/recorded.json', import.meta.url), 'utf8'),
)
const HEALTH = { intervalMs: 50, answerMs: 5_000 }
const [hello] = SCENARIOS
const decisions = SCENARIOS.find(({ name }) => name === 'decisions')!
const aPicture = SCENARIOS.find(({ name }) => name === 'a picture')!

let folder: string
let model: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lookout-vllm-'))
  model = join(folder, 'model')
  const { code, stderr } = await outcomeOf(startLookout(['export-hf', model]))
  expect(stderr).toBe('')
  expect(code).toBe(0)
})
afterAll(() => rm(folder, { recursive: true }))

async function serve(urls: readonly string[], engine: object = {}, options: object = {}): Promise<TestServer> {
  const card = await writeVllmCard(folder, urls, { model, ...engine })
  return startTestServer({
    startEngine: (card, { maxWaiting, onRestart, ...given }) => {
      const { logger } = given
      return startRemoteEngine(remoteCard(card), { maxWaiting, onRestart, logger, health: HEALTH, ...options })
    },
    environment: { LOOKOUT_MODEL_CARD: card, LOOKOUT_COMPATIBILITY: 'openai' },
  })
}

test('a text that is cut within a mark is no mark', async () => {
  // Nothing listens there. Tokens are counted here.
  const card = remoteCard(await loadCard(await writeVllmCard(folder, ['http://127.0.0.1:1'], { model })))
  const engine = await startRemoteEngine(card, { health: HEALTH })
  try {
    const count = (...texts: readonly string[]) => countTokens(engine, texts.map(untrusted))
    for (const mark of ['<think>', '</think>', '<tool_call>', '</tool_response>', '<hint>']) {
      expect(await count('a', mark, 'a')).toBe(3)
      for (const cuts of [[1], [2, 4], [mark.length - 1]]) {
        const pieces = [0, ...cuts].map((at, index) => mark.slice(at, cuts[index]))
        expect(await count('a', ...pieces, 'a'), `${pieces}`).toBeGreaterThanOrEqual(5)
      }
    }
    // Other texts are read as one.
    expect(await count('What is ', 'here', '?')).toBe(await count('What is here?'))
  } finally {
    await engine.close()
  }
})

describe('one server', () => {
  let player: Player
  let server: TestServer
  beforeAll(async () => {
    player = await Player.start(recorded)
    server = await serve([player.url], {}, { silenceMs: 2000 })
  })
  afterAll(async () => {
    await server?.close()
    await player?.[Symbol.asyncDispose]()
  })
  beforeEach(() => {
    player.completions = 0
    player.pictures = 0
    player.abandoned = 0
  })
  afterEach(() => expect(player.faults).toEqual([]))

  test.each(SCENARIOS)('$name', async ({ path, body, check }) => {
    const response = await server.post(path, body)
    expect(response.status).toBe(200)
    check(await jsonOf<Answer>(response))
  })

  test.each(SCENARIOS.filter(({ path }) => path.includes('chat')))(
    'the tokens of $name are counted without a server',
    async ({ path, body }) => {
      const { usage } = await jsonOf<Answer>(await server.post(path, body))
      player.completions = 0
      const counted = await jsonOf(await server.post(`${path}/input_tokens`, body))
      expect(counted).toMatchObject({ input_tokens: usage.prompt_tokens, estimated: false })
      expect(player.completions).toBe(0)
    },
  )

  test('the pixels of a picture are sent once, and again when the server has forgotten them', async () => {
    await server.post(aPicture.path, aPicture.body)
    player.pictures = 0
    await server.post(aPicture.path, aPicture.body)
    expect(player.pictures).toBe(0)
    const message = 'Cache miss for image at index 0 but data is not provided'
    player.faults.push({ type: 'status', status: 400, message })
    const response = await server.post(aPicture.path, aPicture.body)
    aPicture.check(await jsonOf<Answer>(response))
    expect(player.pictures).toBe(1)
  })

  test('seeds are passed on, and a stop sequence ends the request', async () => {
    const isChat = ({ asked }: Exchange) => JSON.stringify(asked).includes('sampling_params')
    const withSeed = recorded.filter(isChat).map((exchange) => {
      const asked = structuredClone(exchange.asked) as { sampling_params: object }
      return { ...exchange, asked: { ...asked, sampling_params: { ...asked.sampling_params, seed: 7 } } }
    })
    player.exchanges = [...withSeed, ...recorded]
    try {
      const whole = await jsonOf<Answer>(await server.post(hello!.path, hello!.body))
      const { content } = whole.choices[0]!.message
      const stop = content!.slice(4, 7)
      const fields = { ...hello!.body, seed: 7, stop, stream: true }
      const text = await (await server.post(hello!.path, fields)).text()
      const chunks = text.split('\n\n').filter((line) => line.startsWith('data: {'))
      const pieces = chunks.map((line) => JSON.parse(line.slice(6)).choices[0].delta.content ?? '')
      expect(pieces.join('')).toBe(content!.slice(0, content!.indexOf(stop)))
    } finally {
      player.exchanges = recorded
    }
  })

  test('streams arrive piece by piece, and their usage at the end', async () => {
    const response = await server.post(hello!.path, {
      ...hello!.body,
      stream: true,
      stream_options: { include_usage: true },
    })
    const chunks = (await response.text()).split('\n\n').filter((line) => line.startsWith('data: {'))
    expect(chunks.length).toBeGreaterThan(4)
    expect(JSON.parse(chunks.at(-1)!.slice(6)).usage.completion_tokens).toBeGreaterThan(1)
    expect(player.tokensAtOnce).toBe(null)
  })

  test.each([
    ['token_id:NUMBER', (id: number, logprob: number) => ({ token: `token_id:${id}`, logprob, bytes: null })],
    ['numbers', (id: number, logprob: number) => ({ token_id: id, logprob, rank: 1 })],
  ])('log-probabilities, which vLLM writes with %s', async (_, ranked) => {
    const { text, tokens } = await rated((id) => {
      // The chosen token comes first, here before a likelier one.
      const chosen = ranked(id, Math.log(1 / 4))
      return { ...chosen, top_logprobs: [chosen, ranked(65, Math.log(1 / 2)), ranked(66, -9999)] }
    })
    expect(Buffer.from(tokens.flatMap(({ bytes }) => bytes)).toString()).toBe(text)
    for (const token of tokens) {
      expect(token).toMatchObject({
        logprob: Math.log(1 / 4),
        top_logprobs: [{ logprob: Math.log(1 / 2) }, { bytes: token.bytes, logprob: Math.log(1 / 4) }],
      })
    }
  })

  test.each([1, 2])('a token of rank %i whose alternatives vLLM left out', async (rank) => {
    const { tokens } = await rated((id) => {
      const chosen = { token_id: id, logprob: Math.log(1 / 4), rank }
      return { ...chosen, top_logprobs: [chosen, { token_id: 0, logprob: -9999, rank: 1 }] }
    })
    for (const token of tokens) {
      expect(token.logprob).toBe(Math.log(1 / 4))
      expect(token.top_logprobs).toHaveLength(rank === 1 ? 1 : 0)
    }
  })

  interface RatedToken {
    readonly bytes: readonly number[]
    readonly logprob: number
    readonly top_logprobs: readonly object[]
  }

  /** A reply to a request for log-probabilities: the recorded stream, with what the source says is in it then. */
  async function rated(content: (id: number) => object): Promise<{ text: string; tokens: readonly RatedToken[] }> {
    const exchange = player.exchanges.find(({ answer }) => answer.includes('logprobs') && answer.startsWith('data: '))!
    const lines = exchange.answer.split('\n\n').map((line) => {
      if (!line.startsWith('data: {')) return line
      const chunk = JSON.parse(line.slice('data: '.length))
      for (const choice of chunk.choices) {
        choice.logprobs = { content: choice.token_ids.map(content) }
      }
      return `data: ${JSON.stringify(chunk)}`
    })
    const asked = exchange.asked as { sampling_params: object }
    const sampling = { ...asked.sampling_params, logprobs: 3 }
    const own = { ...exchange, asked: { ...asked, sampling_params: sampling }, answer: lines.join('\n\n') }
    player.exchanges = [own, ...recorded]
    const response = await server.post(hello!.path, { ...hello!.body, logprobs: true, top_logprobs: 2 })
    player.exchanges = recorded
    expect(response.status, await response.clone().text()).toBe(200)
    const { choices } = await jsonOf<{
      choices: { message: { content: string }; logprobs: { content: readonly RatedToken[] } }[]
    }>(response)
    return { text: choices[0]!.message.content, tokens: choices[0]!.logprobs.content }
  }

  test('log-probabilities that vLLM does not give are refused by name', async () => {
    const rated = { ...hello!.body, logprobs: true }
    player.faults.push({ type: 'status', status: 400, message: 'Requested sample logprobs of 21, which is too many' })
    const refused = await server.post(hello!.path, rated)
    expect([refused.status, (await errorOf(refused)).param]).toEqual([400, 'logprobs'])
    const exchange = player.exchanges.find(({ answer }) => answer.startsWith('data: '))!
    const asked = exchange.asked as { sampling_params: object }
    const own = { ...exchange, asked: { ...asked, sampling_params: { ...asked.sampling_params, logprobs: 0 } } }
    player.exchanges = [own, ...recorded]
    const without = await server.post(hello!.path, rated)
    player.exchanges = recorded
    expect([without.status, (await errorOf(without)).param]).toEqual([400, 'logprobs'])
    expect(server.logs.some((line) => line.includes('it sent tokens without log-probabilities'))).toBe(true)
  })

  test('a server that does not say how likely given tokens are is refused by name', async () => {
    // As one that does not know `logprob_token_ids`: it tells the likeliest tokens.
    player.exchanges = recorded.map((exchange) => {
      if (!JSON.stringify(exchange.asked).includes('logprob_token_ids')) return exchange
      return { ...exchange, answer: exchange.answer.replace(/"top_logprobs":\[[^\]]*\]/g, '"top_logprobs":[]') }
    })
    const response = await server.post(decisions.path, decisions.body)
    player.exchanges = recorded
    expect(response.status).toBe(400)
    expect(await errorOf(response)).toMatchObject({
      param: 'model',
      message: 'This model cannot answer decisions: it does not give log-probabilities',
    })
    expect(server.logs.some((line) => line.includes('it does not know logprob_token_ids'))).toBe(true)
  })

  test('one question of several that fails is refused alone', async () => {
    const { questions } = decisions.body as { questions: object[] }
    const [there, colour] = questions
    player.faults.push({ type: 'status', status: 400, message: 'No.' })
    const response = await server.post(decisions.path, { ...decisions.body, questions: [there, colour] })
    const { answers } = await jsonOf<{ answers: { type: string }[] }>(response)
    expect(answers.map(({ type }) => type)).toEqual(['refusal', 'choice'])
  })

  test('a reply that is read as a whole may come in larger pieces, and the tokens of its thought are counted', async () => {
    const { path, body } = SCENARIOS.find(({ name }) => name.startsWith('a thought'))!
    const ask = async (exchanges: readonly Exchange[]) => {
      player.exchanges = exchanges
      const { choices, usage } = await jsonOf<Answer>(await server.post(path, body))
      expect(player.tokensAtOnce).toBeGreaterThan(1)
      return { choices, usage }
    }
    const larger = await ask(recorded.map((exchange) => ({ ...exchange, answer: inLargerPieces(exchange.answer) })))
    expect(larger.usage.completion_tokens_details.reasoning_tokens).toBeGreaterThan(3)
    expect(larger).toEqual(await ask(recorded))
  })

  /** A stream of one completion, up to eight tokens of which come together. */
  function inLargerPieces(answer: string): string {
    const lines: string[] = []
    let before: readonly number[] = []
    for (const line of answer.split('\n\n')) {
      const chunk = line.startsWith('data: {') ? JSON.parse(line.slice('data: '.length)) : null
      const tokens: number[] = [...before, ...(chunk?.choices[0]?.token_ids ?? [])]
      const isLonger = before.length > 0 && before.length < tokens.length && tokens.length <= 8
      if (isLonger) {
        lines.pop()
        chunk.choices[0].token_ids = tokens
      }
      lines.push(chunk === null ? line : `data: ${JSON.stringify(chunk)}`)
      before = chunk?.choices[0]?.token_ids ?? []
    }
    return lines.join('\n\n')
  }

  test('a reply does not wait for the end of its stream, whose connection the next request has', async () => {
    player.holdsEnds = true
    const { connections } = player
    for (let request = 0; request < 5; request++) {
      expect((await server.post(hello!.path, hello!.body)).status).toBe(200)
      player.endStreams()
    }
    player.holdsEnds = false
    // The checks of its health may need one of their own.
    expect(player.connections - connections).toBeLessThan(3)
  })

  test.each([
    ['a failure', 500, 503, /has failed/],
    ['no room', 503, 503, /overloaded/],
    ['a redirect', 307, 503, /has failed/],
    ['a conflict', 409, 503, /has failed/],
  ])('%s before the first token is tried once more, and then told', async (_, status, told, message) => {
    const fault = { type: 'status', status, message: 'The engine is dead.' } as const
    player.faults.push(fault)
    expect((await server.post(hello!.path, hello!.body)).status).toBe(200)
    player.faults.push(fault, fault)
    const response = await server.post(hello!.path, hello!.body)
    expect(response.status).toBe(told)
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(await errorOf(response)).toMatchObject({ code: 'model_overloaded', message: expect.stringMatching(message) })
  })

  test.each(['cut', 'end', 'abort'] as const)(
    'a stream that breaks off (%s) after its first token is not repeated',
    async (type) => {
      player.faults.push({ type, lines: 1 })
      const response = await server.post(hello!.path, hello!.body)
      expect(response.status).toBe(503)
      expect(player.completions).toBe(1)
    },
  )

  test('a stream that falls silent is given up', async () => {
    player.faults.push({ type: 'silence', lines: 3 })
    expect((await server.post(hello!.path, hello!.body)).status).toBe(503)
  })

  test('a request that vLLM refuses is a fault of this server, and its words are not shown', async () => {
    player.faults.push({ type: 'status', status: 400, message: 'secret words' })
    const response = await server.post(hello!.path, hello!.body)
    expect(response.status).toBe(500)
    expect(JSON.stringify(await errorOf(response))).not.toContain('secret')
  })

  test('a constraint that vLLM cannot follow is named', async () => {
    const schema = SCENARIOS.find(({ name }) => name === 'a schema')!
    player.faults.push({ type: 'status', status: 400, message: 'Failed to compile the grammar' })
    const response = await server.post(schema.path, schema.body)
    expect(response.status).toBe(400)
    expect(await errorOf(response)).toMatchObject({ code: 'invalid_response_format' })
  })

  test('a client that leaves ends its stream on the server', async () => {
    const server = await serve([player.url])
    try {
      player.faults.push({ type: 'silence', lines: 3 })
      const leaving = new AbortController()
      const response = await fetch(`${server.url}${hello!.path}`, {
        method: 'POST',
        headers: { authorization: 'Bearer test-key', 'content-type': 'application/json' },
        body: JSON.stringify({ ...hello!.body, stream: true }),
        signal: leaving.signal,
      })
      await response.body!.getReader().read()
      leaving.abort()
      await expect.poll(() => player.abandoned).toBe(1)
    } finally {
      await server.close()
    }
  })

  test.each([['audio', { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }, /audio/i]])(
    '%s is refused by name',
    async (_, part, message) => {
      const messages = [{ role: 'user', content: [part, { type: 'text', text: 'What is it?' }] }]
      const response = await server.post('/v1/chat/completions', { model: ID, messages })
      expect(response.status).toBe(400)
      expect((await errorOf(response)).message).toMatch(message)
    },
  )

  test('a prompt that does not fit is refused with both numbers', async () => {
    const messages = [{ role: 'user', content: 'one two three '.repeat(4000) }]
    const response = await server.post('/v1/chat/completions', { model: ID, messages })
    expect(response.status).toBe(400)
    expect((await errorOf(response)).message).toMatch(/8192/)
  })
})

describe('two servers', () => {
  test('one that has become another model gets no more work', async () => {
    await using first = await Player.start(recorded)
    await using second = await Player.start(recorded)
    const server = await serve([first.url, second.url])
    try {
      const ask = () => server.post(hello!.path, hello!.body)
      expect((await ask()).status).toBe(200)
      const [used, other] = first.completions > 0 ? [first, second] : [second, first]
      const answer = JSON.stringify({ data: [{ id: 'another', max_model_len: 8192 }] })
      used.exchanges = recorded.map((one) => (one.path === '/v1/models' ? { ...one, answer } : one))
      used.faults.push({ type: 'status', status: 404, message: 'The model does not exist.' })
      expect((await ask()).status).toBe(200)
      await expect.poll(() => server.logs.some((line) => line.includes("serves 'another'"))).toBe(true)
      expect((await ask()).status).toBe(200)
      expect([used.completions, other.completions]).toEqual([2, 2])
    } finally {
      await server.close()
    }
  })

  test('one that is lost costs only what it had begun, and it is used again when it is back', async () => {
    await using first = await Player.start(recorded)
    await using second = await Player.start(recorded)
    const server = await serve([first.url, second.url])
    try {
      const ask = () => server.post(hello!.path, hello!.body)
      expect((await ask()).status).toBe(200)
      // The same request always goes to the same one.
      const [used, other] = first.completions > 0 ? [first, second] : [second, first]
      expect((await ask()).status).toBe(200)
      expect([used.completions, other.completions]).toEqual([2, 0])
      used.faults.push({ type: 'silence', lines: 3 })
      const begun = ask()
      await expect.poll(() => used.completions).toBe(3)
      used.isHealthy = false
      expect((await begun).status).toBe(503)
      const answers = await Promise.all([ask(), ask(), ask()])
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
      expect(other.completions).toBe(3)
      used.isHealthy = true
      await expect
        .poll(async () => {
          await ask()
          return used.completions
        })
        .toBeGreaterThan(3)
    } finally {
      await server.close()
    }
  })

  test('none at all is 503 with a time, and the service is not ready', async () => {
    await using player = await Player.start(recorded)
    player.isHealthy = false
    const server = await serve([player.url])
    try {
      expect((await server.get('/readyz')).status).toBe(503)
      const response = await server.post(hello!.path, hello!.body)
      expect(response.status).toBe(503)
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
      player.isHealthy = true
      await expect.poll(async () => (await server.get('/readyz')).status).toBe(200)
      expect((await server.post(hello!.path, hello!.body)).status).toBe(200)
    } finally {
      await server.close()
    }
  })
})

test.each([
  ['the card names', 8192],
  ['the folder says', undefined],
])('a context that its settings extend is served, where %s it', async (_, contextTokens) => {
  const tokenizer = join(folder, 'extended')
  await cp(model, tokenizer, { recursive: true })
  const config = JSON.parse(await readFile(join(model, 'config.json'), 'utf8'))
  const scaling = { rope_type: 'yarn', factor: 4, original_max_position_embeddings: 2048 }
  const extended = { ...config.text_config, max_position_embeddings: 2048, rope_scaling: scaling }
  await writeFile(join(tokenizer, 'config.json'), JSON.stringify({ ...config, text_config: extended }))
  await using player = await Player.start(recorded)
  const server = await serve([player.url], { tokenizer, contextTokens })
  try {
    const { data } = (await (await server.get('/v1/models?extended=true')).json()) as { data: { id: string }[] }
    expect(data.find(({ id }) => id === ID)).toMatchObject({ max_context_tokens: 8192 })
  } finally {
    await server.close()
  }
})

describe('a card is refused', () => {
  const models = { method: 'GET', path: '/v1/models', asked: null, status: 200 }
  const health = { method: 'GET', path: '/health', asked: null, status: 200, answer: '' }
  const start = async (url: string, engine: object = {}) =>
    startRemoteEngine(remoteCard(await loadCard(await writeVllmCard(folder, [url], { model, ...engine }))))

  test('for a server with another model', async () => {
    const answer = JSON.stringify({ data: [{ id: 'another', max_model_len: 8192 }] })
    await using player = await Player.start([health, { ...models, answer }])
    await expect(start(`${player.url}/v1/`)).rejects.toThrow(
      /engine\.urls: .* it serves 'another', not 'lookout-nano'$/,
    )
  })

  test('for a server with less context', async () => {
    const answer = JSON.stringify({ data: [{ id: 'lookout-nano', max_model_len: 4096 }] })
    await using player = await Player.start([health, { ...models, answer }])
    await expect(start(player.url)).rejects.toThrow(/it takes 4096 tokens \(--max-model-len\)/)
  })

  test('for a server with another tokenizer', async () => {
    const other = recorded.map((one) =>
      one.path === '/tokenize' ? { ...one, answer: JSON.stringify({ tokens: [1, 2, 3] }) } : one,
    )
    await using player = await Player.start(other)
    await expect(start(player.url)).rejects.toThrow(/its tokenizer is not the one in the card's engine\.tokenizer$/)
  })

  test('for a key that is not there', async () => {
    await using player = await Player.start(recorded)
    const variable = 'LOOKOUT_TEST_NO_SUCH_KEY'
    await expect(start(player.url, { apiKeyEnv: variable })).rejects.toThrow(`engine.apiKeyEnv: ${variable} is not set`)
  })

  test('for a folder without a tokenizer', async () => {
    await expect(start('http://127.0.0.1:1', { model: folder })).rejects.toThrow(
      /engine\.tokenizer: the folder .* has no config\.json$/,
    )
  })
})
