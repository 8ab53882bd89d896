import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import koffi from 'koffi'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readGguf, writeGguf } from '../../../../test/support/gguf-writer.ts'
import { picture } from '../../../../test/support/local-engine.ts'
import { OTHER_MODELS } from '../../../../test/support/tiny-models/other-encoders.ts'
import { bindPlainMtmd, type PlainMtmd } from '../../../../test/support/tiny-models/plain-mtmd.ts'
import { qwen2Vl, qwen3Vl } from '../../../../test/support/tiny-models/qwen.ts'
import { type TinyModel, writeTinyModel } from '../../../../test/support/tiny-models/tiny-model.ts'
import { loadNativeLibraries, type NativeLibraries } from './libraries.ts'
import { Model } from './model.ts'
import type { Mtmd } from './mtmd.ts'
import { locateNativeLibraries } from './native-paths.ts'
import { type EncodableChunk, Projector } from './projector.ts'

let folder: string
let libraries: NativeLibraries
let plain: PlainMtmd
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'lookout-projector-'))
  libraries = loadNativeLibraries(locateNativeLibraries())
  plain = bindPlainMtmd()
})
afterAll(() => rm(folder, { recursive: true, force: true }))

/** Calls `use` with the chunks of a picture. @param change changes the encoder's file. */
async function withPieces(
  tiny: TinyModel,
  mtmd: Mtmd,
  use: (pieces: readonly EncodableChunk[], model: Model) => void,
  change: (path: string) => Promise<void> = async () => {},
): Promise<void> {
  const { directory, engine } = await writeTinyModel(tiny, folder)
  const path = join(directory, engine.projector!)
  await change(path)
  const model = new Model(libraries.llama, join(directory, engine.model), [])
  const projector = new Projector(mtmd, path, model, { threads: 1, image: tiny.image })
  const { width, height } = tiny.pictures![0]
  const chunks = projector.tokenize([picture(width, height, 5)], true)
  try {
    use(
      chunks.items.filter((item) => item.type === 'media'),
      model,
    )
  } finally {
    chunks.close()
    await projector.close()
    model.close()
  }
}

function floatsAt(address: bigint, count: number): Float32Array {
  return Float32Array.from(new Float32Array(koffi.view(address, 4 * count)))
}

const WITH_ROWS = [qwen2Vl, qwen3Vl, ...OTHER_MODELS.filter(({ name }) => name.includes('hunyuan'))]

test.each(WITH_ROWS)("positions are the library's, for every token and in any part: $name", async (tiny) => {
  const mtmd = libraries.mtmd!
  let tokens: bigint | null = null
  const watched: Mtmd = {
    ...mtmd,
    input_chunk_get_tokens_image: (chunk) => {
      tokens = mtmd.input_chunk_get_tokens_image(chunk)
      return tokens
    },
  }
  await withPieces(tiny, watched, (pieces) => {
    for (const piece of pieces) {
      const { length } = piece
      for (const [from, to] of [
        [0, length],
        [0, 1],
        [3, length - 2],
      ] as const) {
        const planes = piece.mropePositions(100, from, to)
        const expected = Array.from({ length: to - from }, (_, i) =>
          plain.image_tokens_get_decoder_pos(tokens!, 100, from + i),
        )
        expect([...planes]).toEqual(['t', 'y', 'x', 'z'].flatMap((axis) => expected.map((at) => at[axis as 'x'])))
      }
    }
  })
})

test("a picture's embeddings are what the library makes of it", async () => {
  const mtmd = libraries.mtmd!
  let context: bigint | null = null
  let handle: bigint | null = null
  const watched: Mtmd = {
    ...mtmd,
    encoder_load: (...args) => (context = mtmd.encoder_load(...args)),
    encoder_run: (...args) => {
      handle = args[1]
      return mtmd.encoder_run(...args)
    },
  }
  await withPieces(qwen3Vl, watched, ([piece], model) => {
    const embeddings = piece!.encode(Number.POSITIVE_INFINITY)!
    // It pauses at every possible point.
    let paused = piece!.encode(0)
    for (let calls = 0; paused === null; calls++) paused = piece!.encode(calls)
    expect(plain.encode_chunk(context!, handle!)).toBe(0)
    const expected = floatsAt(plain.get_output_embd(context!), piece!.length * model.embeddingSize)
    expect(embeddings).toEqual(expected)
    expect(paused).toEqual(expected)
  })
})

test.each([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])(
  'an encoder that returns %d is an error, wherever it stands in a row',
  async (value) => {
    for (const at of [0, 9, -1]) {
      const spoil = async (path: string) => {
        const { metadata, tensors } = await readGguf(path)
        const changed = tensors.map((tensor) => {
          if (tensor.name !== 'mm.2.bias') return tensor
          const bias = Float32Array.from(new Float32Array(Uint8Array.from(tensor.read()).buffer))
          bias[at < 0 ? bias.length + at : at] = value
          return { ...tensor, read: () => Buffer.from(bias.buffer) }
        })
        await writeGguf(path, { metadata, tensors: changed })
      }
      await withPieces(
        qwen3Vl,
        libraries.mtmd!,
        ([piece]) => {
          expect(() => piece!.encode(Number.POSITIVE_INFINITY)).toThrow('values that are not finite numbers')
        },
        spoil,
      )
    }
  },
)

test('closing waits for a picture that another thread prepares', async () => {
  const mtmd = libraries.mtmd!
  const events: string[] = []
  const tokenize = (mtmd.tokenize_from_parts as unknown as { async: (...args: unknown[]) => void }).async
  const elsewhere = (...args: unknown[]) => {
    const done = args.pop() as (...results: unknown[]) => void
    tokenize(...args, (...results: unknown[]) => {
      events.push('prepared')
      done(...results)
    })
  }
  const watched: Mtmd = {
    ...mtmd,
    tokenize_from_parts: Object.assign(mtmd.tokenize_from_parts.bind(null), { async: elsewhere }),
    encoder_free: (encoder) => {
      events.push('freed')
      mtmd.encoder_free(encoder)
    },
  }
  const { directory, engine } = await writeTinyModel(qwen3Vl, folder)
  const model = new Model(libraries.llama, join(directory, engine.model), [])
  const options = { threads: 1, image: qwen3Vl.image }
  const projector = new Projector(watched, join(directory, engine.projector!), model, options)
  const prepared = projector.tokenizeInBackground(picture(256, 256, 5))
  await projector.close()
  model.close()
  expect(events).toEqual(['prepared', 'freed'])
  ;(await prepared).close()
})
