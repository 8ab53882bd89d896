import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { writeGguf } from '../../../../test/support/gguf-writer.ts'
import { picture } from '../../../../test/support/local-engine.ts'
import { shippedSettings } from '../../../../test/support/shipped-settings.ts'
import { languageModel } from '../../../../test/support/tiny-models/language.ts'
import { template } from '../../../../test/support/tiny-models/tiny-model.ts'
import { bytePairs, sentencePieces } from '../../../../test/support/tiny-models/vocabulary.ts'
import type { PromptPart } from '../../contract/parts.ts'
import { loadNativeLibraries } from '../native/libraries.ts'
import { Model } from '../native/model.ts'
import { locateNativeLibraries } from '../native/native-paths.ts'
import { textOf } from '../scheduler/admission.ts'
import { InputTokens } from '../scheduler/embedding/input-tokens.ts'
import { LoadedModel } from '../scheduler/loaded-model.ts'
import { EncoderCache } from './encoder-cache.ts'
import { JoinedTexts } from './joined-texts.ts'
import { PromptReader, type TokenisedPrompt } from './prompt-tokens.ts'
import { SLICE_CHARACTERS } from './text-slices.ts'
import { inTurn, Texts } from './texts.ts'

let loaded: LoadedModel
beforeAll(async () => {
  loaded = new LoadedModel(loadNativeLibraries(locateNativeLibraries()), await shippedSettings())
})
afterAll(() => loaded.close())

const terms = { organisation: 'test', signal: new AbortController().signal }
const word = fc.constantFrom(
  'red',
  'circle',
  'Über',
  '1234',
  '日本語',
  "don't",
  '\n\n',
  '  ',
  '<think>',
  '<|im_end|>\n',
  '😀',
)
/** Texts with up to more slices than threads. */
const texts = fc.array(
  fc.record({
    type: fc.constant('text' as const),
    text: fc.array(word, { minLength: 1, maxLength: 4000 }).map((words) => words.join(' ')),
    trusted: fc.boolean(),
  }),
  { minLength: 1, maxLength: 3 },
)

test('other threads produce the same tokens as this one', async () => {
  const { model } = loaded
  await fc.assert(
    fc.asyncProperty(texts, async (parts) => {
      const aside = new Texts(model, true)
      expect(await aside.prepare(parts, 100_000, terms)).toBe(true)
      for (const part of parts) expect(aside.tokenize(part)).toEqual(model.tokenize(part.text, part.trusted))
    }),
    { numRuns: 30 },
  )
})

test('they do so for a text with more slices than threads', async () => {
  const { model } = loaded
  const text = Array.from({ length: 5000 }, (_, i) => `word${i}`).join(' ')
  const part = { type: 'text', text, trusted: false } as const
  const aside = new Texts(model, true)
  await aside.prepare([part], 100_000, terms)
  expect(aside.preparedTokens(part)).toEqual(model.tokenize(text, false))
})

test.each(['internationalization', '日本語', '日本語の文章、', 'Ünïcödé.'])(
  'a raw prompt of 20,000 characters of "%s" has the tokens of one piece',
  async (unit) => {
    const { model } = loaded
    const part = { type: 'text', text: unit.repeat(20_000 / unit.length), trusted: true } as const
    for (const isAside of [false, true]) {
      const texts = new Texts(model, isAside)
      await texts.prepare([part], 100_000, terms)
      expect(texts.preparedTokens(part)).toEqual(model.tokenize(part.text, true))
    }
  },
)

test('a text waits for no step before it is read, and a second one only behind a long one', async () => {
  const texts = new Texts(loaded.model)
  const turnsOver = async (count: number) => {
    let isOver = false
    setImmediate(() => {
      isOver = true
    })
    for (let i = 0; i < count; i++) await texts.read({ text: 'circle', trusted: false }, 100, terms)
    return isOver
  }
  let time = 0
  const now = vi.spyOn(performance, 'now').mockImplementation(() => (time += 10))
  onTestFinished(() => now.mockRestore())
  for (const [count, isOver] of [
    [1, false],
    [1, false],
    [3, true],
    [1, false],
  ] as const) {
    expect(await turnsOver(count)).toBe(isOver)
    await nextTurn()
  }
})

test('what comes before a prompt matters only to its first text', async () => {
  const text = (text: string) => ({ type: 'text', text, trusted: false }) as const
  const parts = [text('red'), picture(28, 28), text('blue')]
  const reads: [string, boolean][] = []
  const read: Texts['read'] = async ({ text, continues = false }) => {
    reads.push([text, continues])
    return new Int32Array()
  }
  const joined = new JoinedTexts({
    readsAsOne: true,
    tokenize: () => new Int32Array(),
    tokenizeContinuation: () => new Int32Array(),
    isControl: () => false,
    isMark: () => false,
  })
  for (const some of [parts, parts.slice(1)]) await joined.prepare(some, 100, true, { read }, terms)
  expect(reads).toEqual([
    ['red', false],
    ['blue', false],
    ['red', true],
    ['blue', false],
  ])
})

test('a text of 500 words takes no time of this thread where others read it, and short ones no others', async () => {
  const { model } = loaded
  const tokenize = vi.spyOn(model, 'tokenize')
  const long = { type: 'text', text: 'circle '.repeat(500), trusted: false } as const
  const short = { type: 'text', text: 'Where is the circle?', trusted: false } as const
  const [inline, aside] = [new Texts(model), new Texts(model, true)]
  expect([inline.areLong([long]), aside.areLong([long]), aside.areLong([short])]).toEqual([false, true, false])
  await aside.prepare([short, long], 10_000, terms)
  expect(aside.tokenize(long).length).toBeGreaterThan(499)
  expect(tokenize).not.toHaveBeenCalled()
  expect(await aside.prepare([long], 100, terms)).toBe(false)
})

describe('a vocabulary with marks', () => {
  const marks = ['<td>', '</td>', '<blockquote>', '\n', '\n\n', '\n\n\n']
  const options = { control: ['<turn>', '<turn>\n'], addsBos: true, chatTemplate: template('<turn>', '', '') }
  const VOCABULARIES = {
    SentencePiece: sentencePieces({ ...options, marks, spacePrefix: false }),
    'SentencePiece with a space at the beginning': sentencePieces({ ...options, marks, spacePrefix: true }),
    'byte pairs': bytePairs({ ...options, texts: ['><', '</', 'td>'] }),
  }
  const models: Partial<Record<keyof typeof VOCABULARIES, Model>> = {}
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'lookout-texts-'))
    const { llama } = loadNativeLibraries(locateNativeLibraries())
    for (const [name, vocabulary] of Object.entries(VOCABULARIES)) {
      const path = join(folder, `${name}.gguf`)
      await writeGguf(path, languageModel({ architecture: 'llama', vocabulary, seed: name }))
      models[name as keyof typeof VOCABULARIES] = new Model(llama, path)
    }
  })
  afterAll(async () => {
    for (const model of Object.values(models)) model.close()
    await rm(folder, { recursive: true, force: true })
  })

  const readerOf = (model: Model) => new PromptReader(model, null, { image: null }, new EncoderCache(0))
  const tokensOf = (reader: PromptReader, parts: PromptPart[], before?: TokenisedPrompt) =>
    reader.size(parts, 'test', 'messages', before).chunks.flatMap((chunk) => {
      return chunk.type === 'text' ? [...chunk.tokens] : []
    })
  const unit = fc.constantFrom('ba', ' be', '<', 'td>', '<td>', '</td>', '<blockquote>', '\n', ' ', '<turn>', 'é', '日')
  const part = fc.record({
    type: fc.constant('text' as const),
    text: fc
      .tuple(fc.array(unit, { minLength: 1, maxLength: 30 }), fc.integer({ min: 1, max: 600 }))
      .map(([units, times]) => `${units.join('')}a<`.repeat(times)),
    trusted: fc.boolean(),
  })

  test.each(Object.keys(VOCABULARIES) as (keyof typeof VOCABULARIES)[])(
    '%s: a prepared prompt has the tokens of the same texts in one piece',
    async (name) => {
      const model = models[name]!
      const beginnings = ['<turn>', 'ba'].map((text) => {
        return readerOf(model).size([{ type: 'text', text, trusted: true }], 'test', 'messages')
      })
      await fc.assert(
        fc.asyncProperty(
          fc.array(part, { minLength: 1, maxLength: 4 }),
          fc.constantFrom(undefined, ...beginnings),
          async (parts, before) => {
            const prepared = readerOf(model)
            await prepared.prepare(parts, 'test', 10 ** 6, terms.signal, before !== undefined)
            expect(tokensOf(prepared, parts, before)).toEqual(tokensOf(readerOf(model), parts, before))
          },
        ),
        { numRuns: 25 },
      )
    },
  )

  test.each([
    ['SentencePiece', '\na<blockquote>', [false, false, false]],
    ['SentencePiece', '\na<blockquote>', [true, false, true]],
    ['SentencePiece', '\n', [true, false, true]],
    ['byte pairs', 'x<turn>', [true]],
    ['byte pairs', '<td>ba</td>', [true]],
  ] as const)('%s: no call reads much of 400,000 characters of "%s"', async (name, unit, trusted) => {
    const model = models[name]!
    const parts = trusted.map((isTrusted, at) => {
      return {
        type: 'text' as const,
        text: at === trusted.length >> 1 ? unit.repeat(400_000 / unit.length) : '<turn>',
        trusted: isTrusted,
      }
    })
    const reader = readerOf(model)
    const calls = (['tokenize', 'tokenizeInBackground'] as const).map((name) => vi.spyOn(model, name))
    expect(await reader.prepare(parts, 'test', 10 ** 6, terms.signal)).toBe(true)
    reader.size(parts, 'test', 'messages')
    const lengths = calls.flatMap(({ mock }) => mock.calls.map(([text]) => text.length))
    expect(Math.max(...lengths)).toBeLessThanOrEqual(SLICE_CHARACTERS)
  })

  test('an input to embed is cut at marks too, and has the tokens of one piece', async () => {
    const model = models.SentencePiece!
    const content = '\na<blockquote>'.repeat(1000)
    const whole = model.tokenize(`ba: ${content}`, false)
    const inputs = new InputTokens(
      { model, reader: null, contextTokens: 10 ** 6, mediaRows: 0 },
      { prompt: 'ba: {input}' },
    )
    const calls = (['tokenize', 'tokenizeInBackground'] as const).map((name) => vi.spyOn(model, name))
    const prompt = await inputs.of({ param: 'input', content }, { ...terms, truncates: false })
    expect(textOf(prompt.chunks).slice(1)).toEqual(whole)
    const lengths = calls.flatMap(({ mock }) => mock.calls.map(([text]) => text.length))
    expect(Math.max(...lengths)).toBeLessThanOrEqual(SLICE_CHARACTERS)
  })

  test('a text is read no further than its context reaches, or than its client waits', async () => {
    const model = models['byte pairs']!
    const tokenize = vi.spyOn(model, 'tokenize')
    const parts = [{ type: 'text', text: 'x<turn>'.repeat(100_000), trusted: true } as const]
    expect(await readerOf(model).prepare(parts, 'test', 50_000, terms.signal)).toBe(false)
    expect(tokenize.mock.calls.length).toBeLessThan(60)
    tokenize.mockClear()
    const leaving = new AbortController()
    tokenize.mockImplementationOnce(() => {
      leaving.abort(new Error('left'))
      return new Int32Array()
    })
    await expect(readerOf(model).prepare(parts, 'test', 10 ** 6, leaving.signal)).rejects.toThrow('left')
    expect(tokenize).toHaveBeenCalledTimes(1)
  })
})

test("three of the threads read long texts at a time, two of them one organisation's", async () => {
  const { promise, resolve } = Promise.withResolvers<Int32Array>()
  const started: string[] = []
  const long = 'a'.repeat(100_000)
  const leaving = new AbortController()
  const begin = (organisation: string, signal = terms.signal) =>
    inTurn(long, { organisation, signal }, () => {
      started.push(organisation)
      return promise
    })
  const left = [begin('one'), begin('one'), begin('one', leaving.signal), begin('other'), begin('third')]
  leaving.abort(new Error('left'))
  await expect(left[2]).rejects.toThrow('left')
  await nextTurn()
  expect(started).toEqual(['one', 'one', 'other'])
  resolve(Int32Array.of(1))
  await Promise.all(left.filter((_, at) => at !== 2))
  expect(started).toEqual(['one', 'one', 'other', 'third'])
})

test('other threads have the stack for a long word, where a vocabulary is split by an expression that recurses', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'lookout-words-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const path = join(folder, 'words.gguf')
  const vocabulary = bytePairs({ control: [], addsBos: false, pre: 'tekken', chatTemplate: template('', '', '') })
  await writeGguf(path, languageModel({ architecture: 'llama', vocabulary, seed: 'words' }))
  const model = new Model(loadNativeLibraries(locateNativeLibraries()).llama, path)
  onTestFinished(() => model.close())
  const word = 'a'.repeat(SLICE_CHARACTERS)
  // With too little, the process ends.
  expect(await model.tokenizeInBackground(word, false)).toEqual(model.tokenize(word, false))
})
