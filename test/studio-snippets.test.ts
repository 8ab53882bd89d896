import { execFile } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { buildPage, isPageBuilt, STUDIO } from '../src/setup/pages.mjs'
import { MediaRef, mediaOf } from '../studio/src/request/media-ref.ts'
import { hereQuote, shellQuote } from '../studio/src/request/shell-quote.ts'
import { type Language, writeSnippet } from '../studio/src/request/snippet.ts'
import type { SnippetRequest } from '../studio/src/request/snippet-request.ts'
import { KEY, type TestServer } from './support/server.ts'
import { startShippedServer } from './support/shipped-model.ts'

/** What the Studio's request drawer copies, run as a user runs it: by bash, by Node and by Python. */

const run = promisify(execFile)
/** Python with the packages `openai` and `requests`. */
const PYTHON = process.env.LOOKOUT_TEST_OPENAI_PYTHON ?? 'python3'
const hasPackage = async (name: string) =>
  run(PYTHON, ['-c', `import ${name}`]).then(
    () => true,
    () => {
      console.warn(
        `SKIPPED: a snippet in Python needs the package ${name} (LOOKOUT_TEST_OPENAI_PYTHON=/path/to/python)`,
      )
      return false
    },
  )
const HAS_OPENAI = await hasPackage('openai')
const HAS_REQUESTS = await hasPackage('requests')
/** From version 3 on. */
const HAS_DECISIONS = await hasPackage('openai.resources.decisions')

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lookout-snippets-'))
  await symlink(join(import.meta.dirname, '../node_modules'), join(folder, 'node_modules'))
})
afterAll(() => rm(folder, { recursive: true }))

/** @returns what the snippet prints */
async function runSnippet(language: Language, request: SnippetRequest): Promise<string> {
  const text = writeSnippet(language, request)
  const options = { cwd: folder, maxBuffer: 2 ** 26 }
  if (language === 'curl') {
    // As a script and not as an argument, which may not be long.
    await writeFile(join(folder, 'snippet.sh'), text)
    return (await run('bash', ['snippet.sh'], options)).stdout
  }
  if (language === 'python') {
    await writeFile(join(folder, 'snippet.py'), text)
    return (await run(PYTHON, ['snippet.py'], options)).stdout
  }
  await writeFile(join(folder, 'snippet.ts'), text)
  return (await run(process.execPath, ['snippet.ts'], options)).stdout
}

const LANGUAGES = ['curl', 'typescript', 'python'] as const
const isRunnable = (language: Language, path: string) =>
  language !== 'python' ||
  (path === '/v1/chat/completions' ? HAS_OPENAI : path === '/v1/decisions' ? HAS_DECISIONS : HAS_REQUESTS)

describe('a snippet sends exactly the request that it was made from', () => {
  let listener: Server
  let origin: string
  let received: { method: string; path: string; headers: NodeJS.Dict<string | string[]>; body: unknown }[] = []
  beforeAll(async () => {
    listener = createServer((request, response) => {
      const pieces: Buffer[] = []
      request.on('data', (piece) => pieces.push(piece))
      request.on('end', () => {
        const { method, url, headers } = request
        const text = Buffer.concat(pieces).toString()
        received.push({ method: method!, path: url!, headers, body: text === '' ? undefined : JSON.parse(text) })
        const reply = { choices: [{ index: 0, message: { role: 'assistant', content: 'ok' } }] }
        response.setHeader('content-type', 'application/json').end(JSON.stringify(reply))
      })
    })
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
    origin = `http://127.0.0.1:${(listener.address() as AddressInfo).port}`
  })
  afterAll(() => void listener.close())
  beforeEach(() => {
    received = []
  })

  /** All that a person may type, and what shells and languages take for their own. */
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.string({
      unit: fc.constantFrom(...`'"\\$\`!#%&{}()<>|;*?~^\n\r\t\b\f\u0000\u2028\u2029é😀 aJSONuxN0`),
      maxLength: 12,
    }),
    fc.constantFrom(
      'JSON',
      '\nJSON\n',
      '$(touch owned)',
      '`touch owned`',
      "'; touch owned; '",
      `\${media_1}`,
      '\\u0041',
      '__proto__',
    ),
  )
  const name = text
    .map((name) => name.replaceAll(/[/\0]/g, '_'))
    .filter((name) => !['', '.', '..'].includes(name) && Buffer.byteLength(name) < 200)
  const json = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      text,
      fc.constantFrom(null, true, false, 0, -1.5, 1e21, 1e-7),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.array(fc.tuple(text, tie('value')), { maxLength: 4 }).map((members) => Object.fromEntries(members)),
    ),
  })).value

  const sent = async (language: Language, path: string, file: string, values: unknown[], texts: string[]) => {
    const bytes = Buffer.from(`content of ${file}`)
    await mkdir(folder, { recursive: true })
    const blob = new Blob([bytes], { type: 'audio/wav' })
    const media = new MediaRef(blob, file, null, false)
    const bare = new MediaRef(blob, file, null, true)
    await writeFile(join(folder, mediaOf([media]).get(blob)!.fileName), bytes)
    const messages = texts.map((content) => ({ role: 'user', content }))
    const body = { model: 'm', messages, vision_config: { values }, tools: [], user: texts[0] ?? '' }
    const request = { origin, method: 'POST', path, accept: null, key: "ke'y$" }
    const whole = (url: unknown, data: unknown) => ({ ...body, metadata: { url, data, again: url } })
    await runSnippet(language, { ...request, body: whole(media, bare) })
    await rm(join(folder, mediaOf([media]).get(blob)!.fileName))
    const base64 = bytes.toString('base64')
    expect(received.at(-1)).toMatchObject({ method: 'POST', path, headers: { authorization: "Bearer ke'y$" } })
    expect(received.at(-1)!.body).toEqual(JSON.parse(JSON.stringify(whole(`data:audio/wav;base64,${base64}`, base64))))
    await expect(readFile(join(folder, 'owned'))).rejects.toThrow('ENOENT')
  }

  describe.each(['/v1/chat/completions', '/v1/detect'])('to %s', (path) => {
    for (const language of LANGUAGES) {
      // All of these take long to start, so one has much to send.
      const runs = language === 'curl' ? 12 : 2
      test.skipIf(!isRunnable(language, path))(`in ${language}`, () =>
        fc.assert(
          fc.asyncProperty(
            name,
            fc.array(json, { maxLength: 24, size: 'max' }),
            fc.array(text, { maxLength: 36, size: 'max' }),
            (file, values, texts) => sent(language, path, file, values, texts),
          ),
          { numRuns: runs },
        ),
      )
    }
  })

  test('without media the shell changes nothing either', () =>
    fc.assert(
      fc.asyncProperty(fc.array(json, { maxLength: 24, size: 'max' }), async (values) => {
        await runSnippet('curl', {
          origin,
          method: 'POST',
          path: '/v1/detect',
          accept: 'text/event-stream',
          key: KEY,
          body: { values },
        })
        expect(received.at(-1)!.headers.accept).toBe('text/event-stream')
        expect(received.at(-1)!.body).toEqual(JSON.parse(JSON.stringify({ values })))
      }),
      { numRuns: 6 },
    ))

  test('words of the shell mean the text that they were made from', () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(
          text.filter((text) => !text.includes('\0')),
          { maxLength: 30, size: 'max' },
        ),
        async (texts) => {
          const commands = texts.flatMap((text) => [
            `printf %s ${shellQuote(text)}`,
            `cat <<'OUT' > /dev/null\nOUT\ncat <<OUT_OF_TEXT\n${hereQuote(text)}\nOUT_OF_TEXT`,
          ])
          const script = commands.map((command) => `${command}\nprintf '\\0'\n`).join('')
          const said = (await run('bash', ['-c', script])).stdout.split('\0')
          expect(said).toEqual([...texts.flatMap((text) => [text, `${text}\n`]), ''])
        },
      ),
      { numRuns: 6 },
    ))
})

describe('on the shipped model', () => {
  let server: TestServer
  beforeAll(async () => {
    if (!(await isPageBuilt(STUDIO))) await buildPage(STUDIO)
    server = await startShippedServer()
    await copyFile('docs/pictures/shapes.png', join(folder, "the user's shapes.png"))
  })
  afterAll(() => server?.close())

  const picture = new Blob([''], { type: 'image/png' })
  const ofUser = new MediaRef(picture, "the user's shapes.png", null, false)
  const sample = new MediaRef(picture, 'shapes.png', '/studio/samples/shapes.png', false)
  const chat = (media: unknown, stream: boolean) => ({
    model: 'service-mk1.5',
    messages: [
      {
        role: 'user',
        content: [
          { type: 'image_url', image_url: { url: media } },
          { type: 'text', text: 'Detect all objects.' },
        ],
      },
    ],
    vision_config: { annotation_format: 'box' },
    ...(stream ? { stream: true, stream_options: { include_usage: true } } : {}),
  })
  const write = (path: string, body: unknown): SnippetRequest => ({
    origin: server.url,
    method: 'POST',
    path,
    accept: null,
    body,
    key: KEY,
  })
  /** The answer to the same request, sent directly. */
  const answer = async () => {
    const url = `data:image/png;base64,${await readFile('docs/pictures/shapes.png', 'base64')}`
    const response = await server.post('/v1/chat/completions', chat(url, false))
    const { choices } = (await response.json()) as { choices: { message: { content: string } }[] }
    return choices[0]!.message.content
  }

  for (const language of LANGUAGES) {
    test.skipIf(!isRunnable(language, '/v1/chat/completions'))(
      `${language} answers, of a sample and of a file`,
      async () => {
        const content = await answer()
        for (const [media, stream] of [
          [ofUser, true],
          [sample, false],
        ] as const) {
          const printed = await runSnippet(language, write('/v1/chat/completions', chat(media, stream)))
          expect(shapeOf(language === 'curl' ? contentOf(printed, stream) : printed)).toBe(shapeOf(content))
        }
      },
    )

    test.skipIf(!isRunnable(language, '/v1/detect'))(`${language} detects`, async () => {
      const body = { media: { type: 'image', image_url: ofUser }, categories: ['red circle'] }
      const { detections } = JSON.parse(await runSnippet(language, write('/v1/detect', body))) as {
        detections: unknown[]
      }
      expect(detections).toBeInstanceOf(Array)
    })

    test.skipIf(!isRunnable(language, '/v1/decisions'))(`${language} decides`, async () => {
      const body = {
        model: 'service-mk1.5',
        input: [{ role: 'user', content: [{ type: 'input_image', image_url: ofUser }] }],
        questions: [
          { type: 'predicate', instructions: 'Is there a star?' },
          { type: 'x_box', instructions: 'star' },
        ],
      }
      const printed = await runSnippet(language, write('/v1/decisions', body))
      expect(printed).toMatch(/predicate[\s\S]*probability[\s\S]*x_box[\s\S]*confidence/)
    })
  }
})

function contentOf(printed: string, isStream: boolean): string {
  const bodies = isStream ? [...printed.matchAll(/^data: (\{.*)$/gm)].map(([, data]) => data!) : [printed]
  return bodies
    .map((body) => {
      const [choice] = (
        JSON.parse(body) as { choices: { delta?: { content?: string }; message?: { content: string } }[] }
      ).choices
      return choice?.message?.content ?? choice?.delta?.content ?? ''
    })
    .join('')
}

/** A reply without its coordinates, whose last digit depends on what is computed at the same time. */
function shapeOf(content: string): string {
  return content.trimEnd().replaceAll(/\d+/g, '0')
}
