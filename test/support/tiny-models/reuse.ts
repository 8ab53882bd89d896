import type { Engine } from '../../../src/inference/contract/engine.ts'
import type { PromptPart } from '../../../src/inference/contract/parts.ts'
import type { LocalStats } from '../../../src/inference/contract/stats.ts'
import type { Branch, Sampling } from '../../../src/inference/contract/work.ts'
import { BETWEEN_TEXTS, mediaOf, promptsOf, trusted, turnOf, untrusted } from './prompts.ts'
import type { TinyModel } from './tiny-model.ts'

export const GREEDY: Sampling = { temperature: 0, topP: 1, topK: 0, frequencyPenalty: 0, presencePenalty: 0 }
export const REPLY_TOKENS = 64
/** KV cells of the engines that are checked. */
export const REUSE_CELLS = 2560

/** What a way of reusing what was computed came to. */
export interface ReuseResult {
  /** Replies that differ from those of a fresh run, as `reuse != fresh`. */
  readonly differing: readonly string[]
  /** Whether anything was reused. Models whose state cannot be cut compute more again. */
  readonly reused: boolean
}

interface StatefulEngine extends Engine {
  stats(): Promise<LocalStats>
}

/** Ways in which the engine reuses what it has computed. Each must give the replies of a run that reuses nothing. */
export const REUSES: Readonly<Record<string, (engine: StatefulEngine, model: TinyModel) => Promise<ReuseResult>>> = {
  forks: async (engine, model) => {
    const { parts } = longestPrompt(model)
    const replies = await answers(engine, 'forks', parts, [branch({ n: 4 })])
    return compared(replies, Array(4).fill(await fresh(engine, parts)), true)
  },

  multilook: async (engine, model) => {
    const [begin, end] = model.turn
    const prefix = [trusted(begin), ...(mediaOf(model) ?? []).slice(0, 1), untrusted('Say what is here.'), trusted(end)]
    const looks = ['Where?', 'How many of them are there?', 'Why?'].map((text) => [
      trusted(begin),
      untrusted(text),
      trusted(end),
    ])
    const replies = await answers(
      engine,
      'multilook',
      prefix,
      looks.map((suffix) => branch({ suffix })),
    )
    const expected: string[] = []
    for (const suffix of looks) expected.push((await answers(engine, unique(), prefix, [branch({ suffix })]))[0]!)
    return compared(replies, expected, true)
  },

  'same prompt': (engine, model) => samePrompt(engine, model, 'same prompt'),

  'same prompt, from a copy': (engine, model) => samePrompt(engine, model, 'copied prompt', displace),

  'same beginning': async (engine, model) => {
    const [medium] = mediaOf(model) ?? []
    const ask = (text: string) =>
      turnOf(model, ...(medium ? [medium] : []), untrusted(`Tell me in short what is to be seen in this. ${text}`))
    await answers(engine, 'same beginning', ask('Is it red?'), [branch()])
    return reusing(engine, async () => [
      await answers(engine, 'same beginning', ask('Or blue, or green?'), [branch()]),
      [await fresh(engine, ask('Or blue, or green?'))],
    ])
  },

  'next turn': (engine, model) => nextTurn(engine, model, 'next turn'),

  'next turn, from a copy': (engine, model) => nextTurn(engine, model, 'copied turn', displace),

  preemption: async (engine, model) => {
    const { parts } = promptsOf(model)[mediaOf(model) ? 1 : 0]!
    const before = await engine.stats()
    const long = { maxTokens: longTokens(engine) }
    const replies = await answers(engine, 'preemption', parts, [branch({ ...long, n: COMPLETIONS })])
    const { preemptions } = await engine.stats()
    const expected = (await answers(engine, unique(), parts, [branch(long)]))[0]!
    return compared(replies, Array(COMPLETIONS).fill(expected), preemptions > before.preemptions)
  },
}

const COMPLETIONS = 8

/** So long that the cells are too few for as many completions. */
function longTokens({ info }: Engine): number {
  return Math.ceil((1.25 * info.contextTokens) / COMPLETIONS)
}

type Between = (engine: StatefulEngine, model: TinyModel) => Promise<void>

const nothing: Between = async () => {}

/** Work that needs enough KV cells to evict all ended work. */
const displace: Between = async (engine, model) => {
  const long = branch({ n: COMPLETIONS, maxTokens: longTokens(engine) })
  await answers(engine, unique(), turnOf(model, untrusted('All of it.')), [long])
  const { retainedCells } = await engine.stats()
  if (retainedCells > 32) throw new Error(`${retainedCells} cells of ended work are still in the KV cache.`)
}

async function samePrompt(
  engine: StatefulEngine,
  model: TinyModel,
  organisation: string,
  between = nothing,
): Promise<ReuseResult> {
  const { parts } = longestPrompt(model)
  await answers(engine, organisation, parts, [branch()])
  await between(engine, model)
  return reusing(engine, async () => [
    await answers(engine, organisation, parts, [branch()]),
    [await fresh(engine, parts)],
  ])
}

async function nextTurn(
  engine: StatefulEngine,
  model: TinyModel,
  organisation: string,
  between = nothing,
): Promise<ReuseResult> {
  const { parts } = longestPrompt(model)
  const [reply] = await answers(engine, organisation, parts, [branch()])
  await between(engine, model)
  const second = mediaOf(model)?.[1]
  const next = [
    ...parts,
    untrusted(reply!),
    trusted(model.turn[1].split(model.turn[0].slice(0, 4))[0]!),
    ...turnOf(model, ...(second ? [second] : []), untrusted('And now?')),
  ]
  return reusing(engine, async () => [
    await answers(engine, organisation, next, [branch()]),
    [await fresh(engine, next)],
  ])
}

/** The reply to a prompt of which nothing has been computed: caches are not shared between organisations. */
async function fresh(engine: Engine, parts: readonly PromptPart[]): Promise<string> {
  return (await answers(engine, unique(), parts, [branch()]))[0]!
}

const FRESH = 'fresh '
let organisations = 0
const unique = () => `${FRESH}${organisations++}`

export function branch(fields: Partial<Branch> = {}): Branch {
  return { suffix: [], n: 1, maxTokens: REPLY_TOKENS, sampling: GREEDY, ...fields }
}

/** The texts of all completions, branch by branch. */
export async function answers(
  engine: Engine,
  organisation: string,
  prefix: readonly PromptPart[],
  branches: readonly Branch[],
): Promise<string[]> {
  const { events, prompts } = await engine.generate({ organisation, prefix, branches }, new AbortController().signal)
  if (organisation.startsWith(FRESH) && prompts[0]!.cachedTokens > 0) {
    throw new Error('An organisation has found what another one has computed.')
  }
  const texts = branches.map(({ n }) => Array<string>(n).fill(''))
  for await (const event of events) {
    if (event.type === 'error') throw event.error
    if (event.type === 'text') texts[event.branch]![event.completion]! += event.text
  }
  return texts.flat()
}

function longestPrompt(model: TinyModel) {
  const prompts = promptsOf(model)
  return prompts.find(({ name }) => name === BETWEEN_TEXTS) ?? prompts.at(-1)!
}

function compared(replies: readonly string[], expected: readonly string[], reused: boolean): ReuseResult {
  const differing = replies.flatMap((reply, index) =>
    reply === expected[index] ? [] : [`${JSON.stringify(reply)} != ${JSON.stringify(expected[index])}`],
  )
  return { differing, reused }
}

async function reusing(
  engine: StatefulEngine,
  run: () => Promise<readonly [replies: readonly string[], expected: readonly string[]]>,
): Promise<ReuseResult> {
  const before = await engine.stats()
  const [replies, expected] = await run()
  const { reusedTokens } = await engine.stats()
  return compared(replies, expected, reusedTokens > before.reusedTokens)
}
