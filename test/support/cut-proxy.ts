import { connect, createServer, type NetConnectOpts, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { Transform } from 'node:stream'
import { freePort } from './free-port.ts'

/** A TCP proxy to a service, whose connection can be cut and restored. */
export class CutProxy {
  readonly port: number
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  /** Those of them that clients have opened. */
  readonly #near = new Set<Socket>()
  #hangs = false
  /** By how much everything is late, either way. */
  lateMs = 0

  private constructor(target: NetConnectOpts, port: number) {
    this.port = port
    this.#server = createServer((near) => {
      const far = connect(target)
      this.#near.add(near.once('close', () => this.#near.delete(near)))
      for (const [one, other] of [
        [near, far],
        [far, near],
      ] as const) {
        this.#sockets.add(one)
        if (!this.#hangs) one.pipe(this.#late()).pipe(other)
        one.on('error', () => other.destroy())
        one.on('close', () => {
          this.#sockets.delete(one)
          other.destroy()
        })
      }
    })
  }

  static async start(port: number, host = '127.0.0.1'): Promise<CutProxy> {
    return CutProxy.#to({ port, host })
  }

  /** Starts a proxy to a database. The host of the URL may be the folder of a Unix socket. */
  static toDatabase(url: string): Promise<CutProxy> {
    const { hostname, port } = new URL(url)
    const host = decodeURIComponent(hostname)
    const number = Number(port || 5432)
    return CutProxy.#to(host.startsWith('/') ? { path: join(host, `.s.PGSQL.${number}`) } : { port: number, host })
  }

  static async #to(target: NetConnectOpts): Promise<CutProxy> {
    const proxy = new CutProxy(target, await freePort())
    await proxy.mend()
    return proxy
  }

  #late(): Transform {
    return new Transform({ transform: (bytes, _, pass) => void setTimeout(pass, this.lateMs, null, bytes) })
  }

  /** Closes all connections and rejects new ones. */
  async cut(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  /** Passes on nothing any more, of new connections neither. */
  hang(): void {
    this.#hangs = true
    for (const socket of this.#sockets) socket.unpipe().pause()
  }

  /** Parts the connections that are open from the service; new ones work. @param answer to what is still sent over them. */
  lose(answer = ''): void {
    for (const socket of this.#sockets) socket.unpipe()
    for (const near of this.#near) near.on('data', () => near.write(answer))
  }

  async mend(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(this.port, '127.0.0.1', resolve))
  }
}
