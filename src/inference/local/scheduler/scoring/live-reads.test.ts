import { afterAll, beforeAll, expect, test } from 'vitest'
import { CARD, chat, endless, generate, until, untrusted } from '../../../../../test/support/local-engine.ts'
import { ask, logProbsOf, OPEN_TURN, read as readInteractive } from '../../../../../test/support/reads.ts'
import { loadLocalCard } from '../../../../models/card.ts'
import type { Reading } from '../../../contract/generation.ts'
import type { Priority } from '../../../contract/priority.ts'
import type { ReadWork } from '../../../contract/work.ts'
import { LocalEngine } from '../../host/local-engine.ts'

const PREFIX = [untrusted('Look at this. '), OPEN_TURN]
const QUESTION = ask('Is it red?', 'Yes', 'No')
/** It takes many calls. */
const LONG = ask('Which number is it?', ...Array.from({ length: 255 }, (_, n) => `number ${n} of all`))

let engine: LocalEngine
beforeAll(async () => {
  engine = await LocalEngine.start(await loadLocalCard(CARD), { seed: 1 })
})
afterAll(() => engine?.close())

function read(priority: Priority, signal: AbortSignal, fields: Partial<ReadWork> = {}): Promise<Reading> {
  return engine.read({ organisation: 'watches', prefix: PREFIX, questions: [QUESTION], priority, ...fields }, signal)
}

/** A chat that is left when the test ends, and its number of texts so far. */
async function longChat(signal: AbortSignal) {
  const { events } = await generate(engine, chat, [endless(4)], { signal })
  const state = { texts: 0, hasEnded: false }
  const spoken = Promise.withResolvers<void>()
  void (async () => {
    for await (const { type } of events) {
      if (type === 'text') state.texts++
      else state.hasEnded = true
      spoken.resolve()
    }
  })().catch(() => {})
  await spoken.promise
  return state
}

test('live reads end beside a long chat and beside long reads, and background ones wait for them', async () => {
  const leaving = new AbortController()
  const { signal } = leaving
  try {
    const chatting = await longChat(signal)
    const order: string[] = []
    const asked = (name: string, reading: Promise<Reading>) =>
      reading.then(logProbsOf).then((found) => {
        order.push(name)
        return found
      })
    const questions = Array.from({ length: 400 }, () => LONG)
    const reading = asked('interactive', readInteractive(engine, PREFIX, questions, { signal, organisation: 'reader' }))
    reading.catch(() => {})
    const background = asked('background', read('background', signal))
    background.catch(() => {})
    let found: readonly (readonly number[])[] = []
    for (let look = 0; look < 5; look++) {
      found = await asked('live', read('live', signal, { isTransient: true }))
    }
    const { texts } = chatting
    await until(() => chatting.texts > texts)
    expect([chatting.hasEnded, order]).toEqual([false, ['live', 'live', 'live', 'live', 'live']])
    leaving.abort()
    expect(found).toEqual(await logProbsOf(await read('interactive', new AbortController().signal)))
  } finally {
    leaving.abort()
  }
})

test('a read tells when it begins, and one that is left before never does', async () => {
  const leaving = new AbortController()
  const begun: string[] = []
  const questions = Array.from({ length: 400 }, () => LONG)
  const first = await read('live', leaving.signal, { questions, onBegun: () => begun.push('first') })
  await first.answers[Symbol.asyncIterator]().next()
  const late = new AbortController()
  const second = await read('live', late.signal, { onBegun: () => begun.push('second') })
  late.abort(new Error('late'))
  await expect(logProbsOf(second)).rejects.toThrow('late')
  leaving.abort()
  await logProbsOf(await read('live', new AbortController().signal, { onBegun: () => begun.push('third') }))
  expect(begun).toEqual(['first', 'third'])
})
