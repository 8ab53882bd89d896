import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { createServer, type Server } from 'node:tls'
import { fileURLToPath } from 'node:url'

/** Certificate of a camera at 127.0.0.1 or `camera.test`. It has signed it itself. */
export const CERTIFICATE_FILE = fileURLToPath(new URL('../fixtures/test-camera-certificate.pem', import.meta.url))
export const CERTIFICATE = readFileSync(CERTIFICATE_FILE, 'utf8')
/** As OpenSSL prints it. */
export const FINGERPRINT = `sha256:${new X509Certificate(CERTIFICATE).fingerprint256}`

/** Speaks TLS for a camera that does not. */
export class SecureCamera {
  readonly #server: Server
  readonly #camera: { readonly url: string }
  readonly #clients: Set<Socket>

  private constructor(server: Server, camera: { readonly url: string }, clients: Set<Socket>) {
    this.#clients = clients
    this.#server = server
    this.#camera = camera
  }

  /** @param camera what is behind it. */
  static async start(camera: { readonly url: string }): Promise<SecureCamera> {
    const { port } = new URL(camera.url)
    const clients = new Set<Socket>()
    const server = createServer({ key: CERTIFICATE, cert: CERTIFICATE }, (client) => {
      clients.add(client)
      const inner = connect(Number(port), '127.0.0.1')
      client.pipe(inner).pipe(client)
      client.on('error', () => inner.destroy()).on('close', () => inner.destroy())
      inner.on('error', () => client.destroy()).on('close', () => client.destroy())
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return new SecureCamera(server, camera, clients)
  }

  /** The address of the camera, with TLS. */
  get url(): string {
    const { protocol, port, href } = new URL(this.#camera.url)
    const { port: ours } = this.#server.address() as { port: number }
    return href.replace(protocol, protocol.replace(':', 's:')).replace(`:${port}`, `:${ours}`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    for (const client of this.#clients) client.destroy()
    await closed
  }
}
