/** Chats beside a running batch: what the batch costs them, and how many pictures it gets through. */
import { setTimeout as delay } from 'node:timers/promises'
import { type Benchmark, type BenchOptions, print } from './support/benchmark.ts'
import { type ChatResult, chat, post } from './support/chat.ts'
import { type BenchModel, prepareModel } from './support/models.ts'
import { FreshText } from './support/prompts.ts'
import { type BenchServer, startLookout } from './support/server.ts'
import { median, medianRatio, percentile, spread } from './support/statistics.ts'
import { table } from './support/table.ts'

const CHAT_WORDS = 20
const CHAT_TOKENS = 32
const LINE_TOKENS = 24
const PICTURES = 1_000
/** Pictures that differ. Each line has its own: the later ones of a round say so in words. */
const DIFFERENT = 40
/** Mean time between chats, as a part of what a chat alone takes: a server that is busy with chats half of the time. */
const CHAT_PAUSE = 2

interface Round {
  readonly alone: readonly ChatResult[]
  readonly beside: readonly ChatResult[]
  /** Pictures a minute of the batch beside chats. */
  readonly pictures: number
}

export const batches: Benchmark = {
  summary: 'chats beside a running batch of pictures: their times with and without, and pictures per minute',
  withPeer: false,

  async run(options) {
    for (const name of options.models) {
      const model = await prepareModel(name)
      if (!model.takesImages) continue
      await using server = await startLookout(model.cardFile, model.id)
      const { rounds, undisturbed } = await measure(server, model, options)
      print(heading(model, options))
      print(
        table(
          ['chats', 'alone, ms', 'beside a batch, ms', 'ratio'],
          [
            row('first text, median', rounds, ({ firstMs }) => firstMs, 0.5),
            row('first text, 99th percentile', rounds, ({ firstMs }) => firstMs, 0.99),
            row('whole reply, median', rounds, ({ totalMs }) => totalMs, 0.5),
            row('whole reply, 99th percentile', rounds, ({ totalMs }) => totalMs, 0.99),
          ],
        ),
      )
      const chats = rounds.reduce((sum, { beside }) => sum + beside.length, 0)
      const beside = median(rounds.map(({ pictures }) => pictures))
      print(
        `\nPictures a minute: ${beside.toFixed(0)} beside chats (${chats}), ${undisturbed.toFixed(0)} without chats.\n`,
      )
    }
  },
}

/** Some seconds in which the machine pauses spoil the 99th percentile of their round, and not the median of the rounds. */
const roundsOf = ({ quick, repetitions }: BenchOptions) => repetitions ?? (quick ? 2 : 7)
const SECONDS = 20

function heading({ name, threads }: BenchModel, options: BenchOptions): string {
  return `### Chats beside a batch, ${name}, ${threads} thread${threads === 1 ? '' : 's'}

Chats of ${CHAT_WORDS} words and ${CHAT_TOKENS} tokens come at random moments, on average every ${CHAT_PAUSE} times as long as one takes alone. The batch asks for ${LINE_TOKENS} tokens about each picture. ${SECONDS} s without a batch and ${SECONDS} s with one, ${roundsOf(options)} times in turn; medians (minimum to maximum) of the rounds.
`
}

function row(title: string, rounds: readonly Round[], of: (result: ChatResult) => number, part: number): string[] {
  const values = (results: (round: Round) => readonly ChatResult[]) =>
    rounds.map((round) => percentile(results(round).map(of), part))
  const [alone, beside] = [values((round) => round.alone), values((round) => round.beside)]
  return [title, spread(alone, 0), spread(beside, 0), medianRatio(beside, alone).toFixed(2)]
}

async function measure(server: BenchServer, model: BenchModel, options: BenchOptions) {
  const fresh = new FreshText()
  const ms = SECONDS * 1000
  const warm: number[] = []
  for (let run = 0; run < 5; run++) warm.push((await ask(server, fresh)).totalMs)
  const pauseMs = CHAT_PAUSE * median(warm)
  const rounds: Round[] = []
  for (let round = 0; round < roundsOf(options); round++) {
    const alone = await chatsFor(ms, pauseMs, server, fresh)
    let beside: readonly ChatResult[] = []
    const pictures = await picturesPerMinute(server, model, fresh, async () => {
      beside = await chatsFor(ms, pauseMs, server, fresh)
    })
    rounds.push({ alone, beside, pictures })
  }
  return { rounds, undisturbed: await picturesPerMinute(server, model, fresh, () => delay(ms)) }
}

/** How many pictures a minute a batch gets through during something. */
async function picturesPerMinute(
  server: BenchServer,
  model: BenchModel,
  fresh: FreshText,
  during: () => Promise<unknown>,
): Promise<number> {
  const batch = await startBatch(server, model, fresh)
  const [first, started] = [await completed(server, batch), performance.now()]
  await during()
  const last = await completed(server, batch)
  const minutes = (performance.now() - started) / 60_000
  if (last === PICTURES) throw new Error('The batch ended before the measurement.')
  await post(server, `/v1/batches/${batch}/cancel`, {})
  while ((await stateOf(server, batch)).status !== 'cancelled') await delay(50)
  return (last - first) / minutes
}

function ask(server: BenchServer, fresh: FreshText): Promise<ChatResult> {
  return chat(server, [{ role: 'user', content: fresh.words(CHAT_WORDS) }], CHAT_TOKENS)
}

/** Chats come whether or not earlier ones have ended, as those of many users do. */
async function chatsFor(ms: number, pauseMs: number, server: BenchServer, fresh: FreshText): Promise<ChatResult[]> {
  const chats: Promise<ChatResult>[] = []
  for (const end = performance.now() + ms; performance.now() < end; ) {
    chats.push(ask(server, fresh))
    await delay(-Math.log(1 - fresh.next(1_000) / 1_000) * pauseMs)
  }
  return Promise.all(chats)
}

/** @returns the id of a batch that runs. */
async function startBatch(server: BenchServer, model: BenchModel, fresh: FreshText): Promise<string> {
  const url = '/v1/chat/completions'
  const pictures = await Promise.all(Array.from({ length: DIFFERENT }, () => fresh.image()))
  const lines = Array.from({ length: PICTURES }, (_, index) => {
    const round = { type: 'text', text: `Picture ${index}.` }
    const content = [round, pictures[index % DIFFERENT]!, { type: 'text', text: 'What is in this image?' }]
    const body = { model: model.id, messages: [{ role: 'user', content }], max_completion_tokens: LINE_TOKENS }
    return `${JSON.stringify({ custom_id: `${index}`, method: 'POST', url, body })}\n`
  })
  const form = new FormData()
  form.set('purpose', 'batch')
  form.set('file', new Blob(lines), 'pictures.jsonl')
  const headers = { authorization: `Bearer ${server.apiKey}` }
  const response = await fetch(`${server.url}/v1/files`, { method: 'POST', headers, body: form })
  const { id: input_file_id } = (await response.json()) as { id: string }
  const fields = { input_file_id, endpoint: url, completion_window: '24h' }
  const { id } = (await (await post(server, '/v1/batches', fields)).json()) as { id: string }
  while ((await completed(server, id)) === 0) await delay(50)
  return id
}

async function completed(server: BenchServer, id: string): Promise<number> {
  const { status, request_counts } = await stateOf(server, id)
  if (status === 'failed') throw new Error('The batch failed.')
  return request_counts.completed
}

interface BatchState {
  readonly status: string
  readonly request_counts: { readonly completed: number }
}

async function stateOf(server: BenchServer, id: string): Promise<BatchState> {
  const headers = { authorization: `Bearer ${server.apiKey}` }
  return (await (await fetch(`${server.url}/v1/batches/${id}`, { headers })).json()) as BatchState
}
