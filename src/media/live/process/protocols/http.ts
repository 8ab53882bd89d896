import { CameraError, type CameraSession, dateOf, MAX_UNIT, type SessionHooks } from '../camera-session.ts'
import type { Login } from './digest.ts'
import { type BodySink, HttpExchange, wholeBody } from './http-exchange.ts'
import { headerOf, type MessageHead } from './message-head.ts'
import { isJpeg, MultipartReader } from './multipart.ts'

/** Pictures over HTTP/1.1: a stream of them, or one for each request. */
export class HttpSession implements CameraSession {
  readonly #type: 'mjpeg' | 'jpeg'
  readonly #target: string
  readonly #hooks: SessionHooks
  readonly #exchange: HttpExchange

  constructor(type: 'mjpeg' | 'jpeg', url: URL, login: Login, hooks: SessionHooks) {
    this.#type = type
    this.#target = url.pathname + url.search
    this.#hooks = hooks
    this.#exchange = new HttpExchange(url, login, (bytes) => hooks.send(bytes))
    this.#ask()
  }

  get isIdle(): boolean {
    return this.#exchange.isIdle
  }

  feed(bytes: Uint8Array): void {
    this.#exchange.feed(bytes)
  }

  tick(): void {
    if (this.isIdle) this.#ask()
  }

  end(): void {
    this.#exchange.end()
  }

  reopen(): void {
    this.#exchange.reopen()
  }

  close(): void {}

  #ask(): void {
    const onHead = (status: number, head: MessageHead) => {
      if (status !== 200) throw new CameraError('refused', `The camera answers with ${status}`)
      return this.#type === 'jpeg' ? this.#snapshot(head) : this.#stream(head)
    }
    this.#exchange.ask({ target: this.#target, onHead })
  }

  #stream(head: MessageHead): BodySink {
    const type = headerOf(head, 'content-type') ?? ''
    if (!/^multipart\//i.test(type)) throw new CameraError('no_video', 'The camera does not send a stream of JPEG')
    const boundary = /boundary\s*=\s*(?:"([^"]*)"|([^\s;]*))/i.exec(type)?.slice(1).join('') ?? ''
    const parts = new MultipartReader(boundary, (unit) => this.#hooks.onUnit(unit))
    this.#hooks.onPlaying?.()
    return {
      limit: Number.MAX_SAFE_INTEGER,
      push: (bytes) => parts.push(bytes),
      end: () => {
        throw new CameraError('protocol', 'The camera has ended the stream')
      },
    }
  }

  #snapshot(head: MessageHead): BodySink {
    return wholeBody(MAX_UNIT, 'A picture', (body) => {
      if (!isJpeg(body)) throw new CameraError('no_video', 'The camera does not answer with a JPEG')
      const cameraTime = dateOf(headerOf(head, 'date') ?? '')
      const data = Buffer.from(body)
      this.#hooks.onPlaying?.()
      this.#hooks.onUnit({ codec: 'jpeg', data, isKey: true, mediaTime: null, cameraTime, afterLoss: false })
    })
  }
}
