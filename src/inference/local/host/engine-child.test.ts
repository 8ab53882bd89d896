import { expect, test } from 'vitest'
import type { Envelope } from '../envelope.ts'
import type { FromEngine } from '../protocol.ts'
import { EngineChild } from './engine-child.ts'

/** Starts an engine process without a model. */
function start(take: (message: FromEngine) => void) {
  const ended = Promise.withResolvers<string>()
  const child = new EngineChild({ message: take, exit: ended.resolve, log() {} })
  return { child, ended: ended.promise }
}

test('a message that the process cannot read fails only its own request', async () => {
  const answers: FromEngine[] = []
  const both = Promise.withResolvers<void>()
  const { child, ended } = start((message) => {
    if (answers.push(message) === 3) both.resolve()
  })
  const broken: Envelope = { body: Uint8Array.of(255, 15, 1, 2, 3), views: [] }
  child.send({ type: 'generate', id: 1, work: broken, traced: false })
  child.send({ type: 'count', id: 2, prompt: { ...broken, body: new Uint8Array(0) } })
  child.send({ type: 'stats', id: 3 })
  await Promise.race([both.promise, ended])
  // A short message may overtake a long one.
  const byId = answers.toSorted((a, b) => ('id' in a && 'id' in b ? a.id - b.id : 0))
  expect(byId).toEqual([1, 2, 3].map((id) => expect.objectContaining({ type: 'error', id })))
  await child.close()
})

test('a process whose messages cannot be read is killed', async () => {
  const { child, ended } = start(() => {
    throw new TypeError('no such message')
  })
  child.send({ type: 'stats', id: 1 })
  expect(await ended).toMatch(/SIGKILL.*no such message/s)
})
