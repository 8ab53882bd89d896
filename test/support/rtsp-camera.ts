import { createServer, type Server, type Socket } from 'node:net'
import { type CameraLogin, LoginCheck } from './camera-login.ts'
import { type CameraVideo, packetize, splitNals } from './camera-video.ts'

const CLOCK = 90_000
const NTP_EPOCH = 2_208_988_800

/** What the camera does, which may change while it plays. */
export interface CameraBehaviour {
  video: CameraVideo
  /** 0: it sends the video once, at once. Otherwise it repeats it. */
  fps: number
  login: CameraLogin | null
  /** Says nothing, with open connections. What it would have sent comes at once when it goes on. */
  hangs: boolean
  /** Loses each packet of that number; 0: none. */
  loses: number
  /** The RTP timestamp of a unit by its number. */
  timestampOf: (unit: number) => number
  /** What RTCP tells is so far from the right time, in milliseconds; null: it sends no RTCP. */
  clockOffset: number | null
  /** Sent between the packets. */
  garbage: Buffer | null
  /** Maximum size of a packet's payload. */
  packetSize: number
  aggregates: boolean
  /** Which packets have the marker. */
  marks: 'last' | 'none' | 'all'
  /** Parameter sets are in the description only. */
  setsInSdpOnly: boolean
  /** In place of the description. */
  sdp: string | null
  /** The description has no end. */
  isEndless: boolean
  redirect: string | null
  /** Seconds. */
  sessionTimeout: number
}

/** An RTSP server with one video, over TCP only, which can misbehave. */
export class RtspCamera {
  readonly port: number
  /** The heads of all requests. */
  readonly requests: string[] = []
  readonly behaviour: CameraBehaviour
  readonly #server: Server
  readonly #viewers = new Set<Viewer>()

  private constructor(server: Server, behaviour: CameraBehaviour) {
    this.#server = server
    this.behaviour = behaviour
    this.port = (server.address() as { port: number }).port
    const check = new LoginCheck()
    server.on('connection', (socket) => {
      const viewer = new Viewer(socket, this, check)
      this.#viewers.add(viewer)
      socket.on('close', () => this.#viewers.delete(viewer))
    })
  }

  static async start(video: CameraVideo, behaviour: Partial<CameraBehaviour> = {}, port = 0): Promise<RtspCamera> {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
    const fps = behaviour.fps ?? 10
    return new RtspCamera(server, {
      video,
      fps,
      login: null,
      hangs: false,
      loses: 0,
      timestampOf: (unit) => Math.round((unit * CLOCK) / (fps || 10)),
      clockOffset: null,
      garbage: null,
      packetSize: 1400,
      aggregates: false,
      marks: 'last',
      setsInSdpOnly: false,
      sdp: null,
      isEndless: false,
      redirect: null,
      sessionTimeout: 60,
      ...behaviour,
    })
  }

  get url(): string {
    return `rtsp://127.0.0.1:${this.port}/live`
  }

  /** Connections that are open. */
  get viewers(): number {
    return this.#viewers.size
  }

  /** Cuts all connections; new ones are taken. */
  cut(): void {
    for (const viewer of this.#viewers) viewer.cut()
  }

  /** Ends all connections in order. */
  end(): void {
    for (const viewer of this.#viewers) viewer.end()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    this.cut()
    await closed
  }
}

class Viewer {
  readonly #socket: Socket
  readonly #camera: RtspCamera
  readonly #check: LoginCheck
  #input = ''
  #timer: NodeJS.Timeout | null = null
  #sequence = 65_530
  #packets = 0
  #unit = 0
  #backlog: Buffer[] = []

  constructor(socket: Socket, camera: RtspCamera, check: LoginCheck) {
    this.#socket = socket
    this.#camera = camera
    this.#check = check
    socket.setNoDelay()
    socket.on('data', (bytes) => this.#read(bytes.toString('latin1')))
    socket.on('error', () => {})
    socket.on('close', () => clearInterval(this.#timer ?? undefined))
  }

  cut(): void {
    clearInterval(this.#timer ?? undefined)
    this.#socket.destroy()
  }

  end(): void {
    clearInterval(this.#timer ?? undefined)
    this.#socket.end()
  }

  #read(text: string): void {
    this.#input += text
    for (let end = this.#input.indexOf('\r\n\r\n'); end >= 0; end = this.#input.indexOf('\r\n\r\n')) {
      const head = this.#input.slice(0, end)
      this.#input = this.#input.slice(end + 4)
      this.#camera.requests.push(head)
      if (!this.#camera.behaviour.hangs) this.#answer(head)
    }
  }

  #answer(head: string): void {
    const { login, redirect, sdp, isEndless, sessionTimeout } = this.#camera.behaviour
    const method = head.split(' ')[0]!
    const cseq = /CSeq: (\d+)/.exec(head)?.[1]
    const reply = (status: string, headers: string[] = [], body = '') => {
      const length = body === '' ? [] : [`Content-Length: ${Buffer.byteLength(body)}`]
      this.#socket.write(
        `RTSP/1.0 ${status}\r\n${[`CSeq: ${cseq}`, ...headers, ...length].join('\r\n')}\r\n\r\n${body}`,
      )
    }
    const challenge = this.#check.challenge(login, method, /Authorization: (.*)/.exec(head)?.[1])
    const session = `Session: 1234;timeout=${sessionTimeout}`
    const base = `Content-Base: ${this.#camera.url}/`
    if (challenge !== null) reply('401 Unauthorized', [`WWW-Authenticate: ${challenge}`])
    else if (redirect !== null) reply('302 Found', [`Location: ${redirect}`])
    else if (method === 'OPTIONS') reply('200 OK', ['Public: OPTIONS, DESCRIBE, SETUP, PLAY, GET_PARAMETER, TEARDOWN'])
    else if (method === 'DESCRIBE' && isEndless) this.#describeForEver()
    else if (method === 'DESCRIBE') reply('200 OK', [base], sdp ?? describe(this.#camera.behaviour.video))
    else if (method === 'SETUP') reply('200 OK', ['Transport: RTP/AVP/TCP;unicast;interleaved=0-1', session])
    else reply('200 OK', [session])
    if (challenge === null && method === 'PLAY') this.#play()
  }

  #describeForEver(): void {
    this.#socket.write(
      'RTSP/1.0 200 OK\r\nCSeq: 2\r\nContent-Type: application/sdp\r\nContent-Length: 999999999\r\n\r\n',
    )
    this.#timer = setInterval(() => this.#socket.write('a=x\r\n'.repeat(1000)), 1)
  }

  #play(): void {
    const { fps, video } = this.#camera.behaviour
    if (fps === 0) for (const _ of video.units) this.#sendUnit()
    else this.#timer = setInterval(() => this.#sendUnit(), 1000 / fps)
  }

  #sendUnit(): void {
    const { video, hangs, loses, timestampOf, clockOffset, garbage, marks, ...how } = this.#camera.behaviour
    const number = this.#unit++
    const timestamp = timestampOf(number) % 2 ** 32
    if (clockOffset !== null) this.#backlog.push(interleaved(1, senderReport(Date.now() + clockOffset, timestamp)))
    if (garbage !== null) this.#backlog.push(garbage)
    const all = splitNals(video.units[number % video.units.length]!)
    const nals = how.setsInSdpOnly ? all.filter((nal) => !isSet(video.codec, nal)) : all
    const payloads = packetize(video.codec, nals, how.packetSize, how.aggregates)
    for (const [i, payload] of payloads.entries()) {
      const isMarked = marks === 'all' || (marks === 'last' && i === payloads.length - 1)
      const packet = rtpPacket({ sequence: this.#sequence++ & 0xffff, timestamp, payload, isMarked })
      if (loses === 0 || ++this.#packets % loses !== 0) this.#backlog.push(interleaved(0, packet))
    }
    if (hangs) return
    this.#socket.write(Buffer.concat(this.#backlog))
    this.#backlog = []
  }
}

export function interleaved(channel: number, packet: Buffer): Buffer {
  return Buffer.concat([Buffer.from([0x24, channel, packet.length >> 8, packet.length & 255]), packet])
}

export interface SentPacket {
  readonly sequence: number
  readonly timestamp: number
  readonly payload: Buffer
  readonly isMarked: boolean
}

export function rtpPacket({ sequence, timestamp, payload, isMarked }: SentPacket): Buffer {
  const header = Buffer.alloc(12)
  header[0] = 0x80
  header[1] = 96 | (isMarked ? 0x80 : 0)
  header.writeUInt16BE(sequence, 2)
  header.writeUInt32BE(timestamp, 4)
  header.writeUInt32BE(7, 8)
  return Buffer.concat([header, payload])
}

/** RTCP's relation of a timestamp to a time, in Unix milliseconds. */
export function senderReport(unix: number, timestamp: number): Buffer {
  const report = Buffer.alloc(28)
  report[0] = 0x80
  report[1] = 200
  report.writeUInt16BE(6, 2)
  report.writeUInt32BE((Math.floor(unix / 1000) + NTP_EPOCH) % 2 ** 32, 8)
  report.writeUInt32BE(Math.floor(((unix % 1000) / 1000) * 2 ** 32), 12)
  report.writeUInt32BE(timestamp, 16)
  return report
}

function isSet(codec: CameraVideo['codec'], nal: Buffer): boolean {
  const type = codec === 'h264' ? nal[0]! & 31 : (nal[0]! >> 1) & 63
  return codec === 'h264' ? type === 7 || type === 8 : type >= 32 && type <= 34
}

/** An SDP of a sound and the video. */
export function describe(video: CameraVideo): string {
  const sets = splitNals(video.units[0]!)
    .filter((nal) => isSet(video.codec, nal))
    .map((nal) => nal.toString('base64'))
  const [name, format] =
    video.codec === 'h264'
      ? ['H264', `packetization-mode=1; sprop-parameter-sets=${sets.join(',')}`]
      : ['H265', `sprop-vps=${sets[0]}; sprop-sps=${sets[1]}; sprop-pps=${sets[2]}`]
  const lines = ['v=0', 'o=- 0 0 IN IP4 127.0.0.1', 's=camera', 't=0 0', 'a=control:*']
  lines.push('m=audio 0 RTP/AVP 8', 'a=control:track1', 'm=video 0 RTP/AVP 96', `a=rtpmap:96 ${name}/${CLOCK}`)
  return [...lines, `a=fmtp:96 ${format}`, 'a=control:track2', ''].join('\r\n')
}
