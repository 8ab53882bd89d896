import { once } from 'node:events'
import { connect } from 'node:net'
import { createServer, getCACertificates, setDefaultCACertificates } from 'node:tls'
import { expect, it, onTestFinished } from 'vitest'
import { CERTIFICATE } from '../../../../test/support/secure-camera.ts'
import { openWire } from './camera-wire.ts'

it('trusts a certificate that an authority has signed for the host', async () => {
  const known = getCACertificates('default')
  onTestFinished(() => setDefaultCACertificates(known))
  const server = createServer({ key: CERTIFICATE, cert: CERTIFICATE }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  const isTrusted = async (host: string) => {
    const source = { type: 'rtsp', url: `rtsps://${host}/live`, username: null, password: null } as const
    const socket = connect(port, '127.0.0.1')
    const ready = Promise.withResolvers<boolean>()
    const listener = { onReady: ready.resolve, onBytes() {}, onEnd() {}, onClose() {} }
    const wire = openWire(socket, { ...source, certificate: 'verify' }, listener)
    try {
      return await ready.promise
    } finally {
      wire.destroy()
    }
  }
  expect(await isTrusted('camera.test')).toBe(false)
  setDefaultCACertificates([CERTIFICATE])
  for (const host of ['camera.test', '127.0.0.1']) expect(await isTrusted(host), host).toBe(true)
  for (const host of ['other.test', '127.0.0.2', '[::1]']) expect(await isTrusted(host), host).toBe(false)
})
