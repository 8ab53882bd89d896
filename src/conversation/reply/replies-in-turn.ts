import { internalError } from '../../lib/errors/errors.ts'
import type { ReplyEvent, ReplyFinish } from './reply.ts'
import type { StopCutter } from './stop-cutter.ts'
import { TextJoiner } from './text-joiner.ts'
import { usageOfAll } from './usage.ts'

/** Starts a reply of at most `maxTokens`. */
type Start = (maxTokens: number) => Promise<AsyncIterable<ReplyEvent>>

interface InTurn {
  /** Maximum tokens of all replies together. */
  readonly maxTokens: number
  /** The model's reply for a picture in which it finds nothing. */
  readonly nothing: string
  /** Looks for stop sequences in the joined text: one may begin in a reply and end in the next. */
  readonly cutter: StopCutter
}

/** Joins replies that are computed in sequence, each about one picture. Resolves when the first has started. */
export async function repliesInTurn(starts: readonly Start[], inTurn: InTurn): Promise<AsyncIterable<ReplyEvent>> {
  const first = await starts[0]!(inTurn.maxTokens)
  const reply = starts.length === 1 ? first : joined(first, starts.slice(1), inTurn)
  return cut(reply, inTurn.cutter)
}

/** Ends the text at a stop sequence. Tokens computed after it, up to the finish, are counted but not shown. */
async function* cut(reply: AsyncIterable<ReplyEvent>, cutter: StopCutter): AsyncGenerator<ReplyEvent, void, void> {
  for await (const event of reply) {
    if (event.type !== 'finish') {
      yield* cutter.push(event)
      continue
    }
    yield* cutter.end()
    const { logProbs = [], ...finish } = event
    if (cutter.found !== null) yield { ...finish, reason: 'stop', stoppedBy: cutter.found }
    else yield { ...finish, logProbs: [...cutter.rest, ...logProbs] }
  }
}

/**
 * Yields a reply that may call functions, or starts another one to replace it if needed. The first reply's text is held
 * back until that is known.
 */
export async function* replyOrInstead(
  first: AsyncIterable<ReplyEvent>,
  maxTokens: number,
  isNeeded: () => boolean,
  start: Start,
): AsyncGenerator<ReplyEvent, void, void> {
  const held: ReplyEvent[] = []
  let hasCalled = false
  for await (const event of first) {
    if (event.type !== 'finish') {
      hasCalled ||= event.type !== 'text' && event.type !== 'reasoning'
      if (hasCalled) yield* held.splice(0)
      if (hasCalled || event.type === 'reasoning') yield event
      else held.push(event)
      continue
    }
    const left = maxTokens - event.usage.completionTokens
    if (hasCalled || left <= 0 || !isNeeded()) {
      yield* held
      return yield event
    }
    for await (const later of await start(left)) {
      yield later.type === 'finish' ? { ...later, usage: usageOfAll([event, later]) } : later
    }
    return
  }
  throw internalError(new Error('A reply ended without a finish event'))
}

async function* joined(
  first: AsyncIterable<ReplyEvent>,
  others: readonly Start[],
  { maxTokens, nothing, cutter }: InTurn,
): AsyncGenerator<ReplyEvent, void, void> {
  const joiner = new TextJoiner(nothing)
  const finishes: ReplyFinish[] = []
  let left = maxTokens
  for (let reply = first; ; ) {
    let finish: ReplyFinish | null = null
    for await (const event of reply) {
      if (event.type === 'finish') finish = event
      else yield* joiner.push(event)
    }
    if (finish === null) throw internalError(new Error('A reply ended without a finish event'))
    finishes.push(finish)
    left -= finish.usage.completionTokens
    const next = others[finishes.length - 1]
    if (next === undefined || left <= 0 || finish.stoppedBy !== undefined || cutter.found !== null) break
    yield* joiner.next()
    reply = await next(left)
  }
  const isShort = finishes.length <= others.length && finishes.at(-1)!.stoppedBy === undefined
  const reason = isShort ? 'length' : reasonOf(finishes)
  yield* joiner.end(reason === 'length')
  yield { ...finishes.at(-1)!, reason, usage: usageOfAll(finishes) }
}

/** A problem in one reply becomes the reason of the whole. */
function reasonOf(finishes: readonly ReplyFinish[]): ReplyFinish['reason'] {
  const reasons = finishes.map(({ reason }) => reason)
  return (
    (['length', 'tool_error', 'tool_limit', 'interrupted'] as const).find((reason) => reasons.includes(reason)) ??
    'stop'
  )
}
