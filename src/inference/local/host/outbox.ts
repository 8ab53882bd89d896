import type { ChildProcess } from 'node:child_process'
import { PRIORITIES, type Priority } from '../../contract/priority.ts'
import type { ToEngine } from '../protocol.ts'
import type { SharedFile } from '../shared-file.ts'

/** Messages larger than this go through the shared file. It is less than the channel holds. */
const SMALL_BYTES = 64 * 1024
/** The most bytes of messages in the shared file, unless one message alone is larger: some ten large images. */
const SHARED_BYTES = 32 * 2 ** 20

/** A large message in the queue. */
interface Parcel {
  readonly id: number
  readonly message: ToEngine
  readonly bytes: number
  readonly priority: Priority
}

/**
 * Queues messages to the engine process. Between two steps the process reads about as much as the channel holds, so a message
 * behind the pixels of an image would arrive many steps late. Large messages therefore go through a shared file, as far as it
 * has room. All other messages overtake them, and large messages of more urgent work come first. A message that is aborted in the queue
 * is not sent.
 */
export class Outbox {
  readonly #process: ChildProcess
  readonly #file: SharedFile | null
  readonly #onLost: (id: number, error: Error) => void
  readonly #parcels = new Map<number, Parcel>()
  #isSending = false
  /** End of the last message in the file. Writing restarts at the beginning once the process has read all messages. */
  #end = 0
  /** Unread messages in the file. */
  #unread = 0

  /**
   * @param file closed by `close`; null if there is none: large messages then go through the channel.
   * @param onLost called for a large message that cannot be sent.
   */
  constructor(process: ChildProcess, file: SharedFile | null, onLost: (id: number, error: Error) => void) {
    this.#process = process
    this.#file = file
    this.#onLost = onLost
  }

  /**
   * @param priority of the message's work.
   * @throws Error when the message cannot be sent. A large one is reported to `onLost` instead.
   */
  send(message: ToEngine, priority: Priority = 'interactive'): void {
    if (message.type === 'abort' && this.#parcels.delete(message.id)) return
    const bytes = bytesOf(message)
    if (!('id' in message) || bytes <= SMALL_BYTES) {
      this.#write(message)
      return
    }
    this.#parcels.set(message.id, { id: message.id, message, bytes, priority })
    void this.#sendParcels()
  }

  /** Called when the process has read a message from the file, or failed to. */
  received(): void {
    this.#unread--
    void this.#sendParcels()
  }

  /** The process has ended. */
  close(): void {
    this.#parcels.clear()
    this.#file?.close()
  }

  async #sendParcels(): Promise<void> {
    if (this.#isSending) return
    this.#isSending = true
    for (;;) {
      if (this.#unread === 0 && this.#end > 0) {
        await this.#file?.clear()
        this.#end = 0
      }
      const parcel = this.#next()
      if (parcel === undefined) break
      try {
        await this.#sendParcel(parcel)
      } catch (error) {
        this.#onLost(parcel.id, error as Error)
      }
    }
    this.#isSending = false
  }

  /** The next large message, if the file has room for it. */
  #next(): Parcel | undefined {
    const parcels = [...this.#parcels.values()]
    const next = PRIORITIES.flatMap((one) => parcels.filter(({ priority }) => priority === one))[0]
    return next === undefined || (this.#end > 0 && this.#end + next.bytes > SHARED_BYTES) ? undefined : next
  }

  async #sendParcel(parcel: Parcel): Promise<void> {
    const { id, message, bytes } = parcel
    const start = this.#end
    this.#end += bytes
    // If memory or the disk is full, the slower channel still works.
    const stored = await this.#file?.put(message, start).catch(() => null)
    // It may have been aborted in the meantime.
    if (this.#parcels.get(id) !== parcel) return
    this.#parcels.delete(id)
    if (!stored) return new Promise((resolve) => this.#write(message, resolve))
    this.#write({ type: 'shared', id, stored })
    this.#unread++
  }

  /** @param written called when the channel has room for more. */
  #write(message: ToEngine, written = () => {}): void {
    // A message to a process that has just ended is lost. Its "exit" event fails the pending calls.
    if (this.#process.connected) this.#process.send(message, written)
    else written()
  }
}

function bytesOf(message: ToEngine): number {
  const envelope = 'work' in message ? message.work : 'prompt' in message ? message.prompt : null
  if (envelope === null) return 0
  return envelope.views.reduce((sum, { byteLength }) => sum + byteLength, envelope.body.byteLength)
}
