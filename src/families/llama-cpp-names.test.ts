import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { LLAMA_RELEASE } from '../setup/native-library.mjs'
import { fetchSource } from '../setup/source.mjs'
import { audioRule } from './audio-encoders.ts'
import { FAMILIES, FAMILY_NAMES } from './families.ts'
import {
  ARCHITECTURES,
  architectureDoubt,
  architectureProblem,
  EMBEDDING_ARCHITECTURES,
  LLAMA_CPP_NAMES,
  PROJECTORS,
  projectorProblem,
  UNUSED_ARCHITECTURES,
  UNUSED_PROJECTORS,
} from './llama-cpp-names.ts'

let workspace: string | undefined
afterAll(async () => {
  if (workspace !== undefined) await rm(workspace, { recursive: true })
})

test('the names are those of the release that is used', () => {
  // A new release has new names: read them in its source, and give each a family or a sentence.
  expect(LLAMA_CPP_NAMES).toBe(LLAMA_RELEASE)
})

test('and stand in its source', async (context) => {
  workspace = await mkdtemp(join(tmpdir(), 'lookout-source-'))
  const source = await fetchSource(workspace, process.cwd(), ['tools/mtmd', 'src']).catch(() => null)
  if (source === null) return context.skip('the source of llama.cpp cannot be fetched here')
  const namesIn = async (file: string, entry: RegExp) =>
    [...(await readFile(join(source, file), 'utf8')).matchAll(entry)].map(([, name]) => name!)
  const projectors = await namesIn('tools/mtmd/clip-impl.h', /\{ PROJECTOR_TYPE_\w+,\s*"([^"]+)"/g)
  const architectures = await namesIn('src/llama-arch.cpp', /\{ LLM_ARCH_\w+,\s*"([^"(]+)"/g)
  expect([...PROJECTORS].sort()).toEqual(projectors.sort())
  expect([...ARCHITECTURES].sort()).toEqual(architectures.sort())
})

test('every projector has a family, a rule for sound, or a sentence', () => {
  const seen = new Set(FAMILY_NAMES.flatMap((name): readonly string[] => FAMILIES[name].projectors))
  const open = PROJECTORS.filter((projector) => !seen.has(projector) && audioRule(projector, () => 4) === null)
  expect(open.sort()).toEqual(Object.keys(UNUSED_PROJECTORS).sort())
  expect([...seen].filter((projector) => !PROJECTORS.includes(projector))).toEqual([])
})

test('every family with a projector sees, or hears', () => {
  const blind = FAMILY_NAMES.filter((name) => {
    const { projectors, image } = FAMILIES[name]
    return projectors.length > 0 && image === null && !projectors.every((one) => audioRule(one, () => 4) !== null)
  })
  expect(blind).toEqual([])
})

test('families name architectures that llama.cpp knows and that are served', () => {
  const named = FAMILY_NAMES.flatMap((name): readonly string[] => FAMILIES[name].architectures)
  expect(named.filter((name) => architectureProblem(name) !== null || architectureDoubt(name) !== null)).toEqual([])
  const others = [...Object.keys(UNUSED_ARCHITECTURES), ...EMBEDDING_ARCHITECTURES]
  expect(others.filter((name) => !ARCHITECTURES.includes(name))).toEqual([])
})

test('what is not known says so', () => {
  expect(projectorProblem('qwen3vl_merger')).toBeNull()
  expect(projectorProblem('qwen9vl')).toMatch(/^is unknown to llama\.cpp \d/)
  expect(projectorProblem('deepseek4v')).toMatch(/^makes images/)
  expect(architectureProblem('llama')).toBeNull()
  expect(architectureProblem('bert')).toBeNull()
  expect(architectureProblem('t5encoder')).toMatch(/^reads a text with an encoder/)
  expect(architectureDoubt('llama')).toBeNull()
  expect(architectureDoubt('qwen9')).toMatch(/later release/)
})
