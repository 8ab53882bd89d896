import { expect, test } from 'vitest'
import { countSharedFiles } from '../../../../test/support/shared-files.ts'
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

test.runIf(process.platform === 'linux')('a process that is killed leaves no file behind', async () => {
  const before = countSharedFiles()
  const { child, ended } = start(() => {})
  expect(countSharedFiles()).toBe(before + 1)
  process.kill(child.pid!, 'SIGSTOP')
  const work: Envelope = { body: new Uint8Array(0), views: [new Uint8Array(10 ** 7)] }
  for (let id = 0; id < 8; id++) child.send({ type: 'generate', id, work, traced: false })
  child.kill()
  await ended
  await expect.poll(countSharedFiles).toBe(before)
})

test('a large message that the process cannot read fails only its own request', async () => {
  const failed: number[] = []
  const both = Promise.withResolvers<void>()
  const { child, ended } = start((message) => {
    if (message.type === 'error' && failed.push(message.id) === 2) both.resolve()
  })
  const work: Envelope = { body: Uint8Array.of(255, 15, 1, 2, 3), views: [new Uint8Array(10 ** 7)] }
  for (const id of [1, 2]) child.send({ type: 'generate', id, work, traced: false })
  await Promise.race([both.promise, ended])
  expect(failed).toEqual([1, 2])
  await child.close()
})
