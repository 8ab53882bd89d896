import { expect, test } from 'vitest'
import { sortWords } from './words.ts'

const names = {
  ids: ['big', 'small'],
  has: async (name: string) => ['big', 'small', 'alias', 'docs'].includes(name),
}
const sort = (...words: string[]) => sortWords(words, { model: null, names, meaning: 'question' })

const PICTURE = 'docs/pictures/shapes.png'

test.each([
  [['big', PICTURE, 'What is it?'], { model: 'big', media: [PICTURE], text: 'What is it?' }],
  [['alias', PICTURE], { model: 'alias', media: [PICTURE], text: null }],
  [[PICTURE, '-', 'What is it?'], { model: null, media: [PICTURE, '-'], text: 'What is it?' }],
  [['What is it?', PICTURE], { model: null, media: [PICTURE], text: 'What is it?' }],
  [['What is in a.png?', 'docs/pictures'], { model: null, media: ['docs/pictures'], text: 'What is in a.png?' }],
  [['Hello'], { model: null, media: [], text: 'Hello' }],
  [['small', 'Hello'], { model: 'small', media: [], text: 'Hello' }],
  [['small', 'big'], { model: 'small', media: [], text: 'big' }],
])('%j', async (words, sorted) => {
  expect(await sort(...words)).toEqual(sorted)
})

test.each([
  [[PICTURE, 'big'], "'big' is a model: name it before the files"],
  [['docs', 'What?'], "'docs' is a model and a file: write --model docs or ./docs"],
  [['huge', PICTURE, 'What?'], "'huge' is neither a file nor a model; the models are big, small"],
  [[PICTURE, 'What', 'is it?'], "expected one argument with the question, not 'What' and 'is it?': quote it"],
  [['missing.jpg', 'What?'], "there is no file 'missing.jpg'"],
  [['./missing', 'What?'], "there is no file './missing'"],
  [['https://example.org/a.png'], "'https://example.org/a.png' is an address: download it first, and name the file"],
  [['-', '-', 'What?'], '- can be given only once'],
])('%j cannot be told apart', async (words, message) => {
  await expect(sort(...words)).rejects.toThrow(message)
})
