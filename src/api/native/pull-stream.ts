import type { ErrorBody } from '../../lib/errors/errors.ts'
import type { ReplyStream } from '../http/api-call.ts'
import type { ModelPullEventBody } from './wire/model-pull.ts'

/** Sends the events of a pull at the client's pace. While the client does not read, progress is dropped and the rest waits. */
export class PullStream {
  readonly #stream: ReplyStream
  #waiting: string[] = []
  /** Null while the client reads. */
  #blocked: Promise<void> | null = null

  constructor(stream: ReplyStream) {
    this.#stream = stream
  }

  tell(event: ModelPullEventBody): void {
    if (this.#blocked === null) this.#send(JSON.stringify(event))
    else if (event.type !== 'progress') this.#waiting.push(JSON.stringify(event))
  }

  /** Ends the stream. @param last an event to send before `[DONE]`, null for `[DONE]` alone, or an error. */
  async end(last: ModelPullEventBody | ErrorBody | null): Promise<void> {
    while (this.#blocked !== null) await this.#blocked
    if (last !== null) this.#stream.send(JSON.stringify(last))
    if (last === null || 'type' in last) this.#stream.send('[DONE]')
    await this.#stream.full
    this.#stream.end()
  }

  #send(data: string): void {
    this.#stream.send(data)
    const { full } = this.#stream
    if (full === null) return
    this.#blocked = full.then(() => {
      this.#blocked = null
      for (const event of this.#waiting.splice(0)) {
        if (this.#blocked === null) this.#send(event)
        else this.#waiting.push(event)
      }
    })
  }
}
