import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import sharp from 'sharp'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { FAMILIES, type FamilyName } from '../src/families/families.ts'
import type { Work } from '../src/inference/contract/work.ts'
import { BatchClient } from './support/batches.ts'
import { FakeEngine } from './support/fake-engine.ts'
import { CARD } from './support/local-engine.ts'
import { makePdf } from './support/pdf.ts'
import { pythonWith, skipped } from './support/python.ts'
import { errorOf, jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'

/** `POST /v1/ocr`, in Mistral's shape, for models of several families and for one of none. */
const READERS = [
  'dots-ocr',
  'deepseek-ocr',
  'lighton-ocr-bbox',
  'glm-ocr',
  'glm4v',
  'qwen3-vl',
  'qwen2.5-vl',
] as const satisfies FamilyName[]

interface Page {
  readonly index: number
  readonly markdown: string
  readonly images: readonly Record<string, unknown>[]
  readonly dimensions: { readonly dpi: number; readonly height: number; readonly width: number }
  readonly blocks?: readonly Record<string, unknown>[]
  readonly header?: string | null
  readonly truncated?: true
}

let directory: string
let server: TestServer
let engine: FakeEngine

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-ocr-'))
  const { detection: _fit, ...card } = JSON.parse(await readFile(CARD, 'utf8'))
  const [served] = card.serves
  const add = async (id: string, fields: object, of: object = {}) => {
    const reader = {
      ...served,
      id,
      aliases: [],
      outputFormats: ['text'],
      modalities: ['text', 'image'],
      capabilities: [],
      reasoning: false,
      ...of,
    }
    await mkdir(join(directory, id))
    const { video: _video, audio: _audio, ...seeing } = card
    await writeFile(join(directory, id, 'card.json'), JSON.stringify({ ...seeing, serves: [reader], ...fields }))
  }
  for (const family of READERS) await add(family, { family, dialect: FAMILIES[family].dialect ?? undefined })
  await add('blind', {}, { modalities: ['text'] })
  engine = new FakeEngine()
  const environment = {
    LOOKOUT_MODELS: `models/lookout-nano,${directory}`,
    // A database of its own: servers of other tests would run the lines, too.
    ...{ DATABASE_URL: '', LOOKOUT_BATCH_LINES: '2' },
  }
  server = await startTestServer({ engine, environment })
})
afterAll(async () => {
  await server?.close()
  await rm(directory, { recursive: true })
})
beforeEach(() => {
  engine.works.length = 0
  engine.script = { texts: ['# Hello'] }
})

const RED = '1 0 0 rg -9999 -9999 20000 20000 re f'
const pdf = (pages: number) => {
  const bytes = makePdf(Array.from({ length: pages }, () => ({ content: RED })))
  return `data:application/pdf;base64,${bytes.toString('base64')}`
}
const three = pdf(3)
const document_url = (url = three) => ({ type: 'document_url', document_url: url })
const ask = (fields: object, model = 'glm4v') => server.post('/v1/ocr', { model, document: document_url(), ...fields })

async function read(fields: object, model?: string): Promise<readonly Page[]> {
  const response = await ask(fields, model)
  expect(response.status, await response.clone().text()).toBe(200)
  return (await jsonOf<{ pages: Page[] }>(response)).pages
}

test('a line of a batch reads a document, too', async () => {
  const batches = new BatchClient(server.url, KEY)
  const body = (pages: string) => ({ model: 'glm4v', document: document_url(), pages })
  const lines = [
    { custom_id: 'two', body: body('0,2') },
    { custom_id: 'none', body: body('7') },
  ]
  const ended = await batches.ended((await batches.start(lines, { url: '/v1/ocr' })).id)
  const { output, errors } = await batches.outputOf(ended)
  const { pages, usage_info } = output[0]!.response!.body as { pages?: Page[]; usage_info?: object }
  expect(pages!.map(({ index, markdown }) => [index, markdown])).toEqual([
    [0, '# Hello'],
    [2, '# Hello'],
  ])
  expect(usage_info).toMatchObject({ pages_processed: 2 })
  expect(errors[0]!.response!.body.error!.param).toBe('pages')
})

async function picture(width: number, height: number): Promise<string> {
  const bytes = await sharp({ create: { width, height, channels: 3, background: '#3366cc' } })
    .png()
    .toBuffer()
  return `data:image/png;base64,${bytes.toString('base64')}`
}

const promptOf = ({ prefix, branches }: Work) => [...prefix, ...branches[0]!.suffix]
const textIn = (work: Work) => promptOf(work).flatMap((part) => (part.type === 'text' ? [part.text] : []))

describe('documents', () => {
  test('each page is a work, and comes in its order', async () => {
    engine.script = { texts: [] }
    let at = 0
    engine.script = { branch: () => ({ texts: [`Page ${at++}`] }) }
    const response = await ask({})
    expect(await jsonOf(response)).toEqual({
      model: 'glm4v',
      pages: [0, 1, 2].map((index) => ({
        index,
        markdown: expect.stringMatching(/^Page [012]$/),
        images: [],
        dimensions: { dpi: 200, width: 1653, height: 2339 },
        blocks: [],
      })),
      usage_info: { pages_processed: 3, doc_size_bytes: Buffer.from(three.split(',')[1]!, 'base64').length },
      document_annotation: null,
    })
    expect(engine.works).toHaveLength(3)
    expect(promptOf(engine.works[0]!).filter(({ type }) => type === 'image')).toHaveLength(1)
    expect(textIn(engine.works[0]!).join('')).toContain('as Markdown')
  })

  test.each([
    [
      [2, 0],
      [2, 0],
    ],
    ['1', [1]],
    ['0-1', [0, 1]],
    ['2, 0 - 1,2', [2, 0, 1]],
  ])('pages %j are those from 0', async (pages, expected) => {
    expect((await read({ pages })).map(({ index }) => index)).toEqual(expected)
  })

  test('are images too, by either name, and uploaded files', async () => {
    const image = await picture(500, 400)
    const dimensions = { dpi: 72, width: 500, height: 400 }
    for (const document of [
      { type: 'image_url', image_url: image },
      { type: 'image_url', image_url: { url: image } },
      document_url(image),
    ])
      expect(await read({ document })).toMatchObject([{ markdown: '# Hello', dimensions }])
    expect(await read({ document: { type: 'image_url', image_url: three } })).toHaveLength(3)
    const form = new FormData()
    form.append('purpose', 'user_data')
    form.append('file', new Blob([Buffer.from(three.split(',')[1]!, 'base64')], { type: 'application/pdf' }), 'a.pdf')
    const uploaded = await fetch(`${server.url}/v1/files`, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}` },
      body: form,
    })
    const { id } = await jsonOf<{ id: string }>(uploaded)
    const response = await ask({ document: { type: 'file', file_id: id } })
    expect(await jsonOf(response)).toMatchObject({ usage_info: { pages_processed: 3, doc_size_bytes: null } })
  })

  test.each([
    ['pages', { pages: [3] }, 'names page 3, but the document has pages 0 to 2'],
    ['pages', { pages: '1-9' }, 'names page 3'],
    ['pages', { pages: 'all' }, 'expected pages from 0'],
    ['pages', { pages: '2-0' }, 'expected pages from 0'],
    ['pages', { document: document_url(pdf(257)) }, "such as '0-255'"],
    ['document.document_url', { document: document_url('nowhere') }, 'valid http(s) URL'],
    ['document.document_url', { document: document_url('data:application/pdf;base64,aGk=') }, 'Unsupported document'],
    [
      'document.image_url.url',
      { document: { type: 'image_url', image_url: { url: 'data:,hi' } } },
      'Unsupported image',
    ],
    ['document.file_id', { document: { type: 'file', file_id: 'file-none' } }, 'No such File object'],
    ['document.type', { document: { type: 'else' } }, 'expected one of'],
    ['table_format', { table_format: 'html' }, 'not supported'],
    ['confidence_scores_granularity', { confidence_scores_granularity: 'word' }, 'not supported'],
  ])('errors name %s', async (param, fields, message) => {
    const response = await ask(fields)
    expect(response.status).toBe(400)
    const error = await errorOf(response)
    expect(error).toMatchObject({ param, type: 'invalid_request_error' })
    expect(error.message).toContain(message)
  })

  test('a model that sees nothing is refused', async () => {
    const response = await ask({}, 'blind')
    expect(response.status).toBe(400)
    expect(await errorOf(response)).toMatchObject({
      param: 'model',
      message: expect.stringContaining('sees no images'),
    })
  })

  test('a page that was cut off says so', async () => {
    engine.script = { texts: ['A long'], reason: 'length' }
    expect(await read({ pages: [0] })).toMatchObject([{ markdown: 'A long', truncated: true }])
  })

  test('a client that leaves stops the works', async () => {
    engine.script = { endless: true, delayMs: 5 }
    const leaving = new AbortController()
    const response = fetch(`${server.url}/v1/ocr`, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'glm4v', document: document_url() }),
      signal: leaving.signal,
    }).catch(() => null)
    await expect.poll(() => engine.works.length).toBe(3)
    leaving.abort()
    expect(await response).toBeNull()
    await expect.poll(() => engine.aborts.length).toBe(3)
  })
})

describe('families', () => {
  const A4 = { width: 1653, height: 2339 }
  const place = (left: number, top: number, right: number, bottom: number) => ({
    top_left_x: Math.round(left * A4.width),
    top_left_y: Math.round(top * A4.height),
    bottom_right_x: Math.round(right * A4.width),
    bottom_right_y: Math.round(bottom * A4.height),
  })
  const first = async (model: string, fields: object = {}) => (await read({ pages: [0], ...fields }, model))[0]!
  /** The picture in the last prompt. */
  const shown = () => promptOf(engine.works.at(-1)!).find((part) => part.type === 'image')!.image

  test('dots.ocr writes pixels of the picture that it sees', async () => {
    engine.script = { texts: ['[]'] }
    await first('dots-ocr')
    const { width, height } = shown()
    const bbox = (left: number, top: number, right: number, bottom: number) =>
      [left * width, top * height, right * width, bottom * height].map(Math.round)
    const cells = [
      { bbox: bbox(0, 0, 1, 0.1), category: 'Page-header', text: 'Draft' },
      { bbox: bbox(0.25, 0.25, 0.75, 0.5), category: 'Title', text: '# A "title"' },
      { bbox: bbox(0, 0.5, 0.5, 1), category: 'Picture' },
      { bbox: bbox(0.5, 0.5, 1, 1), category: 'Formula', text: 'a{b}' },
    ]
    engine.script = { texts: [JSON.stringify(cells)] }
    const page = await first('dots-ocr', { include_image_base64: true, extract_header: true })
    expect(page.markdown).toBe('# A "title"\n\n![img-0.png](img-0.png)\n\n$$\na{b}\n$$')
    expect(page.header).toBe('Draft')
    expect(page.blocks!.map(({ type }) => type)).toEqual(['header', 'title', 'image', 'equation'])
    for (const [key, value] of Object.entries(place(0.25, 0.25, 0.75, 0.5)))
      expect(Math.abs((page.blocks![1]![key] as number) - value)).toBeLessThanOrEqual(4)
    const [image] = page.images
    expect(image).toMatchObject({ id: 'img-0.png', top_left_x: 0 })
    const bytes = Buffer.from(String(image!.image_base64).replace('data:image/png;base64,', ''), 'base64')
    const { data, info } = await sharp(bytes).raw().toBuffer({ resolveWithObject: true })
    expect(Math.abs(info.width - A4.width / 2)).toBeLessThan(5)
    expect([...data.subarray(0, 3)]).toEqual([255, 0, 0])
    expect(textIn(engine.works.at(-1)!).join('')).toContain('The possible categories are')
  })

  test('DeepSeek-OCR writes a grid of 0 to 999 before each block', async () => {
    engine.script = {
      texts: [
        '<|ref|>title<|/ref|><|det|>[[0, 0, 999, 500]]<|/det|>\n# One\n\n<|ref|>image<|/ref|>',
        '<|det|>[[100, 500, 200, 999]]<|/det|>\n<|ref|>image_caption<|/ref|><|det|>[[0, 1, 2, 3]]<|/det|>\nFig. 1',
      ],
    }
    const page = await first('deepseek-ocr')
    expect(page.markdown).toBe('# One\n\n![img-0.png](img-0.png)\n\nFig. 1')
    expect(page.blocks![0]).toEqual({ type: 'title', ...place(0, 0, 1, 500 / 999), content: '# One' })
    expect(page.images).toEqual([{ id: 'img-0.png', ...place(100 / 999, 500 / 999, 200 / 999, 1), image_base64: null }])
    const prompt = promptOf(engine.works[0]!)
    expect(prompt).toContainEqual({
      type: 'text',
      text: expect.stringContaining('<|grounding|>Convert the document to markdown.'),
      trusted: true,
    })
  })

  test('LightOnOCR is asked nothing, and says where figures are', async () => {
    engine.script = { texts: ['Above\n\n![image](image_1.png)100,200,300,400\n\nBelow'] }
    const page = await first('lighton-ocr-bbox')
    expect(page.markdown).toBe('Above\n\n![img-0.png](img-0.png)\n\nBelow')
    expect(page.blocks).toEqual([
      { type: 'image', ...place(0.1, 0.2, 0.3, 0.4), content: '![img-0.png](img-0.png)', image_id: 'img-0.png' },
    ])
  })

  test('Qwen writes HTML, on a grid or in pixels', async () => {
    engine.script = { texts: ['<p data-bbox="100 200 300 400">Hi</p>'] }
    expect(await first('qwen3-vl')).toMatchObject({
      markdown: 'Hi',
      blocks: [{ type: 'text', ...place(0.1, 0.2, 0.3, 0.4), content: 'Hi' }],
    })
    expect(textIn(engine.works[0]!).join('')).toContain('qwenvl html')
    const page = await first('qwen2.5-vl')
    const { width, height } = shown()
    expect(page.blocks).toMatchObject([place(100 / width, 200 / height, 300 / width, 400 / height)])
    expect(textIn(engine.works[1]!).join('')).toMatch(/system\n.*QwenVL Document Parser HTML format/)
  })

  test('GLM-OCR has its words', async () => {
    await first('glm-ocr')
    expect(textIn(engine.works[0]!).join('')).toContain('Text Recognition:')
  })

  test('the shipped model finds texts, and reads each', async () => {
    const box = (left: number, top: number) =>
      `<point_box mention="text"> (${left},${top}) (${left + 100},${top + 50}) </point_box>`
    engine.script = {
      branch: ({ suffix }) => {
        const asked = suffix.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('')
        const at = /Read the text at \((\d+),(\d+)\)/.exec(asked)
        return { texts: [at === null ? [box(500, 500), box(600, 105), box(100, 100)].join('\n') : `At ${at[1]}`] }
      },
    }
    const page = await first('service-mk1.5')
    expect(page.markdown).toBe('At 100\n\nAt 600\n\nAt 500')
    expect(page.blocks![0]).toEqual({ type: 'text', ...place(0.1, 0.1, 0.2, 0.15), content: 'At 100' })
    engine.script = { texts: ['None.'] }
    expect(await first('service-mk1.5')).toMatchObject({ markdown: '', blocks: [] })
  })

  test('an unknown form is text', async () => {
    engine.script = { texts: ['Just words'] }
    for (const model of READERS) expect(await first(model)).toMatchObject({ markdown: 'Just words', blocks: [] })
  })

  test('images that are too small or too many are left out', async () => {
    const figure = (right: number) => `![image](image_1.png)0,0,${right},${right}`
    engine.script = { texts: [[figure(10), figure(300), figure(400)].join('\n')] }
    const limits = { image_min_size: 100, image_limit: 3 }
    const pages = await read({ pages: [0, 1], ...limits }, 'lighton-ocr-bbox')
    expect(pages.map(({ images }) => images.map(({ id }) => id))).toEqual([['img-0.png', 'img-1.png'], ['img-2.png']])
    expect(pages[1]!.markdown).toBe('![img-2.png](img-2.png)')
    const [page] = await read({ pages: [0], include_blocks: false }, 'lighton-ocr-bbox')
    expect(page).not.toHaveProperty('blocks')
  })
})

/** Prints the reply and an error, as the client gives them. */
const CLIENTS = {
  mistralai: `
from mistralai.client import Mistral
client = Mistral(api_key=key, server_url=url)
read = lambda document: client.ocr.process(model=model, document=document, pages="0", include_image_base64=True)`,
  litellm: `
import litellm
read = lambda document: litellm.ocr(model="mistral/" + model, document=document, api_base=url + "/v1", api_key=key, pages=[0])`,
}

describe.each(Object.entries(CLIENTS))('the client %s', (module, client) => {
  const python = pythonWith(module)
  if (python === null) console.warn(skipped('the test of OCR', module))

  test.skipIf(python === null)('reads a page, and shows an error', { timeout: 120_000 }, async () => {
    engine.script = { texts: ['<p data-bbox="100 200 300 400">Hi</p>'] }
    const script = `import json, sys
url, key, model, document = sys.argv[1:]${client}
page = read({"type": "document_url", "document_url": document}).pages[0]
print("SEEN", json.dumps(page.model_dump(), default=str))
try: read({"type": "document_url", "document_url": "data:application/pdf;base64,aGk="})
except Exception as error: print("SEEN", json.dumps(str(error)))`
    const asked = [server.url, KEY, 'qwen3-vl', three]
    const { stdout } = await promisify(execFile)(python!, ['-c', script, ...asked], {
      env: { ...process.env, LITELLM_LOCAL_MODEL_COST_MAP: 'True' },
    })
    // Clients print advice of their own.
    const [page, error] = [...stdout.matchAll(/^SEEN (.*)$/gm)].map(([, seen]) => JSON.parse(seen!))
    expect(page).toMatchObject({ index: 0, markdown: 'Hi', blocks: [{ type: 'text', content: 'Hi', top_left_x: 165 }] })
    expect(error).toContain('document.document_url')
  })
})
