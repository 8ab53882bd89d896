import { readFile } from 'node:fs/promises'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { RgbImage } from '../../src/media/pixels.ts'
import { KEY, type TestServer } from '../support/server.ts'
import { startShippedServer } from '../support/shipped-model.ts'
import { makeVideo } from '../support/video.ts'

/** The shipped model answers questions over HTTP about one scene, sent in every supported form. */
let server: TestServer
let scene: Buffer
let frame: RgbImage

beforeAll(async () => {
  scene = await readFile(new URL('../../docs/pictures/shapes.png', import.meta.url))
  const { data, info } = await sharp(scene).removeAlpha().raw().toBuffer({ resolveWithObject: true })
  frame = { width: info.width, height: info.height, data }
  server = await startShippedServer()
})

afterAll(() => server?.close())

const dataUrl = (type: string, bytes: Uint8Array) => `data:${type};base64,${Buffer.from(bytes).toString('base64')}`
const still = (type: string, bytes: Uint8Array) => ({ type: 'image_url', image_url: { url: dataUrl(type, bytes) } })
const video = (type: string, bytes: Uint8Array) => ({ type: 'video_url', video_url: { url: dataUrl(type, bytes) } })
const frames = (count: number) => Array.from({ length: count }, () => frame)

async function ask(part: object, text: string): Promise<{ content: string; usage: { prompt_tokens: number } }> {
  const response = await server.post('/v1/chat/completions', {
    model: 'service-mk1.5',
    max_completion_tokens: 60,
    messages: [{ role: 'user', content: [part, { type: 'text', text }] }],
  })
  const body = (await response.json()) as {
    choices: { message: { content: string } }[]
    usage: { prompt_tokens: number }
  }
  expect(body).toMatchObject({ choices: [{}] })
  return { content: body.choices[0]!.message.content, usage: body.usage }
}

async function upload(name: string, bytes: Uint8Array): Promise<string> {
  const form = new FormData()
  form.set('purpose', 'vision')
  form.set('file', new Blob([new Uint8Array(bytes)]), name)
  // The contract requires Content-Length, which a stream does not have.
  const request = new Request(`${server.url}/v1/files`, { method: 'POST', body: form })
  const body = await request.arrayBuffer()
  const response = await fetch(request.url, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': request.headers.get('content-type')! },
    body,
  })
  expect(response.status).toBe(200)
  return ((await response.json()) as { id: string }).id
}

const forms: [string, () => Promise<object>][] = [
  ['PNG', async () => still('image/png', scene)],
  ['JPEG', async () => still('image/jpeg', await sharp(scene).jpeg({ quality: 90 }).toBuffer())],
  ['WebP', async () => still('image/webp', await sharp(scene).webp().toBuffer())],
  [
    'sideways JPEG with an EXIF orientation',
    async () => still('image/jpeg', await sharp(scene).rotate(270).withMetadata({ orientation: 6 }).jpeg().toBuffer()),
  ],
  ['MP4', async () => video('video/mp4', await makeVideo({ format: 'mp4', frames: frames(20) }))],
  ['WebM', async () => video('video/webm', await makeVideo({ format: 'webm', frames: frames(20) }))],
  [
    'frames',
    async () => {
      const image_url = { url: dataUrl('image/png', scene) }
      return {
        type: 'video_frames',
        video_frames: { frames: [0, 500, 1000, 1500].map((timestamp_ms) => ({ image_url, timestamp_ms })) },
      }
    },
  ],
  [
    'an uploaded image, by id',
    async () => ({ type: 'image_file_id', image_file_id: { file_id: await upload('shapes.png', scene) } }),
  ],
  [
    'an uploaded image, by its content URL under any public name',
    async () => {
      const id = await upload('shapes.png', scene)
      return { type: 'image_url', image_url: { url: `https://pictures.example/api/v1/files/${id}/content` } }
    },
  ],
  [
    'MOV, uploaded',
    async () => {
      const mov = await makeVideo({ format: 'mov', frames: frames(20) })
      return { type: 'video_file_id', video_file_id: { file_id: await upload('shapes.mov', mov) } }
    },
  ],
  [
    'frames, some of them uploaded',
    async () => {
      const stored = `${server.url}/v1/files/${await upload('shapes.png', scene)}/content`
      const urls = [dataUrl('image/png', scene), stored]
      return {
        type: 'video_frames',
        video_frames: { frames: urls.map((url, i) => ({ image_url: { url }, timestamp_ms: i * 1000 })) },
      }
    },
  ],
]

describe.each(forms)('%s', (_name, make) => {
  it('is answered correctly', async () => {
    const part = await make()
    expect((await ask(part, 'What colour is the star?')).content).toMatch(/blue/i)
    expect((await ask(part, 'Is there a red circle?')).content).toMatch(/yes/i)
  })
})

it('boxes in an image stretched to one and a half times its width are stretched as well', async () => {
  const middleIn = async (image: Uint8Array) => {
    const media = { type: 'image', image_url: dataUrl('image/jpeg', image) }
    const response = await server.post('/v1/detect', { media, categories: ['blue star'] })
    expect(response.status).toBe(200)
    type Corner = { x: number; y: number }
    const { detections } = (await response.json()) as {
      detections: { point_box: { top_left: Corner; bottom_right: Corner } }[]
    }
    const { top_left: from, bottom_right: to } = detections[0]!.point_box
    return [(from.x + to.x) / 2, (from.y + to.y) / 2] as const
  }
  const [x, y] = await middleIn(await sharp(scene).jpeg({ quality: 98 }).toBuffer())
  const wide = await sharp(scene).resize(768, 384, { fit: 'fill' }).jpeg({ quality: 98 }).toBuffer()
  const [wideX, wideY] = await middleIn(wide)
  expect(Math.abs(wideX - x * 1.5)).toBeLessThan(40)
  expect(Math.abs(wideY - y)).toBeLessThan(30)
})
