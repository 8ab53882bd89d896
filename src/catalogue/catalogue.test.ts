import { expect, test } from 'vitest'
import { audioRule } from '../families/audio-encoders.ts'
import { FAMILIES } from '../families/families.ts'
import type { Family } from '../families/family.ts'
import { familyMarks, familyOf } from '../families/gguf.ts'
import { DIALECTS } from '../grounding/dialects/dialects.ts'
import { candidatesOf, isLanguageModel, isProjector, quantisationOf } from '../hub/choice/gguf-names.ts'
import { projectorsFor } from '../hub/choice/projector-choice.ts'
import type { HubFile } from '../hub/download/hub-client.ts'
import { findEntry, readCatalogue } from './catalogue.ts'
import { MEMORY_CLASSES } from './catalogue-schema.ts'
import { rankForMachine } from './machine-fit.ts'

const { checked, models } = await readCatalogue()
const named = models.map((entry) => [entry.name, entry] as const)

test('has 12 to 16 models for every memory class and every use, under names that are theirs alone', () => {
  expect(models.length).toBeGreaterThanOrEqual(12)
  expect(models.length).toBeLessThanOrEqual(16)
  expect(new Set(models.map(({ name }) => name)).size).toBe(models.length)
  expect(new Set(models.map(({ repository }) => repository.toLowerCase())).size).toBe(models.length)
  expect(new Set(models.map(({ memoryClass }) => memoryClass))).toEqual(new Set(MEMORY_CLASSES))
  expect(new Set(models.flatMap(({ uses }) => uses))).toEqual(
    new Set(['general', 'documents', 'grounding', 'video', 'audio']),
  )
})

test('finds an entry by its name in any case', async () => {
  expect((await findEntry('Qwen3-VL-4B'))?.repository).toBe('Qwen/Qwen3-VL-4B-Instruct-GGUF')
  expect(await findEntry('qwen3-vl')).toBeUndefined()
})

test('claims to have tried no weights, as no doctor has seen any', () => {
  expect(models.filter(({ tried }) => tried !== 'never').map(({ name }) => name)).toEqual([])
})

test.each(named)('%s names files that a pull takes for what they are', (_name, entry) => {
  const { quantisations, defaultQuantisation, projector } = entry
  for (const { name, model } of quantisations) {
    expect(isLanguageModel(model.path)).toBe(true)
    expect(quantisationOf(model.path)).toBe(name)
  }
  const all = [...quantisations.map(({ model }) => model), ...(projector === null ? [] : [projector])]
  const files = all.map(({ path, bytes }): HubFile => ({ path, size: bytes, blob: null }))
  const labels = quantisations.map(({ name }) => name)
  expect(candidatesOf(files).map(({ label }) => label)).toEqual(labels)
  expect(labels).toContain(defaultQuantisation)
  if (projector === null) return
  expect(isProjector(projector.path)).toBe(true)
  expect(projectorsFor(quantisations[0]!.model.path, files).map(({ path }) => path)).toEqual([projector.path])
})

test.each(named)('%s has files as large as their quantisation makes that many parameters', (_name, entry) => {
  const { parameters, activeParameters } = entry.shape
  expect(activeParameters).toBeLessThanOrEqual(parameters)
  for (const { name, model } of entry.quantisations) {
    const bits = (8 * model.bytes) / parameters
    // More than the name says: some tensors stay in more bits, and the vocabulary is text.
    const least = Number(/Q(\d)/.exec(name)![1])
    expect(bits, name).toBeGreaterThan(least)
    expect(bits, name).toBeLessThan(least + 2)
  }
})

test.each(named)('%s fits the machines of its memory class, and no smaller ones', (_name, entry) => {
  const fits = (gib: number) => {
    const machine = { available: 0.8 * gib * 2 ** 30, speed: null }
    return rankForMachine({ checked, models: [entry] }, machine)[0]!.fits !== 'no'
  }
  expect(MEMORY_CLASSES.find(fits)).toBe(entry.memoryClass)
})

test('on a slow processor, Qwen3-VL 4B comes first', () => {
  const speed = { bytesPerSecond: 18e9, multiplyAddsPerSecond: 150e9 }
  expect(rankForMachine({ checked, models }, { available: 20 * 2 ** 30, speed })[0]!.entry.name).toBe('qwen3-vl-4b')
})

test.each([
  [6, 'qwen3-vl-2b'],
  [8, 'qwen3-vl-4b'],
  [16, 'qwen3-vl-8b'],
  [24, 'qwen3-vl-8b'],
  [32, 'qwen3-vl-30b-a3b'],
  [64, 'qwen3-vl-30b-a3b'],
] as const)('with %i GiB of memory, Qwen3-VL comes first', (gib, name) => {
  const machine = { available: 0.8 * gib * 2 ** 30, speed: null }
  expect(rankForMachine({ checked, models }, machine)[0]!.entry.name).toBe(name)
})

test.each(named)('%s can do what Lookout knows of its family', (_name, entry) => {
  const { recognisedBy, places, takes, tools } = entry
  const { architecture, imageProjector, audioProjector, name } = recognisedBy
  const found = familyOf(
    familyMarks({
      language: new Map([
        ['general.architecture', architecture],
        ['general.name', name],
      ]),
      encoder: new Map(
        Object.entries({
          'clip.vision.projector_type': imageProjector,
          'clip.audio.projector_type': audioProjector,
        }).filter(([, value]) => value !== null),
      ),
    }),
  )
  expect(found).toBe(recognisedBy.family)
  const family: Family = FAMILIES[found!]
  expect(takes.includes('image')).toBe(family.image !== null && imageProjector !== null)
  expect(takes.includes('video')).toBe(family.video !== null)
  // Rates of some encoders follow from a number in the file.
  expect(takes.includes('audio')).toBe(audioProjector !== null && audioRule(audioProjector, () => 4) !== null)
  expect(places?.draws ?? []).toEqual(family.dialect === null ? [] : DIALECTS[family.dialect].formats)
  if (family.toolSyntax !== null) expect(tools).toBe(true)
  if (family.warning !== undefined) expect(places?.exactness).toMatch(/^Not proven/)
})

test('says of each licence that is not Apache-2.0 or MIT what it forbids', () => {
  for (const { name, licence } of models) {
    expect(licence.commercialUse, name).toBe(/^(?:Apache-2\.0|MIT)$/.test(licence.name) ? 'yes' : 'limited')
  }
})
