import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { promptText } from './support/chat.ts'
import { FakeEngine } from './support/fake-engine.ts'
import { makePdf, streamOf } from './support/pdf.ts'
import { errorOf, jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'
import { makeTiff } from './support/tiff.ts'

/** PDFs, whose pages the model sees as images, through every API that takes an image. */
const model = 'service-mk1.5'
let server: TestServer
let engine: FakeEngine
/** Has the PDF of three pages. */
let elsewhere: Server
let address: string

beforeAll(async () => {
  engine = new FakeEngine()
  elsewhere = createServer((_request, response) => response.end(threePages))
  await new Promise<void>((resolve) => elsewhere.listen(0, '127.0.0.1', resolve))
  const host = `127.0.0.1:${(elsewhere.address() as AddressInfo).port}`
  address = `http://${host}/report.pdf`
  const environment = { LOOKOUT_BATCH_LINES: '2', LOOKOUT_MEDIA_HOSTS: host, LOOKOUT_OLLAMA: 'on' }
  server = await startTestServer({ engine, environment })
})
afterAll(async () => {
  await server?.close()
  elsewhere?.close()
})
beforeEach(() => {
  engine.works.length = 0
  engine.script = { texts: ['None.'] }
})

const RED = [255, 0, 0]
const GREEN = [0, 255, 0]
const BLUE = [0, 0, 255]
const WHITE = [255, 255, 255]
const filled = (colour: readonly number[], entries = '') => ({
  content: `${colour.map((value) => value / 255).join(' ')} rg -9999 -9999 20000 20000 re f`,
  entries,
})
const threePages = makePdf([filled(RED), filled(GREEN), filled(BLUE)])
const dataUrl = (bytes: Uint8Array) => `data:application/pdf;base64,${Buffer.from(bytes).toString('base64')}`
const file = (fields: object) => ({ type: 'file', file: fields })
const ask = (...content: object[]) =>
  server.post('/v1/chat/completions', { model, messages: [{ role: 'user', content }] })

interface Shown {
  readonly width: number
  readonly height: number
  readonly data: Uint8Array
}

/** The images in the prompt that the engine got last. */
async function seen(response: Response): Promise<Shown[]> {
  expect(response.status, await response.clone().text()).toBe(200)
  const work = engine.works.at(-1)!
  const parts = [...work.prefix, ...work.branches[0]!.suffix]
  return parts.flatMap((part) => (part.type === 'image' ? [part.image] : []))
}

/** The colour at a place, given in shares of the sides. */
function at({ width, height, data }: Shown, x: number, y: number): number[] {
  const start = (Math.floor(y * height) * width + Math.floor(x * width)) * 3
  return [...data.subarray(start, start + 3)]
}

const middles = (images: readonly Shown[]) => images.map((image) => at(image, 0.5, 0.5))

async function upload(bytes: Uint8Array, { purpose = 'user_data', type = 'application/pdf' } = {}): Promise<Response> {
  const form = new FormData()
  form.append('purpose', purpose)
  form.append('file', new Blob([new Uint8Array(bytes)], { type }), 'report.pdf')
  return fetch(`${server.url}/v1/files`, { method: 'POST', headers: { authorization: `Bearer ${KEY}` }, body: form })
}

describe('a file part of a chat', () => {
  test('shows each page as an image, in order', async () => {
    const response = await ask(file({ file_data: dataUrl(threePages), filename: 'report.pdf' }), {
      type: 'text',
      text: 'What is it?',
    })
    expect(middles(await seen(response))).toEqual([RED, GREEN, BLUE])
  })

  test('takes base64 without a head, and an uploaded file', async () => {
    expect(await seen(await ask(file({ file_data: threePages.toString('base64') })))).toHaveLength(3)
    const { id } = await jsonOf<{ id: string }>(await upload(threePages))
    expect(middles(await seen(await ask(file({ file_id: id }))))).toEqual([RED, GREEN, BLUE])
  })

  test.each([
    ['a blank line', '\r\n'],
    ['a byte order mark', '\xef\xbb\xbf'],
    ['lines of text', `${'Sent by the scanner.\n'.repeat(40)}  `],
  ])('takes a PDF that begins after %s', async (_, text) => {
    const bytes = Buffer.concat([Buffer.from(text, 'latin1'), threePages])
    expect(middles(await seen(await ask(file({ file_data: dataUrl(bytes) }))))).toEqual([RED, GREEN, BLUE])
    const { id } = await jsonOf<{ id: string }>(await upload(bytes))
    expect(middles(await seen(await ask(file({ file_id: id }))))).toEqual([RED, GREEN, BLUE])
    const messages = [{ role: 'user', content: 'Hi', images: [bytes.toString('base64')] }]
    expect(await seen(await server.post('/api/chat', { model, stream: false, messages }))).toHaveLength(3)
  })

  test('takes no text that mentions the mark of a PDF, nor one with a mark further on', async () => {
    for (const text of ['A file begins with %PDF-1.7', `${' '.repeat(1024)}\n%PDF-1.7`]) {
      const error = await errorOf(await ask(file({ file_data: dataUrl(Buffer.from(text)) })))
      expect(error.message).toContain('the data is an unknown type')
    }
  })

  test('shows the pages that are asked for', async () => {
    const shown = async (pages: string) =>
      middles(await seen(await ask(file({ file_data: dataUrl(threePages), pages }))))
    expect(await shown('2')).toEqual([GREEN])
    expect(await shown('2-')).toEqual([GREEN, BLUE])
    expect(await shown('3, 1 - 2,1')).toEqual([BLUE, RED, GREEN])
  })

  test('a page that does not exist, and an invalid selection, are named', async () => {
    for (const [pages, message] of [
      ['4', 'names page 4, but the document has 3'],
      ['2-9', 'names page 4, but the document has 3'],
      ['all', "expected pages such as '1-3,5'"],
      ['0', "expected pages such as '1-3,5'"],
      ['1,3-2', "expected pages such as '1-3,5'"],
      // It may be read in many ways, which others would wait for.
      [`${'1- ,'.repeat(32)}x`, "expected pages such as '1-3,5'"],
    ] as const) {
      const error = await errorOf(await ask(file({ file_data: dataUrl(threePages), pages })))
      expect(error.param).toBe('messages[0].content[0].file.pages')
      expect(error.message).toContain(message)
    }
  })

  test('counts each page against the limit of images', async () => {
    const many = dataUrl(makePdf(Array.from({ length: 257 }, () => ({}))))
    const error = await errorOf(await ask(file({ file_data: many })))
    expect(error).toMatchObject({ param: 'messages[0].content[0].file.pages', type: 'invalid_request_error' })
    expect(error.message).toContain('at most 256 images')
    expect(await seen(await ask(file({ file_data: many, pages: '250-257' })))).toHaveLength(8)
  })
})

describe('a text', () => {
  const textUrl = (type: string, bytes: string | Uint8Array) =>
    `data:${type};base64,${Buffer.from(bytes).toString('base64')}`

  test('is shown as it is, below its name', async () => {
    const long = 'a,b\n'.repeat(6_000)
    const parts = [
      [file({ file_data: textUrl('text/plain', 'Grüße.'), filename: 'a.txt' }), 'a.txt\n\nGrüße.'],
      [file({ file_data: textUrl('text/csv; charset=utf-8', long) }), long],
      [file({ file_data: textUrl('application/json', '{"a": 1}') }), '{"a": 1}'],
      // As the files of some videos begin.
      [file({ file_data: textUrl('text/plain', '\uFEFFThe wide river') }), 'The wide river'],
    ] as const
    for (const [part, text] of parts) {
      const response = await ask(part)
      expect([response.status, promptText(engine)]).toEqual([200, expect.stringContaining(`user\n${text}<|im_end|>`)])
    }
    // A large body is read in a thread.
    const messages = [{ role: 'user', content: [parts[1]![0]] }]
    const large = await server.post('/v1/chat/completions', { model, messages, ignored: 'x'.repeat(200_000) })
    expect([large.status, promptText(engine)]).toEqual([200, expect.stringContaining(`user\n${long}`)])
    const looked = await server.post('/v1/chat/completions/multilook', {
      ...{ model, prompts: ['And?'], context: [{ role: 'user', content: [parts[0]![0]] }] },
    })
    expect([looked.status, promptText(engine)]).toEqual([200, expect.stringContaining('Grüße.')])
  })

  test('in a response is part of the conversation that goes on', async () => {
    const part = { type: 'input_file', filename: 'a.txt', file_data: textUrl('text/plain', 'Grüße.') }
    const input = [{ role: 'user', content: [{ type: 'input_text', text: 'What? ' }, part] }]
    const first = await jsonOf<{ id: string }>(await server.post('/v1/responses', { model, input }))
    const said = 'user\nWhat? a.txt\n\nGrüße.<|im_end|>'
    expect(promptText(engine)).toContain(said)
    await server.post('/v1/responses', { model, input: 'And?', previous_response_id: first.id })
    expect(promptText(engine)).toMatch(new RegExp(`${said.replace('?', '\\?').replaceAll('|', '\\|')}[^]*And\\?`))
    const output = [{ type: 'input_file', file_data: part.file_data }]
    const call = { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' }
    const tools = [{ type: 'function', name: 'f', parameters: {} }]
    const answered = [...input, call, { type: 'function_call_output', call_id: 'c', output }]
    expect((await server.post('/v1/responses', { model, input: answered, tools })).status).toBe(200)
    expect(promptText(engine)).toContain('<tool_response>\nGrüße.\n</tool_response>')
  })

  test('is among the input items of a response as it was sent', async () => {
    const long = 'a,b\n'.repeat(6_000)
    const output = [{ type: 'input_file', file_data: textUrl('text/plain', 'The wide river') }]
    const content = [
      { type: 'input_file', filename: 'a.txt', file_data: textUrl('text/plain', 'Grüße.') },
      { type: 'input_file', file_data: textUrl('text/csv', long) },
    ]
    const input = [
      { role: 'user', content },
      { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c', output },
    ]
    const tools = [{ type: 'function', name: 'f', parameters: {} }]
    // A large body is read in a thread, where media becomes bytes.
    const asked = { model, input, tools, ignored: 'x'.repeat(200_000) }
    const { id } = await jsonOf<{ id: string }>(await server.post('/v1/responses', asked))
    const items = await server.get(`/v1/responses/${id}/input_items?order=asc`)
    expect(await jsonOf(items)).toMatchObject({ data: [{ content }, {}, { output }] })
    const more = await server.post('/v1/responses', { model, input: 'And?', previous_response_id: id })
    expect([more.status, promptText(engine)]).toEqual([200, expect.stringContaining(`Grüße.${long}`)])
  })

  test('is read in the charset of its mark, or in that of its data URL', async () => {
    const utf16 = Buffer.from('Grüße.', 'utf16le')
    const marked = Buffer.concat([Buffer.of(0xff, 0xfe), utf16])
    const latin1 = Buffer.from('Grüße.', 'latin1')
    for (const url of [
      textUrl('text/plain', marked),
      textUrl('text/plain', Buffer.from(marked).swap16()),
      textUrl('text/plain;charset=iso-8859-1', marked),
      textUrl('text/csv; header=present; charset="ISO-8859-1"', latin1),
      textUrl('text/plain;charset=utf-16le', utf16),
      textUrl('text/plain;charset=unknown', 'Grüße.'),
      'data:text/plain;charset=windows-1252,Gr%FC%DFe.',
    ]) {
      const asked = { file_data: url, filename: 'a.txt' }
      const shown = expect.stringContaining('user\na.txt\n\nGrüße.<|im_end|>')
      const chat = await ask(file(asked))
      expect([url, chat.status, promptText(engine)]).toEqual([url, 200, shown])
      const input = [{ role: 'user', content: [{ type: 'input_file', ...asked }] }]
      const atAddress = [{ role: 'user', content: [{ type: 'input_file', file_url: url, filename: 'a.txt' }] }]
      for (const sent of [input, atAddress]) {
        const response = await server.post('/v1/responses', { model, input: sent })
        expect([url, response.status, promptText(engine)]).toEqual([url, 200, shown])
      }
    }
  })

  test('at an address of clients of Mistral’s API is shown below its name', async () => {
    const part = { type: 'document_url', document_url: textUrl('text/plain', 'Grüße.'), document_name: 'a.txt' }
    const response = await ask(part)
    expect([response.status, promptText(engine)]).toEqual([
      200,
      expect.stringContaining('user\na.txt\n\nGrüße.<|im_end|>'),
    ])
  })

  test('is what its bytes are, not what it is called', async () => {
    const pages = await seen(await ask(file({ file_data: textUrl('text/plain', threePages) })))
    expect(middles(pages)).toEqual([RED, GREEN, BLUE])
    const refused = await errorOf(await ask(file({ file_data: textUrl('text/plain', 'A text'), pages: '1' })))
    expect(refused.message).toContain('the data is an unknown type')
    for (const bytes of [Uint8Array.of(0xff, 0x41, 0x42), 'A\0 \0t\0']) {
      const file_data = textUrl('text/plain', bytes)
      const message = expect.stringContaining('expected a text in UTF-8, or with its charset')
      expect(await errorOf(await ask(file({ file_data })))).toMatchObject({
        ...{ message, param: 'messages[0].content[0].file.file_data' },
      })
      const input = [{ role: 'user', content: [{ type: 'input_file', file_data }] }]
      expect(await errorOf(await server.post('/v1/responses', { model, input }))).toMatchObject({
        ...{ message, param: 'input[0].content[0].file_data' },
      })
    }
  })
})

describe('a TIFF', () => {
  const page = (colour: readonly number[]) => Uint8Array.from({ length: 64 * 32 * 3 }, (_, at) => colour[at % 3]!)
  const tiff = makeTiff({ width: 64, height: 32, channels: 3, pages: [RED, GREEN, BLUE].map(page) })
  const url = `data:image/tiff;base64,${tiff.toString('base64')}`

  test('is a document of pages', async () => {
    expect(middles(await seen(await ask(file({ file_data: url }))))).toEqual([RED, GREEN, BLUE])
    expect(middles(await seen(await ask(file({ file_data: url, pages: '2', page_text: true }))))).toEqual([GREEN])
    const { id } = await jsonOf<{ id: string }>(await upload(tiff, { type: 'image/tiff' }))
    expect(middles(await seen(await ask(file({ file_id: id, pages: '3-' }))))).toEqual([BLUE])
    expect(await errorOf(await ask(file({ file_data: url, pages: '4' })))).toMatchObject({
      param: 'messages[0].content[0].file.pages',
    })
    const document = { type: 'document_url', document_url: url }
    const read = await server.post('/v1/ocr', { model, document, pages: [1] })
    expect(await jsonOf(read)).toMatchObject({ pages: [{ index: 1, dimensions: { width: 64, height: 32 } }] })
  })

  test.each([
    ['floats from 0 to 1', 1, Float32Array.from({ length: 64 * 32 }, (_, i) => (i % 64) / 63)],
    ['large colours in floats', 3, Float32Array.from({ length: 64 * 32 * 3 }, (_, i) => 9 * (Math.floor(i / 3) % 64))],
    ['whole numbers of 32 bits', 1, Int32Array.from({ length: 64 * 32 }, (_, i) => 1e6 * (i % 64) - 5e6)],
    ['12 bits in 16', 1, Uint16Array.from({ length: 64 * 32 }, (_, i) => 65 * (i % 64))],
  ] as const)('of measurements is spread over the shades: %s', async (_, channels, samples) => {
    const bytes = makeTiff({ width: 64, height: 32, channels, pages: [samples] })
    const [shown] = await seen(await ask(file({ file_data: `data:image/tiff;base64,${bytes.toString('base64')}` })))
    for (const share of [0.1, 0.5, 0.9]) {
      const [red, green, blue] = at(shown!, share, 0.5)
      expect(Math.abs(red! - 255 * share)).toBeLessThan(8)
      expect([green, blue]).toEqual([red, red])
    }
  })

  test('of colours in floats is shown as linear light, with highlights', async () => {
    const samples = Float32Array.from({ length: 64 * 32 * 3 }, (_, i) => (Math.floor(i / 3) % 64) / 63)
    for (const brightest of [1, 20]) {
      samples[0] = brightest
      const bytes = makeTiff({ width: 64, height: 32, channels: 3, pages: [samples] })
      const [shown] = await seen(await ask(file({ file_data: `data:image/tiff;base64,${bytes.toString('base64')}` })))
      for (const share of [0.1, 0.5, 0.9]) {
        const [red] = at(shown!, share, 0.5)
        expect(Math.abs(red! - 255 * (1.055 * share ** (1 / 2.4) - 0.055))).toBeLessThan(8)
      }
    }
  })

  test.each([
    ['shades of 16 bits', 2, Uint16Array, 65_535],
    ['colours of 16 bits', 4, Uint16Array, 65_535],
    ['colours in floats', 4, Float32Array, 1],
  ] as const)('has black ink on white where it is transparent: %s', async (_, channels, Samples, opaque) => {
    const samples = new Samples(64 * 32 * channels)
    for (let pixel = 0; pixel < 64 * 32; pixel++) if (pixel % 64 < 32) samples[(pixel + 1) * channels - 1] = opaque
    const bytes = makeTiff({ width: 64, height: 32, channels, pages: [samples] })
    const [shown] = await seen(await ask(file({ file_data: `data:image/tiff;base64,${bytes.toString('base64')}` })))
    expect([at(shown!, 0.2, 0.5), at(shown!, 0.8, 0.5)]).toEqual([[0, 0, 0], WHITE])
  })

  test.each([
    ['8 bits', Uint8Array, 255],
    ['16 bits', Uint16Array, 65_535],
    ['12 bits in 16', Uint16Array, 4095],
  ] as const)('of near infrared beside colours shows the colours: %s', async (_, Samples, most) => {
    const samples = new Samples(64 * 32 * 4)
    for (let red = 0; red < samples.length; red += 4) samples[red] = most
    const bytes = makeTiff({ width: 64, height: 32, channels: 4, pages: [samples], extra: 0 })
    const file_data = `data:image/tiff;base64,${bytes.toString('base64')}`
    expect(middles(await seen(await ask(file({ file_data }))))).toEqual([RED])
  })

  test('may be a BigTIFF', async () => {
    const bytes = await sharp(tiff, { pages: -1 }).tiff({ compression: 'none', bigtiff: true }).toBuffer()
    const file_data = `data:image/tiff;base64,${bytes.toString('base64')}`
    expect(middles(await seen(await ask(file({ file_data }))))).toEqual([RED, GREEN, BLUE])
  })

  test('of samples that are too long is not called damaged', async () => {
    const bytes = makeTiff({ width: 64, height: 32, channels: 1, pages: [new Float64Array(64 * 32)] })
    const error = await errorOf(await ask(file({ file_data: `data:image/tiff;base64,${bytes.toString('base64')}` })))
    expect(error.message).toContain('The image has a depth or a compression that is not supported')
  })

  test.each([
    ['YCbCr', 6, [94, 98, 218], 1],
    ['YCbCr of which four pixels share a colour', 6, [94, 98, 218], 2],
    ['CIELAB', 8, [125, 67, 48], undefined],
    ['ICC L*a*b*', 9, [125, 195, 176], undefined],
  ] as const)('of %s is shown in its colours', async (_, colours, numbers, subsampling) => {
    const pixels = subsampling === 2 ? [0, 0, 0, 0, 1, 2] : [0, 1, 2]
    const count = (64 * 32 * pixels.length) / (subsampling === 2 ? 4 : 1)
    const samples = Uint8Array.from({ length: count }, (_, at) => numbers[pixels[at % pixels.length]!]!)
    const bytes = makeTiff({ width: 64, height: 32, channels: 3, colours, pages: [samples], subsampling })
    const [shown] = await seen(await ask(file({ file_data: `data:image/tiff;base64,${bytes.toString('base64')}` })))
    for (const [i, value] of at(shown!, 0.5, 0.5).entries()) expect(Math.abs(value - [220, 40, 40][i]!)).toBeLessThan(4)
  })

  test('whose colours the server cannot convert gets a sentence, and JPEG in it is shown', async () => {
    const size = { width: 64, height: 32 }
    const deep = { ...size, channels: 3, pages: [Uint16Array.from(page(RED))], subsampling: 1 } as const
    const clear = { ...size, channels: 4, pages: [new Uint8Array(64 * 32 * 4)] } as const
    for (const spec of [...[6, 9, 10].map((colours) => ({ ...deep, colours })), { ...clear, colours: 8 }]) {
      const bytes = makeTiff(spec)
      const error = await errorOf(await ask(file({ file_data: `data:image/tiff;base64,${bytes.toString('base64')}` })))
      expect(error.message).toContain('The colours of this TIFF are in a form that is not supported')
    }
    const jpeg = await sharp(tiff).tiff({ compression: 'jpeg', quality: 95 }).toBuffer()
    const [shown] = await seen(await ask(file({ file_data: `data:image/tiff;base64,${jpeg.toString('base64')}` })))
    for (const [i, value] of at(shown!, 0.5, 0.5).entries()) expect(Math.abs(value - RED[i]!)).toBeLessThan(8)
  })

  test('that is damaged gets a sentence', async () => {
    const error = await errorOf(await ask(file({ file_data: `data:,${'II*%00'}` })))
    expect(error.message).toMatch(/damaged or no TIFF/)
    for (const length of [20, 200, 2_000, 6_300]) {
      const part = `data:image/tiff;base64,${tiff.subarray(0, length).toString('base64')}`
      expect([200, 400]).toContain((await ask(file({ file_data: part }))).status)
    }
    expect(await seen(await ask(file({ file_data: url })))).toHaveLength(3)
  })
})

test.each([
  ['are not drawn gets a note', '/afii10017', '(A) Tj', true],
  ['are drawn gets none', '/eacute', '(A) Tj', false],
  ['lie unseen below a scan gets none', '/afii10017', '3 Tr (A) Tj', false],
])('a page whose characters %s', async (_, name, text, isNamed) => {
  const encoding = `/Encoding << /Differences [65 ${name}] >>`
  const resources = `/Font << /F1 << /Type /Font /Subtype /TrueType /BaseFont /Arial ${encoding} >> >>`
  const bytes = makePdf([{ content: `BT /F1 20 Tf 50 500 Td ${text} ET`, resources }])
  const response = await ask(file({ file_data: dataUrl(bytes) }))
  expect(response.status).toBe(200)
  const note = 'Page 1 of a document has characters that are not drawn: the file does not hold their fonts'
  expect(response.headers.get('x-lookout-note')).toBe(isNamed ? note : null)
})

describe('the text of a page', () => {
  const words = (text: string) => ({ content: `BT /F1 20 Tf 50 500 Td (${text}) Tj ET` })
  const written = dataUrl(makePdf([words('First words'), filled(RED), words('Last words')]))

  const lastPrompt = () => {
    const { prefix, branches } = engine.works.at(-1)!
    return [...prefix, ...branches[0]!.suffix]
  }

  test('follows its image where that is asked for', async () => {
    await seen(await ask(file({ file_data: written, page_text: true, pages: '3,2' })))
    const shown = lastPrompt().flatMap((part) =>
      part.type === 'image' ? ['image'] : part.type === 'text' && !part.trusted ? [part.text] : [],
    )
    expect(shown).toEqual(['image', 'Text of page 3:\nLast words\n', 'image'])
    await seen(await ask(file({ file_data: written })))
    expect(JSON.stringify(lastPrompt().filter(({ type }) => type === 'text'))).not.toContain('words')
  })

  test('goes along in responses and messages', async () => {
    const input_file = { type: 'input_file', file_data: written, page_text: true }
    const data = written.split(',')[1]!
    const source = { type: 'base64', media_type: 'application/pdf', data }
    const messages = [{ role: 'user', content: [{ type: 'document', source, page_text: true }] }]
    for (const response of [
      await server.post('/v1/responses', { model, input: [{ role: 'user', content: [input_file] }] }),
      await server.post('/v1/messages', { model, max_tokens: 10, messages }),
    ]) {
      await seen(response)
      const texts = lastPrompt().flatMap((part) => (part.type === 'text' ? [part.text] : []))
      expect(texts).toEqual(
        expect.arrayContaining([expect.stringMatching(/First words/), expect.stringMatching(/Last words/)]),
      )
    }
  })

  test('counts as tokens of the prompt', async () => {
    const count = async (page_text: boolean) => {
      const content = [file({ file_data: written, page_text })]
      const response = await server.post('/v1/chat/completions/input_tokens', {
        model,
        messages: [{ role: 'user', content }],
      })
      return (await jsonOf<{ input_tokens: number }>(response)).input_tokens
    }
    expect(await count(true)).toBeGreaterThan(await count(false))
  })
})

describe('other APIs', () => {
  const base64 = threePages.toString('base64')

  test('a response takes an input_file, by its bytes, its id and its name', async () => {
    const respond = (fields: object) => {
      const content = [{ type: 'input_file', ...fields }]
      return server.post('/v1/responses', { model, input: [{ role: 'user', content }] })
    }
    expect(middles(await seen(await respond({ file_data: dataUrl(threePages), pages: '2' })))).toEqual([GREEN])
    const { id } = await jsonOf<{ id: string }>(await upload(threePages))
    expect(await seen(await respond({ file_id: id }))).toHaveLength(3)
    expect(await errorOf(await respond({ file_id: id, pages: '9' }))).toMatchObject({
      param: 'input[0].content[0].pages',
    })
    expect(await seen(await respond({ file_url: `${server.url}/v1/files/${id}/content` }))).toHaveLength(3)
    expect(await seen(await respond({ file_url: dataUrl(threePages) }))).toHaveLength(3)
    const broken = { file_data: dataUrl(threePages.subarray(0, 300)) }
    expect(await errorOf(await respond(broken))).toMatchObject({ param: 'input[0].content[0].file_data' })
    const address = { file_url: 'http://127.0.0.1:9/report.pdf' }
    expect(await errorOf(await respond(address))).toMatchObject({ param: 'input[0].content[0].file_url' })
    for (const name of ['a.avif', 'a.bmp', 'a.m4v', 'a.m4a', 'a.ogg']) {
      const { message } = await errorOf(await respond({ file_url: `http://127.0.0.1:9/${name}` }))
      expect([name, message]).toEqual([name, expect.not.stringContaining('unsupported type')])
    }
  })

  test('a document is fetched by its address', async () => {
    expect(middles(await seen(await ask(file({ file_data: address, pages: '2-3' }))))).toEqual([GREEN, BLUE])
    for (const file_url of [address, address.replace('.pdf', '')]) {
      const content = [{ type: 'input_file', file_url }]
      const response = await server.post('/v1/responses', { model, input: [{ role: 'user', content }] })
      expect(await seen(response)).toHaveLength(3)
    }
    const document = { type: 'document_url', document_url: address }
    const read = await server.post('/v1/ocr', { model, document, pages: '0' })
    expect(await jsonOf(read)).toMatchObject({ pages: [{ index: 0 }], usage_info: { doc_size_bytes: null } })
  })

  test('Ollama’s clients send it among the images', async () => {
    const say = (data: string) =>
      server.post('/api/chat', { model, stream: false, messages: [{ role: 'user', content: 'Hi', images: [data] }] })
    expect(middles(await seen(await say(base64)))).toEqual([RED, GREEN, BLUE])
    const padded = Buffer.concat([threePages, Buffer.from(`\n%${'x'.repeat(40_000)}`)])
    expect(await seen(await say(padded.toString('base64')))).toHaveLength(3)
    expect((await say(threePages.subarray(0, 300).toString('base64'))).status).toBe(400)
  })

  test('a stored response keeps its document', async () => {
    const first = { type: 'input_file', file_data: dataUrl(threePages), filename: 'report.pdf' }
    const { id } = await jsonOf<{ id: string }>(
      await server.post('/v1/responses', { model, input: [{ role: 'user', content: [first] }], store: true }),
    )
    const next = { model, input: 'And the last page?', previous_response_id: id }
    expect(middles(await seen(await server.post('/v1/responses', next)))).toEqual([RED, GREEN, BLUE])
  })

  test('a message takes document blocks, in tool results too', async () => {
    const source = { type: 'base64', media_type: 'application/pdf', data: base64 }
    const say = (content: object[], before: object[] = []) =>
      server.post('/v1/messages', { model, max_tokens: 10, messages: [...before, { role: 'user', content }] })
    const document = { type: 'document', source, title: 'Report', citations: { enabled: false } }
    expect(await seen(await say([{ ...document, context: 'Of May.' }]))).toHaveLength(3)
    expect(promptText(engine)).toContain('<|im_start|>user\nReport\n\nOf May.\n\n[picture]')
    expect(middles(await seen(await say([{ ...document, pages: '3' }])))).toEqual([BLUE])
    const { id: file_id } = await jsonOf<{ id: string }>(await upload(threePages))
    expect(await seen(await say([{ type: 'document', source: { type: 'file', file_id } }]))).toHaveLength(3)
    const error = async (block: object) =>
      (await jsonOf<{ error: { message: string } }>(await say([block]))).error.message
    expect(await error({ ...document, pages: '4' })).toContain('messages[0].content[0].pages')
    const broken = { ...source, data: threePages.subarray(0, 300).toString('base64') }
    expect(await error({ type: 'document', source: broken })).toContain('messages[0].content[0].source')
  })

  test('a multilook takes it in the context and in a prompt, which fails alone', async () => {
    const part = file({ file_data: dataUrl(threePages) })
    const response = await server.post('/v1/chat/completions/multilook', {
      model,
      context: [{ role: 'user', content: [part] }],
      prompts: ['Which colours?', { content: [file({ file_data: dataUrl(threePages), pages: '7' })] }],
    })
    expect(await seen(response.clone())).toHaveLength(3)
    const { results } = await jsonOf<{ results: { error?: { message: string } }[] }>(response)
    expect(results[0]).not.toHaveProperty('error')
    expect(results[1]!.error!.message).toContain('prompts[1].content[0].file.pages names page 7')
  })

  test('decisions take it in their input and in a question', async () => {
    const response = await server.post('/v1/decisions', {
      model,
      input: [{ role: 'user', content: [file({ file_data: dataUrl(threePages), pages: '1-2' })] }],
      questions: [
        { type: 'predicate', instructions: 'Is it signed?' },
        { type: 'predicate', instructions: [file({ file_data: dataUrl(threePages), pages: '3' })] },
      ],
    })
    expect(response.status, await response.clone().text()).toBe(200)
    const { prefix, questions } = engine.readWorks.at(-1)!
    const shown = [...prefix, ...questions[1]!.suffix].flatMap((part) => (part.type === 'image' ? [part.image] : []))
    expect(middles(shown)).toEqual([RED, GREEN, BLUE])
  })

  test('a batch takes it in its lines', async () => {
    const content = [file({ file_data: dataUrl(threePages), pages: '1,3' })]
    const line = (custom_id: string, pages: string) => ({
      custom_id,
      method: 'POST',
      url: '/v1/chat/completions',
      body: { model, messages: [{ role: 'user', content: [{ ...content[0], file: { ...content[0]!.file, pages } }] }] },
    })
    const lines = [line('two', '1,3'), line('none', '8')].map((one) => JSON.stringify(one)).join('\n')
    const input = await jsonOf<{ id: string }>(
      await upload(Buffer.from(lines), { purpose: 'batch', type: 'application/jsonl' }),
    )
    const batch = { input_file_id: input.id, endpoint: '/v1/chat/completions', completion_window: '24h' }
    const { id } = await jsonOf<{ id: string }>(await server.post('/v1/batches', batch))
    const state = async () => jsonOf<{ status: string; error_file_id: string }>(await server.get(`/v1/batches/${id}`))
    await expect.poll(async () => (await state()).status).toBe('completed')
    const errors = await (await server.get(`/v1/files/${(await state()).error_file_id}/content`)).text()
    expect(errors).toContain('names page 8, but the document has 3')
    const [work] = engine.works
    const parts = [...work!.prefix, ...work!.branches[0]!.suffix]
    expect(parts.filter(({ type }) => type === 'image')).toHaveLength(2)
  })

  test('tokens are counted before anything is asked', async () => {
    const count = async (pages: string) => {
      const content = [file({ file_data: dataUrl(threePages), pages })]
      const response = await server.post('/v1/chat/completions/input_tokens', {
        model,
        messages: [{ role: 'user', content }],
      })
      return (await jsonOf<{ input_tokens: number }>(response)).input_tokens
    }
    const [one, three] = [await count('1'), await count('1-3')]
    expect(three - one).toBeGreaterThan(1)
    expect(engine.works).toHaveLength(0)
  })
})

describe('a rendered page', () => {
  // A square of 100 points, 100 from the left and 200 from the bottom of the media box.
  const square = '1 0 0 rg 100 200 100 100 re f'
  const page = { box: [0, 0, 400, 800], content: square } as const
  const of = async (fields: object) => {
    const [image] = await seen(await ask(file({ file_data: dataUrl(makePdf([{ ...page, ...fields }])) })))
    return image!
  }
  /** Left, top, right and bottom of what is red, in shares of the sides. */
  const boxOf = ({ width, height, data }: Shown) => {
    const box = [1, 1, 0, 0]
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        const [red, green] = [data[(y * width + x) * 3]!, data[(y * width + x) * 3 + 1]!]
        if (red < 200 || green > 100) continue
        box[0] = Math.min(box[0]!, x / width)
        box[1] = Math.min(box[1]!, y / height)
        box[2] = Math.max(box[2]!, (x + 1) / width)
        box[3] = Math.max(box[3]!, (y + 1) / height)
      }
    }
    return box
  }
  const near = (box: readonly number[]) => box.map((side) => expect.closeTo(side, 1.5))
  const percent = (box: readonly number[]) => box.map((side) => side * 100)

  test.each([
    ['as it is', {}, [25, 62.5, 50, 75]],
    ['turned by a quarter', { entries: '/Rotate 90' }, [25, 25, 37.5, 50]],
    ['turned by a half', { entries: '/Rotate 180' }, [50, 25, 75, 37.5]],
    ['cropped', { entries: '/CropBox [50 150 250 350]' }, [25, 25, 75, 75]],
    ['in units of its own', { entries: '/UserUnit 4' }, [25, 62.5, 50, 75]],
    ['whose box begins elsewhere', { box: [-100, -200, 300, 600] }, [50, 37.5, 75, 50]],
  ] as const)('has its shapes where they are on the page: %s', async (_, fields, box) => {
    const image = await of(fields)
    expect(percent(boxOf(image))).toEqual(near(box))
    expect(at(image, 0.01, 0.01)).toEqual(WHITE)
  })
})

describe('a form that is filled in', () => {
  const helvetica = '/Font << /Helv << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>'
  const drawn = streamOf(
    '0 0 1 rg 0 0 160 40 re f BT 1 g /Helv 20 Tf 5 10 Td (Drawn) Tj ET',
    `/Type /XObject /Subtype /Form /BBox [0 0 160 40] /Resources << ${helvetica} >>`,
  )
  const field = (name: string, bottom: number, entries: string) =>
    `<< /Type /Annot /Subtype /Widget /FT /Tx /T (${name}) /DA (/Helv 30 Tf 1 0 0 rg) /Rect [20 ${bottom} 180 ${bottom + 40}] ${entries} >>`
  const form = (needsAppearances: boolean) =>
    makePdf([{ box: [0, 0, 200, 200], content: '', entries: '/Annots [5 0 R 6 0 R 7 0 R]' }], {
      objects: [
        field('first', 150, '/F 4 /V (Written) /MK << /BG [0 1 0] >>'),
        field('second', 80, `/F 4 /V (Drawn) ${needsAppearances ? '' : '/AP << /N 8 0 R >>'} /MK << /BG [0 0 1] >>`),
        field('hidden', 10, '/F 2 /V (Hidden) /MK << /BG [1 0 0] >>'),
        drawn,
      ],
      catalogue: `/AcroForm << /Fields [5 0 R 6 0 R 7 0 R] /NeedAppearances ${needsAppearances} /DR << ${helvetica} >> >>`,
    })

  test.each([true, false])(
    'has its fields, whether a program has drawn them or not (NeedAppearances: %s)',
    async (needs) => {
      const [page] = await seen(await ask(file({ file_data: dataUrl(form(needs)), page_text: true })))
      // At the right end of each field, behind its text.
      const ends = [0.15, 0.5, 0.85].map((y) => at(page!, 0.88, y))
      expect(ends).toEqual([GREEN, BLUE, WHITE])
      const inside = Array.from({ length: 200 }, (_, i) => at(page!, 0.1 + (0.6 * i) / 200, 0.15))
      expect(inside).toContainEqual(RED)
      const text = engine.works
        .at(-1)!
        .prefix.flatMap((part) => (part.type === 'text' ? [part.text] : []))
        .join('')
      expect(text).toMatch(/Written\s+Drawn/)
      expect(text).not.toContain('Hidden')
    },
  )

  const textsOf = async (document: Buffer) => {
    await seen(await ask(file({ file_data: dataUrl(document), page_text: true })))
    return engine.works.at(-1)!.prefix.flatMap((part) => (part.type === 'text' && !part.trusted ? [part.text] : []))
  }

  test('costs the pages without fields nothing', async () => {
    const page = { box: [0, 0, 200, 100], content: 'BT /F1 20 Tf 20 70 Td (Words) Tj ET' } as const
    const objects = Array.from({ length: 20_000 }, (_, i) => field(`f${i}`, 20, ''))
    const fields = objects.map((_, i) => `${43 + i} 0 R`).join(' ')
    const texts = await textsOf(
      makePdf(Array(20).fill(page), { objects, catalogue: `/AcroForm << /Fields [${fields}] >>` }),
    )
    expect(texts).toHaveLength(20)
    expect(texts[19]).toMatch(/Words\s*$/)
  })

  test('has the fields of the first 20,000 annotations in its text', async () => {
    const entries = `/Annots [9 0 R ${'10 0 R '.repeat(6_999)}]`
    const texts = await textsOf(
      makePdf(Array(3).fill({ box: [0, 0, 200, 100], content: 'BT /F1 20 Tf 20 70 Td (Words) Tj ET', entries }), {
        objects: [field('only', 20, '/F 4 /V (Value)'), '<< /Type /Annot /Subtype /Link /Rect [0 0 1 1] >>'],
        catalogue: `/AcroForm << /Fields [9 0 R] /DR << ${helvetica} >> >>`,
      }),
    )
    expect(texts.map((text) => /Words\s+Value/.test(text))).toEqual([true, true, false])
    expect(texts[2]).toContain('Words')
  })
})

describe('uploads', () => {
  test('take a PDF for the purpose user_data only', async () => {
    const { id, ...about } = await jsonOf<Record<string, unknown>>(await upload(threePages))
    expect(about).toMatchObject({
      object: 'file',
      bytes: threePages.length,
      filename: 'report.pdf',
      purpose: 'user_data',
    })
    const content = await server.get(`/v1/files/${id}/content`)
    expect(content.headers.get('content-type')).toBe('application/pdf')
    expect(Buffer.from(await content.arrayBuffer())).toEqual(threePages)
    const error = await errorOf(await upload(threePages, { purpose: 'vision' }))
    expect(error).toMatchObject({ param: 'purpose' })
  })

  test('take no other documents', async () => {
    const error = await errorOf(await upload(Buffer.from('{\\rtf1 Hello}'), { type: 'application/rtf' }))
    expect(error.message).toContain('application/rtf')
  })
})
