/**
 * Replies with and without drafts, by one engine in turn. What is drafted and accepted depends on what the model writes.
 * Models with random weights copy nothing, so for replies that copy their prompt the choice of tokens is taken from the
 * model: the engine computes everything, and then gets the next token of the prompt, or at some places another one. All other
 * replies are the model's own.
 */
import sharp from 'sharp'
import { GREEDY } from '../src/inference/contract/greedy.ts'
import type { PromptPart } from '../src/inference/contract/parts.ts'
import type { Branch } from '../src/inference/contract/work.ts'
import { describeModel } from '../src/inference/local/host/model-files.ts'
import { loadNativeLibraries } from '../src/inference/local/native/libraries.ts'
import { locateNativeLibraries } from '../src/inference/local/native/native-paths.ts'
import type { FromEngine } from '../src/inference/local/protocol.ts'
import type { BatchSplitter } from '../src/inference/local/scheduler/batch/batch-splitter.ts'
import { LoadedModel } from '../src/inference/local/scheduler/loaded-model.ts'
import { Scheduler } from '../src/inference/local/scheduler/scheduler.ts'
import { warmUp } from '../src/inference/local/worker/warm-up.ts'
import { loadLocalCard, localCard } from '../src/models/card.ts'
import { type Benchmark, type BenchOptions, print } from './support/benchmark.ts'
import { type BenchModel, prepareModel, SHIPPED_CARD } from './support/models.ts'
import { FreshText } from './support/prompts.ts'
import { median, medianRatio } from './support/statistics.ts'
import { table } from './support/table.ts'

const CLIENTS = [1, 4, 16]
const FEW_CLIENTS = [1, 4]
const OUTPUT_TOKENS = 128
const PROMPT_WORDS = 150
const RECORDS = 8
const STEP_ROWS = [1, 2, 4, 8, 16]

interface Request {
  readonly parts: readonly PromptPart[]
  readonly fields?: Partial<Branch>
}

/** A kind of reply. */
interface Kind {
  readonly name: string
  /** For a reply that copies its prompt: the mean distance between tokens that differ, in tokens. */
  readonly slipEvery?: number
  /** Whether it is answered once before the time is taken: masks of a constraint and embeddings of a picture stay. */
  readonly warms?: boolean
  readonly ask: (fresh: FreshText, model: InProcess) => Promise<Request>
}

const text = (value: string, trusted = false): PromptPart => ({ type: 'text', text: value, trusted })
const chat = (...turns: (readonly PromptPart[])[]): PromptPart[] =>
  turns.flatMap((parts, turn) => [
    text(`${turn === 0 ? '' : '<|im_end|>\n'}<|im_start|>${turn % 2 === 0 ? 'user' : 'assistant'}\n`, true),
    ...parts,
    ...(turn === turns.length - 1 ? [text('<|im_end|>\n<|im_start|>assistant\n', true)] : []),
  ])

const copy = (slipEvery: number): Kind => ({
  name:
    slipEvery === Number.POSITIVE_INFINITY ? 'a copy of the prompt' : `a copy, another token at one of ${slipEvery}`,
  slipEvery,
  ask: async (fresh) => ({ parts: chat([text(Array.from({ length: PROMPT_WORDS }, () => word(fresh)).join(' '))]) }),
})

const LETTERS = 'abcdefghijklmnopqrstuvwxyz'
/** So rare that no three tokens stand in two places of a prompt. */
const word = (fresh: FreshText) => Array.from({ length: 5 }, () => LETTERS[fresh.next(LETTERS.length)]).join('')

const JSON_VALUES: Kind = {
  name: 'JSON with names of the prompt',
  warms: true,
  ask: async (fresh) => {
    const names = Array.from({ length: RECORDS }, () => `${word(fresh)} ${word(fresh)}`)
    const items = {
      type: 'object',
      properties: { name: { enum: names }, count: { type: 'integer', minimum: 0, maximum: 99 } },
      required: ['name', 'count'],
      additionalProperties: false,
    }
    return {
      parts: chat([text(`These are in the list: ${names.join(', ')}. How many of each, as JSON?`)]),
      fields: { constraint: { type: 'json_schema', schema: { type: 'array', minItems: RECORDS, items } } },
    }
  },
}

const AGAIN: Kind = {
  name: 'the same question again',
  ask: async (fresh, model) => {
    const question = [text(`${fresh.words(30)}?`)]
    const { texts } = await model.answer([{ parts: chat(question) }], false)
    return { parts: chat(question, [text(texts[0]!)], question) }
  },
}

const FREE: Kind = { name: 'free text', ask: async (fresh) => ({ parts: chat([text(fresh.words(PROMPT_WORDS))]) }) }

const SAMPLED: Kind = {
  name: 'free text, temperature 1',
  ask: async (fresh, model) => ({
    ...(await FREE.ask(fresh, model)),
    fields: { sampling: { ...GREEDY, temperature: 1 } },
  }),
}

const BOXES: Kind = {
  name: 'boxes in a picture',
  warms: true,
  ask: async (fresh, { pictureSide }) => {
    const circles = Array.from(
      { length: 8 },
      (_, at) =>
        `<circle cx="${32 + 64 * (at % 4)}" cy="${70 + 110 * (at >> 2)}" r="${14 + fresh.next(12)}" fill="hsl(${fresh.next(360)} 80% 45%)"/>`,
    )
    const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 256 256" width="${pictureSide}" height="${pictureSide}"><rect width="100%" height="100%" fill="white"/>${circles.join('')}</svg>`
    const data = await sharp(Buffer.from(svg)).removeAlpha().raw().toBuffer()
    const image = { width: pictureSide, height: pictureSide, data: new Uint8Array(data) }
    return { parts: chat([{ type: 'image', image }, text('Detect every circle.')]) }
  },
}

export const speculation: Benchmark = {
  summary: 'replies with and without drafts from prompt and reply: drafted and accepted tokens, tokens per second',
  withPeer: false,

  async run(options) {
    for (const name of options.models) {
      const model = await prepareModel(name)
      const inProcess = await InProcess.load(model)
      try {
        print(await compare(model, inProcess, options))
      } finally {
        await inProcess.close()
      }
    }
  },
}

async function compare(model: BenchModel, inProcess: InProcess, options: BenchOptions): Promise<string> {
  const repetitions = options.repetitions ?? (options.quick ? 1 : model.isSmall ? 5 : 3)
  const own = model.isSmall ? [AGAIN, BOXES] : [AGAIN]
  const kinds = [copy(Number.POSITIVE_INFINITY), copy(32), copy(8), JSON_VALUES, ...own, FREE, SAMPLED]
  const rows: string[][] = []
  for (const kind of kinds) {
    for (const clients of model.isSmall ? CLIENTS : FEW_CLIENTS) {
      rows.push([`${kind.name}, ${clients}`, ...(await measure(kind, clients, inProcess, repetitions))])
    }
  }
  return `### Drafts, ${model.name}, ${model.threads} thread${model.threads === 1 ? '' : 's'}

A step of ${STEP_ROWS.join(', ')} rows takes ${STEP_ROWS.map((count) => inProcess.splitter.batchMs(count).toFixed(2)).join(', ')} ms. At most ${OUTPUT_TOKENS} tokens for each reply, from when all have begun; medians of ${repetitions} repetition${repetitions === 1 ? '' : 's'} in turn.

${table(['reply, requests at once', 'tokens', 'drafted', 'accepted', 'tokens/s with drafts', 'without', 'ratio', 'same replies'], rows)}`
}

async function measure(kind: Kind, clients: number, model: InProcess, repetitions: number): Promise<string[]> {
  const fresh = new FreshText()
  const speeds: { readonly with: number[]; readonly without: number[] } = { with: [], without: [] }
  let [tokens, drafted, accepted, same] = [0, 0, 0, 0]
  for (let run = 0; run < repetitions; run++) {
    const requests: Request[] = []
    while (requests.length < clients) requests.push(await kind.ask(fresh, model))
    if (kind.warms) await model.answer(requests, false)
    const texts = new Map<boolean, readonly string[]>()
    for (const drafts of run % 2 === 0 ? [true, false] : [false, true]) {
      const answer = await model.answer(requests, drafts, kind.slipEvery)
      texts.set(drafts, answer.texts)
      speeds[drafts ? 'with' : 'without'].push((answer.tokens / answer.ms) * 1000)
      if (!drafts) continue
      tokens += answer.tokens
      drafted += answer.drafted
      accepted += answer.accepted
    }
    same += texts.get(true)!.filter((reply, index) => reply === texts.get(false)![index]).length
  }
  return [
    String(tokens),
    String(drafted),
    String(accepted),
    median(speeds.with).toFixed(0),
    median(speeds.without).toFixed(0),
    medianRatio(speeds.with, speeds.without).toFixed(2),
    `${same} of ${clients * repetitions}`,
  ]
}

interface Answer {
  readonly texts: readonly string[]
  readonly ms: number
  readonly tokens: number
  readonly drafted: number
  readonly accepted: number
}

/** A loaded model in this process, so that its choices can be replaced. */
class InProcess {
  readonly splitter: BatchSplitter
  /** Side of the largest square picture that the model takes, in pixels; 0 for none. */
  readonly pictureSide: number
  readonly #loaded: LoadedModel
  /** The tokens of each sequence by position, and where the rows of the batch are. */
  readonly #tokens = new Map<number, number[]>()
  readonly #rows: { readonly sequence: number; readonly position: number }[] = []
  /** Null while the model chooses. */
  #slipEvery: number | null = null
  /** Length of the prompt, by sequence. */
  readonly #promptLengths = new Map<number, number>()

  static async load(model: BenchModel): Promise<InProcess> {
    // The shipped model as it is: its replies end by themselves.
    const card = model.isSmall ? await loadLocalCard(SHIPPED_CARD) : localCard(model.card)
    const { caches } = await describeModel(card)
    const loaded = new LoadedModel(loadNativeLibraries(locateNativeLibraries()), {
      model: model.isSmall ? `${card.directory}/${card.engine.model}` : model.model,
      projector: model.projector,
      cells: card.engine.contextTokens,
      maxSequences: card.engine.maxSequences,
      printedTokens: card.engine.printedTokens,
      repetition: null,
      speculation: true,
      image: card.image ?? null,
      threads: model.threads,
      maxWaiting: Math.max(...CLIENTS),
      ...caches,
      prefixCacheBytes: 0,
      seed: 1,
    })
    const { pixelsPerToken = 0, maxTokens = 0 } = card.image ?? {}
    return new InProcess(loaded, pixelsPerToken * Math.floor(Math.sqrt(maxTokens)))
  }

  private constructor(loaded: LoadedModel, pictureSide: number) {
    this.#loaded = loaded
    this.pictureSide = pictureSide
    this.splitter = warmUp(loaded, { image: null }).splitter
    const { context } = loaded
    const add = context.batch.add.bind(context.batch)
    context.batch.add = (token, position, sequence, output) => {
      const tokens = this.#tokens.get(sequence) ?? []
      this.#tokens.set(sequence, tokens)
      tokens[position] = token
      if (output && !this.#promptLengths.has(sequence)) this.#promptLengths.set(sequence, position + 1)
      const row = add(token, position, sequence, output)
      this.#rows[row] = { sequence, position }
      return row
    }
    const logits = context.logits.bind(context)
    let asked = 0
    context.logits = (row) => {
      asked = row
      return logits(row)
    }
    const { operations } = context
    const argmax: typeof operations.argmax = (of, allowed) =>
      this.#slipEvery === null ? operations.argmax(of, allowed) : this.#copied(asked, this.#slipEvery)
    Object.assign(context, { operations: { ...operations, argmax } })
  }

  /** Answers requests that arrive at the same moment. @param slipEvery see `Kind`. */
  async answer(requests: readonly Request[], drafts: boolean, slipEvery: number | null = null): Promise<Answer> {
    this.#slipEvery = slipEvery
    this.#tokens.clear()
    this.#promptLengths.clear()
    const texts = requests.map(() => '')
    const send = (message: FromEngine) => {
      if (message.type === 'error') throw new Error(message.error.message)
      if (message.type !== 'events') return
      for (const { id, events } of message.requests) {
        for (const event of events) {
          if (event.type === 'error') throw event.error
          if (event.type === 'text') texts[id] += event.text
        }
      }
    }
    const settings = { maxWaiting: requests.length, prefixCacheBytes: 0, speculation: drafts, seed: 1 }
    const scheduler = new Scheduler(this.#loaded, this.splitter, settings, send)
    const works = requests.map(({ parts, fields }) => ({
      organisation: 'bench',
      prefix: parts,
      branches: [{ suffix: [], n: 1, maxTokens: OUTPUT_TOKENS, sampling: GREEDY, ...fields }],
    }))
    for (const { branches, organisation } of works) {
      for (const { constraint } of branches) {
        if (constraint !== undefined) await this.#loaded.constraints.prepare(constraint, organisation)
      }
    }
    for (const [id, work] of works.entries()) scheduler.submit(id, work)
    while (texts.includes('') && scheduler.step());
    const started = performance.now()
    const before = scheduler.stats.decodedTokens
    while (scheduler.step());
    const ms = performance.now() - started
    const { decodedTokens, draftedTokens, acceptedTokens } = scheduler.stats
    return { texts, ms, tokens: decodedTokens - before, drafted: draftedTokens, accepted: acceptedTokens }
  }

  close(): Promise<void> {
    return this.#loaded.close()
  }

  /** The token of the prompt that is as far from its start as the row is from its end; at some places, another one. */
  #copied(row: number, slipEvery: number): number {
    const { sequence, position } = this.#rows[row]!
    const at = position + 1 - this.#promptLengths.get(sequence)!
    const token = this.#tokens.get(sequence)![at + PROMPT_START]!
    const noise = (Math.imul(at + 1, 0x9e3779b1) >>> 8) / 2 ** 24
    return noise * slipEvery < 1 ? token ^ 1 : token
  }
}

/** Tokens before the text of a prompt. */
const PROMPT_START = 3
