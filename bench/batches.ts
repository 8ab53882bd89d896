/** Chats beside a running batch: what the batch costs them, and how many pictures it gets through. */
import { setTimeout as delay } from 'node:timers/promises'
import { type Benchmark, type BenchOptions, print } from './support/benchmark.ts'
import { type ChatResult, chat, post } from './support/chat.ts'
import { type BenchModel, prepareModel } from './support/models.ts'
import { FreshText } from './support/prompts.ts'
import { type BenchServer, startLookout } from './support/server.ts'
import { median, percentile } from './support/statistics.ts'
import { table } from './support/table.ts'

const CHAT_WORDS = 20
const CHAT_TOKENS = 32
const LINE_TOKENS = 24
const PICTURES = 2_000
/** Pictures that differ. Each line has its own: the later ones of a round say so in words. */
const DIFFERENT = 40
/** Mean time between chats, as a part of what a chat alone takes: a server that is busy with chats half of the time. */
const CHAT_PAUSE = 2

interface Run {
  readonly alone: readonly ChatResult[]
  readonly beside: readonly ChatResult[]
  /** Pictures a minute of the batch beside chats, and alone. */
  readonly besideChats: number
  readonly undisturbed: number
}

export const batches: Benchmark = {
  summary: 'chats beside a running batch of pictures: their times with and without, and pictures per minute',
  withPeer: false,

  async run(options) {
    for (const name of options.models) {
      const model = await prepareModel(name)
      if (!model.takesImages) continue
      const run = await measure(model, options)
      print(heading(model, options))
      print(
        table(
          ['chats', 'alone, ms', 'beside a batch, ms', 'ratio'],
          [
            row('first text, median', run, ({ firstMs }) => firstMs, 0.5),
            row('first text, 99th percentile', run, ({ firstMs }) => firstMs, 0.99),
            row('whole reply, median', run, ({ totalMs }) => totalMs, 0.5),
            row('whole reply, 99th percentile', run, ({ totalMs }) => totalMs, 0.99),
          ],
        ),
      )
      const [beside, undisturbed] = [run.besideChats, run.undisturbed].map((rate) => rate.toFixed(0))
      print(`\nPictures a minute: ${beside} beside ${run.beside.length} chats, ${undisturbed} without chats.\n`)
    }
  },
}

const secondsOf = ({ quick }: BenchOptions) => (quick ? 30 : 100)

function heading({ name, threads }: BenchModel, options: BenchOptions): string {
  return `### Chats beside a batch, ${name}, ${threads} thread${threads === 1 ? '' : 's'}

Chats of ${CHAT_WORDS} words and ${CHAT_TOKENS} tokens come at random moments, on average every ${CHAT_PAUSE} times as long as one takes alone. The batch asks for ${LINE_TOKENS} tokens about each picture. ${secondsOf(options)} s each.
`
}

function row(title: string, run: Run, of: (result: ChatResult) => number, part: number): string[] {
  const value = (results: readonly ChatResult[]) => percentile(results.map(of), part)
  const [alone, beside] = [value(run.alone), value(run.beside)]
  return [title, alone.toFixed(0), beside.toFixed(0), (beside / alone).toFixed(2)]
}

async function measure(model: BenchModel, options: BenchOptions): Promise<Run> {
  await using server = await startLookout(model.cardFile, model.id)
  const fresh = new FreshText()
  const ms = secondsOf(options) * 1000
  const warm: number[] = []
  for (let run = 0; run < 5; run++) warm.push((await ask(server, fresh)).totalMs)
  const pauseMs = CHAT_PAUSE * median(warm)
  const alone = await chatsFor(ms, pauseMs, server, fresh)
  let beside: readonly ChatResult[] = []
  const besideChats = await picturesPerMinute(server, model, fresh, async () => {
    beside = await chatsFor(ms, pauseMs, server, fresh)
  })
  const undisturbed = await picturesPerMinute(server, model, fresh, () => delay(ms / 3))
  return { alone, beside, besideChats, undisturbed }
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
  const headers = { authorization: `Bearer ${server.apiKey}` }
  const batch = await fetch(`${server.url}/v1/batches/${id}`, { headers })
  const { status, request_counts } = (await batch.json()) as { status: string; request_counts: { completed: number } }
  if (status === 'failed') throw new Error('The batch failed.')
  return request_counts.completed
}
