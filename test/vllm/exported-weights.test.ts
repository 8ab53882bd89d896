import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import type { ImagePart } from '../../src/inference/contract/parts.ts'
import { loadNativeLibraries } from '../../src/inference/local/native/libraries.ts'
import { locateNativeLibraries } from '../../src/inference/local/native/native-paths.ts'
import { loadLocalCard } from '../../src/models/card.ts'
import { CARD, trusted } from '../support/local-engine.ts'
import { PlainLoop } from '../support/tiny-models/plain-loop.ts'
import { encode, type GenerateAnswer, generate, imageTurn, readTokenizer } from '../support/vllm/inference.ts'

const { python, model } = inject('vllm')
const server = { url: inject('vllmUrl') }
const PICTURE = 'docs/pictures/shapes.png'

/** Differences of log probabilities. The first is between two ways of computing the same in F32. */
const ROUNDING = 1e-4
/** The class has the exact GELU in its merger, and the model was trained with the tanh form. */
const EXACT_GELU = 5e-3
/** llama.cpp multiplies F16 weights with F16 activations, and keeps keys and values in F16. */
const HALF_PRECISION = 2e-2

describe('the exported weights', () => {
  test('have the logits of the training code, in Transformers', async () => {
    const env = { PATH: process.env.PATH, PYTHONPATH: 'training', HF_HUB_OFFLINE: '1' }
    const args = ['test/support/vllm/logits.py', 'models/lookout-nano', model, PICTURE, 'Detect all objects.']
    const { stdout } = await promisify(execFile)(python, args, { env })
    const { replied, largest } = JSON.parse(stdout)
    expect(replied).toBeGreaterThan(50)
    expect(largest.tanh).toBeLessThan(ROUNDING)
    expect(largest.none).toBeLessThan(EXACT_GELU)
  })

  describe('in vLLM', () => {
    let loop: PlainLoop
    let image: ImagePart
    beforeAll(async () => {
      const { data, info } = await sharp(PICTURE).removeAlpha().raw().toBuffer({ resolveWithObject: true })
      image = { type: 'image', image: { width: info.width, height: info.height, data } }
      loop = new PlainLoop(loadNativeLibraries(locateNativeLibraries()), await loadLocalCard(CARD))
    })
    afterAll(() => loop?.[Symbol.dispose]())

    test.each([
      'What is in this image?',
      'Detect all objects.',
      'Where is the blue star?',
      'How many squares are there?',
    ])('make tokens as likely as the GGUF files do in llama.cpp: %s', async (question) => {
      const prompt = encode(await readTokenizer(model), imageTurn(question))
      const png = await readFile(PICTURE)
      const response = await generate(server, prompt, [png], { logprobs: 0 })
      const { choices } = (await response.json()) as GenerateAnswer
      const { token_ids: tokens, logprobs } = choices[0]!
      // libmtmd puts the marks around an image itself.
      const [begin, end] = imageTurn(question).split('<|vision_start|><|image_pad|><|vision_end|>')
      const steps = [...loop.steps([trusted(begin!), image, trusted(end!)], tokens.length, tokens)]
      const expected = steps.map(({ logits }, step) => logProbability(logits, tokens[step]!))
      const found = logprobs!.content.map(({ logprob }) => logprob)
      expect(found).toHaveLength(expected.length)
      expect(Math.max(...found.map((value, step) => Math.abs(value - expected[step]!)))).toBeLessThan(HALF_PRECISION)
    })
  })
})

function logProbability(logits: Float32Array, token: number): number {
  const highest = logits.reduce((a, b) => Math.max(a, b))
  return logits[token]! - highest - Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - highest), 0))
}
