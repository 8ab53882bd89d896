import { readFile } from 'node:fs/promises'
import sharp from 'sharp'
import { afterEach, expect, it } from 'vitest'
import { DecoderPool } from './decoder-pool.ts'

const target = { pixelsPerToken: 32, minTokens: 36, maxTokens: 64 }
const never = new AbortController().signal
const small = () =>
  sharp({ create: { width: 64, height: 64, channels: 3, background: '#ff0000' } })
    .png()
    .toBuffer()
/** Takes the decoder long enough to be caught in the act. */
const large = () =>
  sharp({ create: { width: 9000, height: 9000, channels: 3, background: '#00ff00' } })
    .png({ compressionLevel: 1 })
    .toBuffer()

let pool: DecoderPool

afterEach(() => pool.close())

const decode = (bytes: Uint8Array, param = 'p', signal = never) =>
  pool.decode({ type: 'image', bytes, target, region: null }, param, signal)

it('an input that takes its process down gets a 400, and the next one is decoded', async () => {
  pool = new DecoderPool({ size: 1 })
  const doomed = decode(await large(), 'messages[0]')
  const next = decode(await small())
  setTimeout(() => process.kill(pool.pids[0]!, 'SIGKILL'), 150)
  await expect(doomed).rejects.toMatchObject({ status: 400, param: 'messages[0]' })
  expect((await next).original).toEqual({ width: 64, height: 64 })
})

it('what is decoded beside it notices nothing', async () => {
  pool = new DecoderPool({ size: 2 })
  const big = await large()
  const [doomed, other] = [decode(big), decode(big)]
  setTimeout(() => process.kill(pool.pids[0]!, 'SIGKILL'), 150)
  await expect(doomed).rejects.toMatchObject({ status: 400 })
  expect((await other).original.width).toBe(9000)
})

it('an input that takes too long gets a 400, and its process is replaced', async () => {
  pool = new DecoderPool({ size: 1, timeoutMs: 20 })
  await expect(decode(await large())).rejects.toMatchObject({ status: 400, message: /too long/ })
  const [slow] = pool.pids
  await pool.close()
  expect(slow === undefined || !isAlive(slow)).toBe(true)
})

it('an input that nobody waits for any more is not decoded to its end', async () => {
  pool = new DecoderPool({ size: 1 })
  const controller = new AbortController()
  const unwanted = decode(await large(), 'p', controller.signal)
  const [busy] = pool.pids
  setTimeout(() => controller.abort(new Error('client gone')), 150)
  await expect(unwanted).rejects.toThrow('client gone')
  expect((await decode(await small())).original.width).toBe(64)
  expect(pool.pids).not.toContain(busy)
})

// Other systems' shells take the limit and do not keep it.
it.runIf(process.platform === 'linux')('its memory is limited', async () => {
  pool = new DecoderPool({ size: 1, memoryBytes: 2 ** 30 })
  await decode(await small())
  const limits = await readFile(`/proc/${pool.pids[0]}/limits`, 'utf8')
  expect(limits).toMatch(new RegExp(`Max data size +${2 ** 30} +${2 ** 30} +bytes`))
})

it('it does not get the environment of the server, which may hold keys', async () => {
  process.env.LOOKOUT_TEST_SECRET = 'secret'
  pool = new DecoderPool({ size: 1 })
  await decode(await small())
  if (process.platform !== 'linux') return
  expect(await readFile(`/proc/${pool.pids[0]}/environ`, 'utf8')).not.toContain('secret')
})

it('closing fails what waits and what runs', async () => {
  pool = new DecoderPool({ size: 1 })
  const big = await large()
  const failed = [decode(big), decode(big)].map((pending) => expect(pending).rejects.toThrow('closed'))
  await pool.close()
  await Promise.all(failed)
})

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
