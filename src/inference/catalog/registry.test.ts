import { beforeAll, expect, test } from 'vitest'
import { FakeEngine } from '../../../test/support/fake-engine.ts'
import { loadCard, type ModelCard, type ServedId } from '../../models/card.ts'
import { ModelRegistry } from './registry.ts'

let card: ModelCard
beforeAll(async () => {
  card = await loadCard('models/lookout-nano/card.json')
})

function serving(...ids: Partial<ServedId>[]): ModelCard {
  return { ...card, serves: ids.map((id) => ({ ...card.serves[0]!, ...id })) }
}

test('finds a model by its id and its aliases, and lists only the id', () => {
  const registry = new ModelRegistry()
  registry.add(serving({ id: 'a', aliases: ['old-a'] }, { id: 'b' }), new FakeEngine())
  expect(registry.find('old-a')).toBe(registry.find('a'))
  expect(registry.find('c')).toBeUndefined()
  expect(registry.list().map(({ id }) => id)).toEqual(['a', 'b'])
})

test('limits are the lower of what the card and the engine allow', () => {
  const registry = new ModelRegistry()
  registry.add(serving({ maxContextTokens: 32_768, maxOutputTokens: 8192 }), new FakeEngine({ contextTokens: 4096 }))
  expect(registry.list()[0]).toMatchObject({ contextTokens: 4096, outputTokens: 4096 })
})

test('rejects an id that another card serves', () => {
  const registry = new ModelRegistry()
  expect(() => registry.add(serving({ id: 'a' }, { id: 'b', aliases: ['a'] }), new FakeEngine())).toThrow(
    /serves\[1\]: 'a' is already served by .*card\.json/,
  )
})

test('is ready while at least one engine accepts work', () => {
  const registry = new ModelRegistry()
  // A pull brings the first model.
  expect(registry.ready).toBe(true)
  const down = new FakeEngine()
  down.state = 'restarting'
  registry.add(serving({ id: 'a', aliases: [] }), down)
  expect(registry.ready).toBe(false)
  registry.add(serving({ id: 'b', aliases: [] }), new FakeEngine())
  expect(registry.ready).toBe(true)
})

test.each(['image', 'video', 'audio'] as const)(
  'a card may not promise %s when the model has no encoder for it',
  (modality) => {
    const blind = new FakeEngine({ modalities: { image: false, audio: false } })
    const card = serving({ modalities: ['text', modality] })
    expect(() => new ModelRegistry().add(card, blind)).toThrow(new RegExp(`serves\\[0\\].modalities: '${modality}'`))
  },
)

test.each(['image', 'video', 'audio'] as const)('a card may not promise %s without its limits', (modality) => {
  const { image: _image, video: _video, audio: _audio, ...unlimited } = serving({ modalities: ['text', modality] })
  const capable = new FakeEngine({ modalities: { image: true, audio: true } })
  expect(() => new ModelRegistry().add(unlimited, capable)).toThrow(modality)
})
