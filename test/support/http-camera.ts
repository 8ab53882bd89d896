import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type CameraLogin, LoginCheck } from './camera-login.ts'

export interface HttpCameraBehaviour {
  pictures: readonly Buffer[]
  /** 0: it sends each picture once, at once, and then nothing. Otherwise it repeats them. */
  fps: number
  /** Sends the first picture of a stream twice, at once. */
  startsTwice: boolean
  login: CameraLogin | null
  /** As the header `Content-Type` names it. */
  boundary: string
  /** As it stands before each part. */
  delimiter: string
  /** Whether parts say how long they are. */
  hasLengths: boolean
  /** Ends each connection with its answer, which has no length. */
  closes: boolean
  /** Says nothing, with open connections. */
  hangs: boolean
  /** Where all requests but those for it are sent. */
  redirect: string | null
}

/** A camera over HTTP: `/stream` is MJPEG, any other path a picture. */
export class HttpCamera {
  readonly port: number
  readonly behaviour: HttpCameraBehaviour
  /** The headers `Authorization` of all requests. */
  readonly authorizations: (string | undefined)[] = []
  /** The most pictures that one stream has sent. */
  longest = 0
  /** How many it has sent in all. */
  pictures = 0
  readonly #server: Server
  readonly #check = new LoginCheck()
  #shots = 0

  private constructor(server: Server, behaviour: HttpCameraBehaviour) {
    this.#server = server
    this.behaviour = behaviour
    this.port = (server.address() as { port: number }).port
    server.on('request', (request, response) => this.#answer(request, response))
  }

  static async start(pictures: readonly Buffer[], behaviour: Partial<HttpCameraBehaviour> = {}): Promise<HttpCamera> {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const defaults = {
      fps: 10,
      startsTwice: false,
      login: null,
      boundary: 'frame',
      delimiter: '--frame',
      hasLengths: true,
    }
    return new HttpCamera(server, { pictures, ...defaults, closes: false, hangs: false, redirect: null, ...behaviour })
  }

  /** @param path `/stream` or that of a picture */
  url(path: string): string {
    return `http://127.0.0.1:${this.port}${path}`
  }

  /** Cuts all connections; new ones are taken. */
  cut(): void {
    this.#server.closeAllConnections()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    this.cut()
    await closed
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const { login, redirect, closes, hangs, pictures } = this.behaviour
    this.authorizations.push(request.headers.authorization)
    if (hangs) return
    const challenge = this.#check.challenge(login, 'GET', request.headers.authorization)
    response.shouldKeepAlive = !closes
    if (challenge !== null) response.writeHead(401, { 'www-authenticate': challenge }).end()
    else if (redirect !== null && request.url !== redirect) response.writeHead(302, { location: redirect }).end()
    else if (request.url === '/stream') this.#stream(response)
    else {
      const picture = pictures[this.#shots++ % pictures.length]!
      this.pictures++
      response.useChunkedEncodingByDefault = !closes
      response.writeHead(200, { 'content-type': 'image/jpeg', ...(closes ? {} : { 'content-length': picture.length }) })
      response.end(picture)
    }
  }

  #stream(response: ServerResponse): void {
    const { boundary, fps, pictures, closes } = this.behaviour
    response.useChunkedEncodingByDefault = !closes
    response.writeHead(200, { 'content-type': `multipart/x-mixed-replace; boundary=${boundary}` })
    let sent = 0
    const send = () => {
      const { delimiter, hasLengths, hangs } = this.behaviour
      const picture = pictures[sent++ % pictures.length]!
      this.longest = Math.max(this.longest, sent)
      this.pictures++
      const length = hasLengths ? `Content-Length: ${picture.length}\r\n` : ''
      if (!hangs) response.write(`${delimiter}\r\nContent-Type: image/jpeg\r\n${length}\r\n`)
      if (!hangs) response.write(Buffer.concat([picture, Buffer.from('\r\n')]))
    }
    if (fps === 0) {
      for (const _ of pictures) send()
      // Without a length, a part ends where the next begins.
      response.write(`${this.behaviour.delimiter}\r\n`)
      return
    }
    if (this.behaviour.startsTwice) send()
    if (this.behaviour.startsTwice) send()
    const timer = setInterval(send, 1000 / fps)
    response.on('close', () => clearInterval(timer))
  }
}
