import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readConfig } from '../src/config/config.ts'
import { Service } from '../src/service.ts'
import { readGguf, type Tensor, TensorType, writeGguf } from './support/gguf-writer.ts'

/**
 * Most open checkpoints have quantised weights. Their products use other kernels than the shipped f16 weights: AMX,
 * where the processor has it. This test serves the shipped model with its matrices as Q8_0.
 */
const SHIPPED = 'models/lookout-nano'
const BLOCK = 32

let folder: string
let service: Service

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lookout-q8-'))
  const card = JSON.parse(await readFile(`${SHIPPED}/card.json`, 'utf8'))
  await quantise(`${SHIPPED}/${card.engine.model}`, join(folder, 'model-q8_0.gguf'))
  await copyFile(`${SHIPPED}/${card.engine.projector}`, join(folder, card.engine.projector))
  card.engine.model = 'model-q8_0.gguf'
  await writeFile(join(folder, 'card.json'), JSON.stringify(card))
  const environment = {
    LOOKOUT_PORT: '0',
    LOOKOUT_API_KEY: 'k',
    LOOKOUT_LOG_LEVEL: 'silent',
    LOOKOUT_RATE_LIMITS: 'off',
    LOOKOUT_MODEL_CARD: join(folder, 'card.json'),
  }
  service = await Service.start(readConfig(environment))
})
afterAll(async () => {
  await service?.close()
  await rm(folder, { recursive: true, force: true })
})

interface Choices {
  choices: { message: { content: string } }[]
}

test('quantised weights answer about an image, alone and in a batch', async () => {
  const url = `data:image/png;base64,${(await readFile('docs/pictures/shapes.png')).toString('base64')}`
  const image = { type: 'image_url', image_url: { url } }
  const ask = async <Body>(path: string, body: object): Promise<Body> => {
    const response = await fetch(service.url + path, {
      method: 'POST',
      headers: { authorization: 'Bearer k', 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'service-mk1.5', ...body }),
    })
    expect(response.status).toBe(200)
    return (await response.json()) as Body
  }
  const text = 'What colour is the star?'
  const chat = await ask<Choices>('/v1/chat/completions', {
    messages: [{ role: 'user', content: [image, { type: 'text', text }] }],
  })
  expect(chat.choices[0]?.message.content).toBe('Blue.')

  const prompts = Array.from({ length: 16 }, (_, n) => (n % 2 === 0 ? text : 'Is there a red circle?'))
  const looks = await ask<{ results: { completions: Choices['choices'] }[] }>('/v1/chat/completions/multilook', {
    context: [{ role: 'user', content: [image] }],
    prompts,
  })
  const answers = looks.results.map((result) => result.completions.map(({ message }) => message.content))
  expect(answers).toEqual(prompts.map((prompt) => [prompt === text ? 'Blue.' : 'Yes.']))
})

/** Copies a model with every f16 matrix as Q8_0: blocks of 32 eight-bit values with one scale each. */
async function quantise(from: string, to: string): Promise<void> {
  const { metadata, tensors } = await readGguf(from)
  const isMatrix = ({ type, shape }: Tensor) => type === TensorType.F16 && shape.length === 2 && shape[0]! % BLOCK === 0
  expect(tensors.filter(isMatrix).length).toBeGreaterThan(20)
  await writeGguf(to, {
    metadata,
    tensors: tensors.map((tensor) =>
      isMatrix(tensor) ? { ...tensor, type: TensorType.Q8_0, read: () => toQ8(tensor.read()) } : tensor,
    ),
  })
}

function toQ8(halves: Buffer): Buffer {
  const values = new Float16Array(halves.buffer.slice(halves.byteOffset, halves.byteOffset + halves.length))
  const blocks = values.length / BLOCK
  const bytes = Buffer.alloc(blocks * (2 + BLOCK))
  const view = new DataView(bytes.buffer, bytes.byteOffset)
  for (let block = 0; block < blocks; block++) {
    const part = values.subarray(block * BLOCK, (block + 1) * BLOCK)
    const scale = part.reduce((most, value) => Math.max(most, Math.abs(value)), 0) / 127
    const at = block * (2 + BLOCK)
    view.setFloat16(at, scale, true)
    for (const [index, value] of part.entries()) {
      view.setInt8(at + 2 + index, scale === 0 ? 0 : Math.round(value / scale))
    }
  }
  return bytes
}
