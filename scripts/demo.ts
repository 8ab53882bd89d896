/**
 * Starts a server with the shipped model, asks three questions about an image, prints the answers as they stream in,
 * and writes a copy of the image with the model's boxes drawn.
 *
 * Usage: npm run demo [-- image.png [output.png]]
 */
import { mkdir, readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import OpenAI from 'openai'
import sharp from 'sharp'
import { newApiKey } from '../src/accounts/api-key.ts'
import { readConfig } from '../src/config/config.ts'
import type { Leaf } from '../src/grounding/annotation.ts'
import { parseMarkup } from '../src/grounding/markup-parser.ts'
import { gridToPixels } from '../src/media/coordinates.ts'
import type { Size } from '../src/media/pixels.ts'
import { Service } from '../src/service.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const imagePath = resolve(process.argv[2] ?? `${root}/docs/pictures/shapes.png`)
const output = resolve(process.argv[3] ?? `${root}/out/demo.png`)

interface Box {
  readonly mention: string
  readonly left: number
  readonly top: number
  readonly right: number
  readonly bottom: number
}

/** Parses the boxes in the answer. A line that is not valid markup is skipped and reported. */
function boxesIn(answer: string, size: Size): Box[] {
  return answer.split('\n').flatMap((line) => {
    try {
      return parseMarkup(line).flatMap((item) => (item.kind === 'point_box' ? [toBox(item, size)] : []))
    } catch (error) {
      process.stdout.write(`  (skipped, ${(error as Error).message}: ${line})\n`)
      return []
    }
  })
}

function toBox({ mention, points }: Leaf, size: Size): Box {
  const [from, to] = points.map((point) => gridToPixels(point, size))
  return { mention: mention ?? '', left: from!.x, top: from!.y, right: to!.x, bottom: to!.y }
}

function overlay(boxes: readonly Box[], { width, height }: Size): Buffer {
  const escapeXml = (text: string) => text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)
  const drawn = boxes.map(
    ({ mention, left, top, right, bottom }) =>
      `<rect x="${left}" y="${top}" width="${right - left}" height="${bottom - top}" fill="none" stroke="#111" stroke-width="2"/>
       <text x="${left + 2}" y="${Math.max(12, top - 4)}" font-family="sans-serif" font-size="13" fill="#111">${escapeXml(mention)}</text>`,
  )
  return Buffer.from(
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}">${drawn.join('')}</svg>`,
  )
}

await using resources = new AsyncDisposableStack()
const apiKey = newApiKey()
const service = await Service.start(
  readConfig({ ...process.env, LOOKOUT_PORT: '0', LOOKOUT_LOG_LEVEL: 'warn', LOOKOUT_API_KEY: apiKey }),
)
resources.defer(() => service.close())
const client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey })
const bytes = await readFile(imagePath)
const { width, height } = await sharp(bytes).metadata()
const type = imagePath.endsWith('.png') ? 'png' : imagePath.endsWith('.webp') ? 'webp' : 'jpeg'
const url = `data:image/${type};base64,${bytes.toString('base64')}`

async function ask(question: string): Promise<string> {
  process.stdout.write(`\n> ${question}\n`)
  const started = performance.now()
  const stream = await client.chat.completions.create({
    model: (await service.models.list())[0]!.id,
    messages: [
      {
        role: 'user',
        content: [
          { type: 'image_url', image_url: { url } },
          { type: 'text', text: question },
        ],
      },
    ],
    stream: true,
  })
  let answer = ''
  let first = 0
  for await (const chunk of stream) {
    const text = chunk.choices[0]?.delta.content ?? ''
    if (text !== '' && answer === '') first = performance.now() - started
    answer += text
    process.stdout.write(text)
  }
  const all = performance.now() - started
  process.stdout.write(`\n  (first text after ${first.toFixed(0)} ms, done after ${all.toFixed(0)} ms)\n`)
  return answer
}

process.stdout.write(`Image: ${imagePath}\n`)
await ask('What is in this picture?')
await ask('What colour is the star?')
const boxes = boxesIn(await ask('Detect all objects.'), { width, height })

await mkdir(dirname(output), { recursive: true })
await sharp(bytes)
  .composite([{ input: overlay(boxes, { width, height }) }])
  .png()
  .toFile(output)
process.stdout.write(`\n${boxes.length} boxes drawn in ${output}\n`)
