import fc from 'fast-check'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { shippedSettings } from '../../../../test/support/shipped-settings.ts'
import { loadNativeLibraries } from '../native/libraries.ts'
import { locateNativeLibraries } from '../native/native-paths.ts'
import { LoadedModel } from '../scheduler/loaded-model.ts'
import { Texts } from './texts.ts'

let loaded: LoadedModel
beforeAll(async () => {
  loaded = new LoadedModel(loadNativeLibraries(locateNativeLibraries()), await shippedSettings())
})
afterAll(() => loaded.close())

const { signal } = new AbortController()
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
      expect(await aside.prepare(parts, 100_000, signal)).toBe(true)
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
  await aside.prepare([part], 100_000, signal)
  expect(aside.preparedTokens(part)).toEqual(model.tokenize(text, false))
})

test('a text of 500 words takes no time of this thread where others read it, and short ones no others', async () => {
  const { model } = loaded
  const tokenize = vi.spyOn(model, 'tokenize')
  const long = { type: 'text', text: 'circle '.repeat(500), trusted: false } as const
  const short = { type: 'text', text: 'Where is the circle?', trusted: false } as const
  const [inline, aside] = [new Texts(model), new Texts(model, true)]
  expect([inline.areLong([long]), aside.areLong([long]), aside.areLong([short])]).toEqual([false, true, false])
  await aside.prepare([short, long], 10_000, signal)
  expect(aside.tokenize(long).length).toBeGreaterThan(499)
  expect(tokenize).not.toHaveBeenCalled()
  expect(await aside.prepare([long], 100, signal)).toBe(false)
})
