import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { FakeEngine } from '../../test/support/fake-engine.ts'
import { writeHeader } from '../../test/support/model-header.ts'
import { ModelRegistry } from '../inference/catalog/registry.ts'
import { describeModel } from '../inference/local/host/model-files.ts'
import { findCards, loadCard } from './card.ts'

let directory: string
let shipped: Record<string, unknown>
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-cards-'))
  shipped = JSON.parse(await readFile('models/lookout-nano/card.json', 'utf8'))
})
afterAll(() => rm(directory, { recursive: true }))

async function written(name: string, content: unknown): Promise<string> {
  const file = join(directory, name)
  await mkdir(join(file, '..'), { recursive: true })
  await writeFile(file, typeof content === 'string' ? content : JSON.stringify(content))
  return file
}

test.each<[string, (card: Record<string, unknown>) => unknown, RegExp]>([
  ['not JSON', () => '{', /^Model card .+card\.json: not valid JSON: /],
  ['not an object', () => [], /^Model card .+card\.json: expected object, received array$/],
  ['a field too few', ({ engine: _, ...card }) => card, /: engine: expected object, received undefined$/],
  ['a field too many', (card) => ({ ...card, colour: 'red' }), /: Unrecognized key: "colour"$/],
  [
    'a wrong field',
    (card) => ({ ...card, load: 'never' }),
    /: load: Invalid option: expected one of "start"\|"first_use"$/,
  ],
  [
    'a wrong field deep inside',
    (card) => ({ ...card, serves: [{ ...(card.serves as object[])[0], id: 7 }] }),
    /: serves\[0\]\.id: expected string, received number$/,
  ],
  [
    'a wrong number of layers',
    (card) => ({ ...card, engine: { ...(card.engine as object), gpu: { layers: 'most' } } }),
    /: engine\.gpu\.layers: expected a whole number or 'auto'$/,
  ],
  [
    'a device twice',
    (card) => ({ ...card, engine: { ...(card.engine as object), gpu: { devices: ['CUDA0', 'CUDA0'] } } }),
    /: engine\.gpu\.devices: names a device twice$/,
  ],
])('a card that cannot be used names its file and field, in one line: %s', async (_name, change, message) => {
  const file = await written('broken/card.json', change(shipped))
  await expect(loadCard(file)).rejects.toThrow(message)
})

test('the old name of `extensions` still works, and is told', async () => {
  const { extensions: _, ...card } = shipped
  const told: string[] = []
  const old = await written('old/card.json', { ...card, ownModel: false })
  expect((await loadCard(old, (message) => void told.push(message))).extensions).toBe(false)
  expect(told).toEqual([expect.stringMatching(/^Model card .+card\.json: ownModel: is now called 'extensions'; /)])
  const both = await written('both/card.json', { ...shipped, ownModel: true })
  await expect(loadCard(both)).rejects.toThrow(/: ownModel: is the old name of 'extensions', .*: remove it$/)
  expect((await loadCard(await written('neither/card.json', card))).extensions).toBe(true)
})

test('a card that is not there', async () => {
  await expect(loadCard(join(directory, 'none.json'))).rejects.toThrow(/^Model card .+none\.json: ENOENT/)
})

test('the example in docs/ is a card: its files say the rest', async () => {
  const [file] = await findCards(['docs/example-cards'])
  await expect(loadCard(file!)).rejects.toThrow(/engine\.model: the file .+Q4_K_M\.gguf does not exist$/)
  const example = JSON.parse(await readFile(file!, 'utf8'))
  const copy = await written('example/card.json', example)
  await writeHeader(join(directory, 'example', example.engine.model), {
    'general.architecture': 'qwen3vl',
    'qwen3vl.context_length': 262_144,
    'tokenizer.ggml.tokens': ['a'],
    'tokenizer.chat_template': '{% for m in messages %}{{ m.content }}{% endfor %}',
  })
  await writeHeader(join(directory, 'example', example.engine.projector), {
    'clip.has_vision_encoder': true,
    'clip.projector_type': 'qwen3vl_merger',
  })
  const card = await loadCard(copy)
  expect(card).toMatchObject({ dialect: 'qwen3-vl', image: { minTokens: 1024, maxTokens: 4096 } })
  expect(card.serves[0]).toMatchObject({ id: 'qwen3-vl-4b-instruct', outputFormats: ['text', 'point', 'box'] })
  const { info } = await describeModel(card)
  new ModelRegistry().add(card, new FakeEngine(info))
})

test('paths lead to cards: a card, a folder with one, a folder of such folders', async () => {
  const single = await written('single.json', shipped)
  const own = await written('own/card.json', shipped)
  const first = await written('many/a/card.json', shipped)
  const second = await written('many/b/card.json', shipped)
  await written('many/readme.txt', 'no card')
  await written('many/c/model.gguf', 'no card')
  const many = join(directory, 'many')
  expect(await findCards([single, join(directory, 'own'), many])).toEqual([single, own, first, second])
  expect(await findCards([many, first])).toEqual([first, second])
  await expect(findCards([join(many, 'c')])).rejects.toThrow(/No model card at .+c: neither it nor a folder in it/)
  await expect(findCards([join(directory, 'nowhere')])).rejects.toThrow(/nowhere: there is no such file or folder$/)
})
