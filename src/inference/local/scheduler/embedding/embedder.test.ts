import { expect, test } from 'vitest'
import type { FromEngine } from '../../protocol.ts'
import { textPrompt } from '../../tokens/prompt-tokens.ts'
import { Embedder } from './embedder.ts'
import type { EmbeddingModel } from './embedding-model.ts'

/** A model that makes vectors of the first token. `NAN` has none, and no call with `FATAL` succeeds. */
class ScriptedContext {
  readonly rows: (readonly [token: number, sequence: number])[] = []
  readonly sequences = 64
  readonly splits = false
  /** The tokens of each call. */
  readonly calls: number[][] = []
  readonly batch = {
    capacity: 512,
    rows: this.rows,
    get length() {
      return this.rows.length
    },
    add: (token: number, _position: number, sequence: number) => void this.rows.push([token, sequence]),
  }
  #last: (readonly [number, number])[] = []

  compute(): void {
    this.#last = this.rows.splice(0)
    const tokens = this.#last.map(([token]) => token)
    this.calls.push(tokens)
    if (tokens.includes(FATAL)) throw new Error('The call failed.')
  }

  vector(sequence: number): Float32Array {
    const [token] = this.#last.find(([, other]) => other === sequence)!
    if (token === NAN) throw new Error('Not finite.')
    return Float32Array.of(token)
  }

  clear(): void {
    this.rows.length = 0
  }
}

const NAN = 666
const FATAL = 667

/** Asks for texts of one token each, all in one turn. @returns what each request was sent, and the calls. */
async function answers(...requests: readonly (readonly number[])[]) {
  const context = new ScriptedContext()
  const sent: FromEngine[] = []
  const inputs = { of: async ({ content }: { content: number[] }) => textPrompt(Int32Array.from(content)) }
  const model = { context, compute: { batchRows: 64 }, inputs } as unknown as EmbeddingModel
  const { promise, resolve } = Promise.withResolvers<void>()
  let left = requests.length
  const embedder = new Embedder(model, { maxWaiting: 100, rowMs: 1 }, (message) => {
    sent.push(message)
    if (message.type === 'error' || (message.type === 'vectors' && message.last)) if (--left === 0) resolve()
  })
  const works = requests.map((tokens, id) => {
    return { organisation: `${id}`, inputs: tokens.map((token) => ({ param: 'input', content: [token] })) }
  })
  const { signal } = new AbortController()
  const admitted = await Promise.all(works.map((work) => embedder.admit(work, signal)))
  for (const [id, work] of works.entries()) embedder.submit(id, work, admitted[id]!, false)
  await promise
  const of = (id: number) =>
    sent.flatMap((message): readonly unknown[] => {
      if (!('id' in message) || message.id !== id) return []
      if (message.type === 'error') return ['error']
      return message.type === 'vectors' ? message.vectors.map(({ vector }) => vector[0]) : []
    })
  expect(embedder.stats).toMatchObject({ running: 0, waiting: 0 })
  return { replies: requests.map((_, id) => of(id)), calls: context.calls }
}

test('a vector that is not finite fails its own request only', async () => {
  const { replies, calls } = await answers([1, 2], [3, NAN, 4], [5])
  expect(replies).toEqual([[1, 2], ['error'], [5]])
  expect(calls).toEqual([[1, 2, 3, NAN, 4, 5]])
})

test('requests of a call that fails are computed again one by one', async () => {
  const { replies, calls } = await answers([1, 2], [3, FATAL], [5])
  expect(replies).toEqual([[1, 2], ['error'], [5]])
  expect(calls[0]).toEqual([1, 2, 3, FATAL, 5])
  expect(calls.slice(1).toSorted()).toEqual([[1, 2], [3, FATAL], [5]])
})
