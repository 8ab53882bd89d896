import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { deflateSync } from 'node:zlib'
import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { DecoderPool } from '../src/media/decoding/process/decoder-pool.ts'
import { FakeEngine } from './support/fake-engine.ts'
import { makePdf, type PdfOptions, type PdfPage, streamOf } from './support/pdf.ts'
import { errorOf, startTestServer, type TestServer } from './support/server.ts'

/** PDFs that are broken, or meant to end the server. Each gets a reply or a 400 that says why, and the next one is read. */
const model = 'service-mk1.5'
let server: TestServer
let engine: FakeEngine
let decoders: DecoderPool

beforeAll(async () => {
  engine = new FakeEngine()
  engine.script = { texts: ['None.'] }
  decoders = new DecoderPool()
  server = await startTestServer({ engine, decoders })
})
afterAll(async () => {
  await server?.close()
  await decoders?.close()
})

/** The most memory of all kinds that a process has had, in bytes; 0 for one that has ended, or is about to. */
function peakOf(pid: number): number {
  try {
    const [, kilobytes = 0] = /^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
    return Number(kilobytes) * 1024
  } catch {
    return 0
  }
}

afterEach(() => {
  if (process.platform === 'linux') for (const pid of decoders.pids) expect(peakOf(pid)).toBeLessThan(512_000_000)
})

const ask = (bytes: Uint8Array, by = server) => {
  const file = { file_data: `data:application/pdf;base64,${Buffer.from(bytes).toString('base64')}` }
  return by.post('/v1/chat/completions', { model, messages: [{ role: 'user', content: [{ type: 'file', file }] }] })
}
const one = (page: PdfPage, options?: PdfOptions) => makePdf([page], options)
const text = (bytes: Buffer, from: string, to: string) =>
  Buffer.from(bytes.toString('latin1').replace(from, to), 'latin1')
const packed = (content: string | Buffer, entries = '') =>
  streamOf(deflateSync(content, { level: 1 }), `/Filter /FlateDecode ${entries}`)
/** A page that draws its object 5. */
const drawing = (object: Buffer, more: readonly Buffer[] = []) =>
  one({ content: '595 0 0 842 0 0 cm /X Do', resources: '/XObject << /X 5 0 R >>' }, { objects: [object, ...more] })
const form = (content: string, resources = '') =>
  streamOf(content, `/Type /XObject /Subtype /Form /BBox [0 0 595 842] /Resources << ${resources} >>`)

describe.each<[string, RegExp, () => Uint8Array]>([
  ['nothing behind its head', /damaged or no PDF/, () => Buffer.from('%PDF-1.7\n')],
  ['noise', /damaged or no PDF/, () => Buffer.concat([Buffer.from('%PDF-1.7\n'), randomBytes(100_000)])],
  ['no pages', /has no pages/, () => makePdf([])],
  ['pages that hold themselves', /Page 1 of the document is damaged/, () => text(one({}), '/Kids [3 0', '/Kids [2 0')],
  [
    'a password',
    /protected by a password/,
    () => {
      const lock = `<< /Filter /Standard /V 1 /R 2 /O <${'00'.repeat(32)}> /U <${'11'.repeat(32)}> /P -4 >>`
      return one({}, { objects: [lock], trailer: '/Encrypt 5 0 R /ID [<00><00>]' })
    },
  ],
  ['a drawing that draws itself', /nested too deeply/, () => drawing(form('/X Do /X Do', '/XObject << /X 5 0 R >>'))],
])('a PDF with %s', (_, message, make) => {
  test('gets a sentence', () => getsSentence(make(), message))
})

async function getsSentence(bytes: Uint8Array, message: RegExp, by = server): Promise<void> {
  const response = await ask(bytes, by)
  const error = await errorOf(response)
  expect([response.status, error.param]).toEqual([400, 'messages[0].content[0].file.file_data'])
  expect(error.message).toMatch(message)
  expect((await ask(one({}), by)).status).toBe(200)
}

test('a PDF with a pattern of a thousand billion tiles gets a sentence', async () => {
  const tile = '/Type /Pattern /PatternType 1 /PaintType 1 /TilingType 1 /BBox [0 0 1 1] /XStep 0.001 /YStep 0.001'
  const content = '/Pattern cs /P scn 0 0 595 842 re f'
  const objects = [streamOf('1 0 0 rg 0 0 1 1 re f', `${tile} /Resources << >>`)]
  const bytes = one({ content, resources: '/Pattern << /P 5 0 R >>' }, { objects })
  // Work for an empty page of a busy machine's: only work counts.
  const impatient = new DecoderPool({ timeoutMs: 5_000 })
  onTestFinished(() => impatient.close())
  const other = await startTestServer({ engine, decoders: impatient })
  onTestFinished(() => other.close())
  await getsSentence(bytes, /Page 1 of the document takes too long/, other)
})

describe.each<[string, () => Uint8Array]>([
  ['a page of a thousand kilometres', () => one({ box: [0, 0, 3e9, 3e9], content: '0 0 1e9 1e9 re f' })],
  ['a page like a thread', () => one({ box: [0, 0, 0.001, 1e6] })],
  ['a page without a size', () => one({ box: [0, 0, 0, 0] })],
  ['a number of pages that is a lie', () => text(one({}), '/Count 1 ', '/Count 2147483647 ')],
  ['a table that goes back to itself', () => one({}, { trailer: '/Prev 9' })],
  ['a hundred thousand dictionaries in one another', () => one({ entries: `/Foo ${'<< /A '.repeat(100_000)}` })],
  ['content of 16 MB', () => one({ entries: '/Contents 5 0 R' }, { objects: [packed('q '.repeat(8_000_000))] })],
  [
    'a picture that it does not hold',
    () => drawing(packed('', '/Subtype /Image /Width 65000 /Height 65000 /BitsPerComponent 8 /ColorSpace /DeviceRGB')),
  ],
])('a PDF with %s', (_, make) => {
  test('is no reason for a 5xx', async () => {
    expect((await ask(make())).status).toBeLessThan(500)
    expect((await ask(one({}))).status).toBe(200)
  })
})

/** It has more pixels than one of A4 at 600 dpi. */
test('a sheet of A0 at 200 dpi is shown', async () => {
  const box = [0, 0, 2384, 3370] as const
  const [width, height] = [6622, 9362]
  const entries = `/Subtype /Image /Width ${width} /Height ${height} /BitsPerComponent 8 /ColorSpace /DeviceRGB`
  const scan = packed(Buffer.alloc(width * height * 3, 85), entries)
  const page = { box, content: `${box[2]} 0 0 ${box[3]} 0 0 cm /X Do`, resources: '/XObject << /X 5 0 R >>' }
  expect((await ask(one(page, { objects: [scan] }))).status).toBe(200)
  const { prefix, branches } = engine.works.at(-1)!
  const shown = [...prefix, ...branches[0]!.suffix]
  const pixels = shown.flatMap((part) => (part.type === 'image' ? [part.image.data] : []))
  expect(pixels.map((data) => Buffer.alloc(data.length, 85).equals(data))).toEqual([true])
})

test('a PDF that is cut or changed anywhere is read, or gets a 400', async () => {
  const whole = makePdf([{ content: '1 0 0 rg 0 0 100 100 re f' }, { content: 'BT /F1 20 Tf 50 500 Td (Hello) Tj ET' }])
  const at = fc.integer({ min: 8, max: whole.length - 1 })
  const broken = fc.oneof(
    at.map((end) => whole.subarray(0, end)),
    fc.array(fc.tuple(at, fc.integer({ min: 0, max: 255 })), { minLength: 1, maxLength: 40 }).map((changes) => {
      const bytes = Buffer.from(whole)
      for (const [place, byte] of changes) bytes[place] = byte
      return bytes
    }),
  )
  await fc.assert(
    fc.asyncProperty(broken, async (bytes) => {
      expect([200, 400]).toContain((await ask(bytes)).status)
    }),
    { numRuns: 20 },
  )
})
