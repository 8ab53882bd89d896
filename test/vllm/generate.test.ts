import { readFile } from 'node:fs/promises'
import type { Tokenizer } from '@huggingface/tokenizers'
import sharp from 'sharp'
import { beforeAll, describe, expect, inject, test } from 'vitest'
import { encode, type GenerateAnswer, generate, imageTurn, readTokenizer } from '../support/vllm/inference.ts'

const { model } = inject('vllm')
const server = { url: inject('vllmUrl') }
const IMAGE_TOKENS = 192
const BOX = /<point_box mention="([^"]+)"> \((\d+),(\d+)\) \((\d+),(\d+)\) <\/point_box>/g

describe('POST /inference/v1/generate', () => {
  let tokenizer: Tokenizer
  let image: Buffer
  beforeAll(async () => {
    tokenizer = await readTokenizer(model)
    image = await readFile('docs/pictures/shapes.png')
  })

  test('token ids and one image: the boxes of all objects', async () => {
    const tokens = encode(tokenizer, imageTurn('Detect all objects.'))
    const response = await generate(server, tokens, [image], {})
    expect(response.status).toBe(200)
    const { choices, prompt_token_ids, usage } = (await response.json()) as GenerateAnswer
    const [choice] = choices
    expect(choice!.finish_reason).toBe('stop')
    const boxes = [...choice!.text.matchAll(BOX)].map(([, name, ...corners]) => ({
      name,
      corners: corners.map(Number),
    }))
    expect(boxes.map(({ name }) => name).sort()).toEqual(
      ['blue star', 'green triangle', 'orange square', 'orange square', 'purple heart', 'red circle'].sort(),
    )
    for (const { corners } of boxes) {
      const [left, top, right, bottom] = corners as [number, number, number, number]
      expect(left).toBeLessThan(right)
      expect(top).toBeLessThan(bottom)
      expect(Math.max(right, bottom)).toBeLessThanOrEqual(1000)
    }
    // The one image token of the prompt became those of the image, and every other token stayed as it was.
    const place = tokens.indexOf(encode(tokenizer, '<|image_pad|>')[0]!)
    expect(prompt_token_ids).toEqual(tokens.toSpliced(place, 1, ...Array(IMAGE_TOKENS).fill(tokens[place]!)))
    expect(usage.prompt_tokens).toBe(prompt_token_ids.length)
  })

  test('a frame of a video keeps its size', async () => {
    const frame = await sharp(image).resize(128, 192, { fit: 'fill' }).png().toBuffer()
    const tokens = encode(tokenizer, imageTurn('What is in this image?'))
    const { usage } = (await (await generate(server, tokens, [frame], {})).json()) as GenerateAnswer
    expect(usage.prompt_tokens).toBe(tokens.length - 1 + 4 * 6)
  })

  test('a second question about the same image computes only what is new', async () => {
    const ask = async (question: string) =>
      (await generate(server, encode(tokenizer, imageTurn(question)), [image], {})).json() as Promise<GenerateAnswer>
    await ask('How many stars are there?')
    const { choices, usage } = await ask('Where is the blue star?')
    expect(choices[0]!.text).toMatch(/top/i)
    expect(usage.prompt_tokens_details.cached_tokens).toBeGreaterThanOrEqual(128)
  })
})
