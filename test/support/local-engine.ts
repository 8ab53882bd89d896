import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'
import type { Engine } from '../../src/inference/contract/engine.ts'
import type { EngineEvent, FinishEvent, Generation } from '../../src/inference/contract/generation.ts'
import type { ImagePart, PromptPart } from '../../src/inference/contract/parts.ts'
import type { LocalStats } from '../../src/inference/contract/stats.ts'
import type { Branch, Sampling } from '../../src/inference/contract/work.ts'
import type { LocalEngine } from '../../src/inference/local/host/local-engine.ts'
import type { ApiError } from '../../src/lib/errors/errors.ts'
import { loadCard, type ModelCard } from '../../src/models/card.ts'

export const CARD = fileURLToPath(new URL('../../models/lookout-nano/card.json', import.meta.url))
export const GREEDY: Sampling = { temperature: 0, topP: 1, topK: 0, frequencyPenalty: 0, presencePenalty: 0 }
/** A temperature so high that completions differ and hardly ever end, with any weights. */
export const RANDOM: Sampling = { ...GREEDY, temperature: 20 }
/**
 * Repeats the first token up to `maxTokens`. Use it at the start of an answer, where that is not the end-of-turn token.
 */
export const REPEATING: Sampling = { ...GREEDY, presencePenalty: -1000 }

export const trusted = (text: string): PromptPart => ({ type: 'text', text, trusted: true })
export const untrusted = (text: string): PromptPart => ({ type: 'text', text, trusted: false })

const SEVENS = 256
/** In bytes, its product with 7 is 1. */
const INVERSE_OF_7 = 183
/** The multiples of 7 as bytes, twice: byte `i` of a picture is that of `7 * i + seed * (i >> 8)`. */
const sevens = Uint8Array.from({ length: 2 * SEVENS }, (_, i) => i * 7)

/** @param seed makes images of the same size differ. */
export function picture(width: number, height: number, seed = 0): ImagePart {
  const data = new Uint8Array(width * height * 3)
  for (let at = 0; at < data.length; at += SEVENS) {
    const from = (seed * (at / SEVENS) * INVERSE_OF_7) % SEVENS
    data.set(sevens.subarray(from, from + Math.min(SEVENS, data.length - at)), at)
  }
  return { type: 'image', image: { width, height, data } }
}

export const question = [
  trusted('<|im_start|>user\n'),
  picture(256, 256),
  untrusted('What is here?'),
  trusted('<|im_end|>\n'),
]

export function countTokens(
  engine: Pick<Engine, 'countTokens'>,
  parts: readonly PromptPart[],
  signal: AbortSignal = new AbortController().signal,
): Promise<number> {
  return engine.countTokens(parts, { organisation: 'test', signal })
}

export function branch(fields: Partial<Branch> = {}): Branch {
  return { suffix: [], n: 1, maxTokens: 16, sampling: GREEDY, ...fields }
}

export const assistant = trusted('<|im_start|>assistant\n')
/** A question up to the start of its answer. */
export const chat = [...question, assistant]

/** A branch that runs until it is aborted, for the start of an answer. */
export const endless = (n = 8) => branch({ n, maxTokens: 3000, sampling: REPEATING })

export interface Collected {
  /** Text by "branch.completion". */
  readonly texts: Record<string, string>
  readonly finishes: FinishEvent[]
}

export async function collect(generation: Generation): Promise<Collected> {
  const texts: Record<string, string> = {}
  const finishes: FinishEvent[] = []
  for await (const event of generation.events) {
    if (event.type === 'error') throw event.error
    const key = `${event.branch}.${event.completion}`
    texts[key] ??= ''
    if (event.type === 'text') texts[key] += event.text
    else finishes.push(event)
  }
  return { texts, finishes }
}

export function generate(
  engine: Engine,
  prefix: PromptPart[],
  branches: Branch[],
  { signal, organisation = 'test' }: { signal?: AbortSignal; organisation?: string } = {},
): Promise<Generation> {
  return engine.generate({ organisation, prefix, branches }, signal ?? new AbortController().signal)
}

export async function run(engine: Engine, prefix: PromptPart[], ...branches: Branch[]): Promise<Collected> {
  return collect(await generate(engine, prefix, branches))
}

export async function firstEvent(generation: Generation): Promise<EngineEvent> {
  const result = await generation.events[Symbol.asyncIterator]().next()
  return result.value
}

export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 10))
}

/** Waits until no work runs or waits, then expects all cells and sequences to be free. */
export async function expectAllFreed(engine: Pick<LocalEngine, 'stats'>): Promise<LocalStats> {
  let stats = await engine.stats()
  await until(async () => {
    stats = await engine.stats()
    return stats.running + stats.waiting === 0
  })
  expect(stats).toMatchObject({ usedCells: 0, usedSequences: 0 })
  return stats
}

export function apiError(fields: Partial<ApiError>) {
  return expect.objectContaining({ name: 'ApiError', ...fields })
}

/** The shipped model with a KV cache of another size. */
export async function smallCard(contextTokens: number, maxSequences: number): Promise<ModelCard> {
  const card = await loadCard(CARD)
  return {
    ...card,
    serves: card.serves.map((served) => ({ ...served, maxContextTokens: contextTokens })),
    engine: { ...card.engine, contextTokens, maxSequences },
  }
}

/** Processor time of a process and all its threads so far, in ms; of the wall where the system does not tell. */
function processorMs(pid: number): number {
  if (process.platform !== 'linux') return performance.now()
  const [utime, stime] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ').slice(11, 13).map(Number)
  return 10 * (utime! + stime!)
}

/**
 * The longest time between two texts of another organisation's work while the task runs, in ms. Time in which the engine
 * has no processor does not count.
 */
export async function longestPause(engine: LocalEngine, task: () => Promise<unknown>): Promise<number> {
  const leaving = new AbortController()
  const { events } = await generate(engine, chat, [endless(1)], { signal: leaving.signal, organisation: 'other' })
  let longest = 0
  let last: readonly [wall: number, processor: number] | null = null
  const note = () => {
    const now = [performance.now(), processorMs(engine.pid!)] as const
    if (last !== null) longest = Math.max(longest, Math.min(now[0] - last[0], now[1] - last[1]))
    last = now
  }
  const listening = (async () => {
    for await (const event of events) if (event.type === 'text') note()
  })().catch(() => {})
  await until(() => last !== null)
  await task()
  note()
  leaving.abort()
  await listening
  return longest
}
