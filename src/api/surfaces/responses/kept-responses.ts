import { isRecord } from '../../../lib/json/parse-json.ts'
import { InlineMedia } from '../../../media/inline-media.ts'
import { BODY_LIMIT_BYTES } from '../../http/body/body-reader.ts'
import type { ByteBudget, ByteLease } from '../../http/body/byte-budget.ts'
import type { ItemBody } from './wire/items.ts'
import type { ResponseBody } from './wire/response.ts'

/** OpenAI's limit of streams for each connection. */
const MOST_STREAMS = 32

/** A conversation in memory. */
export interface Conversation {
  readonly items: readonly ItemBody[]
  readonly organisation: string
  readonly lease: ByteLease
}

/**
 * The newest response of each stream of a connection, if it is not stored. If there is no room for it, clients send the
 * whole conversation again.
 */
export class KeptResponses {
  readonly #budget: ByteBudget
  readonly #byStream = new Map<string | undefined, Conversation & { readonly id: string }>()

  constructor(budget: ByteBudget) {
    this.#budget = budget
  }

  /** Returns the items of a response, with media for one request; undefined if it is not kept. */
  find(id: string): ItemBody[] | undefined {
    return [...this.#byStream.values()].find((kept) => kept.id === id)?.items.map(withOwnMedia)
  }

  /**
   * Holds a conversation whose response may be kept.
   * @returns null if there is not enough room.
   */
  hold(items: readonly ItemBody[], organisation: string): Conversation | null {
    const bytes = bytesOf(items)
    const lease = bytes > BODY_LIMIT_BYTES ? null : this.#budget.take(bytes, organisation)
    return lease && { items: items.map(withOwnMedia), organisation, lease }
  }

  /** Keeps a response, or nothing if there is not enough room for its output. */
  keep(stream: string | undefined, { id, output }: ResponseBody, conversation: Conversation): void {
    const { items, organisation, lease } = conversation
    const added = output as ItemBody[]
    const room = this.#budget.take(bytesOf(added), organisation)
    if (room === null) {
      lease.release()
      return
    }
    lease.absorb(room)
    this.#drop(stream)
    this.#byStream.set(stream, { id, items: [...items, ...added], organisation, lease })
    if (this.#byStream.size > MOST_STREAMS) this.#drop(this.#byStream.keys().next().value)
  }

  evict(id: string): void {
    for (const [stream, kept] of this.#byStream) if (kept.id === id) this.#drop(stream)
  }

  clear(): void {
    for (const stream of [...this.#byStream.keys()]) this.#drop(stream)
  }

  #drop(stream: string | undefined): void {
    this.#byStream.get(stream)?.lease.release()
    this.#byStream.delete(stream)
  }
}

/** Copies a value of JSON, with media that is released apart from the original. The bytes are the same. */
function withOwnMedia<Value>(value: Value): Value {
  if (value instanceof InlineMedia) return new InlineMedia(value.bytes) as Value
  if (Array.isArray(value)) return value.map(withOwnMedia) as Value
  if (!isRecord(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, field]) => [key, withOwnMedia(field)])) as Value
}

function bytesOf(items: readonly ItemBody[]): number {
  let media = 0
  const text = JSON.stringify(items, (_, value) => {
    if (!(value instanceof InlineMedia)) return value
    media += value.byteLength
    return null
  })
  return Buffer.byteLength(text) + media
}
