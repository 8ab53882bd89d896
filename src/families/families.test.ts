import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { audioRule } from './audio-encoders.ts'
import { FAMILIES, FAMILY_NAMES, type FamilyName } from './families.ts'
import type { Family } from './family.ts'
import { audioLimits, familyMarks, familyOf, mismatch, soundProblem } from './gguf.ts'
import { imageLimits } from './image-limits.ts'

describe('a family is recognised by its files', () => {
  test.each([
    ['qwen2vl_merger', 'qwen2vl', 'qwen2-vl'],
    ['qwen2.5vl_merger', 'qwen2vl', 'qwen2.5-vl'],
    ['qwen3vl_merger', 'qwen3vl', 'qwen3-vl'],
    ['qwen3vl_merger', 'qwen3vlmoe', 'qwen3-vl'],
    ['qwen3vl_merger', 'qwen35', 'qwen3.5'],
    ['gemma3', 'gemma3', 'gemma3'],
    ['gemma4uv', 'gemma4', 'gemma4'],
    ['internvl', 'qwen3', 'internvl'],
    ['idefics3', 'llama', 'smolvlm'],
    ['pixtral', 'llama', 'mistral'],
    ['resampler', 'qwen2', 'minicpm-v'],
    ['glm4v', 'glm4', 'glm4v'],
    ['kimivl', 'deepseek2', 'kimi-vl'],
    ['lfm2', 'lfm2', 'lfm2-vl'],
    ['mlp', 'llama', 'llava'],
    ['qwen2.5o', 'qwen2vl', 'qwen2.5-omni'],
    ['voxtral', 'llama', 'voxtral'],
    // A model that reads text only is known by its architecture, if only one family has it.
    [null, 'qwen3vl', 'qwen3-vl'],
    [null, 'llama4', 'llama'],
  ])('%s with %s', (projector, architecture, family) => {
    expect(familyOf({ projector, architecture })).toBe(family)
  })

  test.each([
    ['qwen3vl_merger', 'a-later-one'],
    ['no-such', 'qwen3vl'],
    [null, 'qwen2vl'],
    [null, 'llama'],
    [null, null],
  ])('and never guessed: %s with %s', (projector, architecture) => {
    expect(familyOf({ projector, architecture })).toBeNull()
  })

  test('no other family fits what one is recognised by', () => {
    const known = FAMILY_NAMES.filter(
      (name) => FAMILIES[name].projectors.length > 0 && (FAMILIES[name] as Family).is === undefined,
    )
    fc.assert(
      fc.property(fc.constantFrom(...known), fc.nat(), fc.nat(), (name, i, j) => {
        const { projectors, architectures } = FAMILIES[name]
        const projector = projectors[i % projectors.length]!
        const architecture = architectures[j % architectures.length] ?? 'any'
        expect(familyOf({ projector, architecture })).toBe(name)
      }),
    )
  })

  test('by the projector of images, where the file has one for sound beside it', () => {
    const encoder = new Map([
      ['clip.audio.projector_type', 'qwen3a'],
      ['clip.vision.projector_type', 'qwen3vl_merger'],
    ])
    const language = new Map([['general.architecture', 'qwen3vl']])
    expect(familyMarks({ language, encoder })).toMatchObject({ architecture: 'qwen3vl', projector: 'qwen3vl_merger' })
    expect(familyMarks({ language, encoder: null })).toMatchObject({ architecture: 'qwen3vl', projector: null })
    const older = new Map([['clip.projector_type', 'qwen2vl_merger']])
    expect(familyMarks({ language, encoder: older }).projector).toBe('qwen2vl_merger')
  })
})

describe('of families with the same files, one is recognised by its name or size', () => {
  const found = (projector: string, language: Record<string, unknown>) =>
    familyOf(
      familyMarks({
        language: new Map(Object.entries({ 'general.architecture': 'any', ...language })),
        encoder: new Map([['clip.projector_type', projector]]),
      }),
    )

  test.each([
    ['lfm2', { 'general.name': 'LFM2.5-VL-3B' }, 'lfm2.5-vl'],
    ['lfm2', { 'general.basename': 'LFM2.5-VL', 'general.name': '8123ab' }, 'lfm2.5-vl'],
    ['lfm2', { 'general.name': 'tuned', 'general.base_model.0.name': 'LFM2.5 VL 1.6B' }, 'lfm2.5-vl'],
    ['lfm2', { 'general.name': 'LFM2-VL-1.6B' }, 'lfm2-vl'],
    ['lfm2', {}, 'lfm2-vl'],
    ['glm4v', { 'general.name': 'GLM-OCR' }, 'glm-ocr'],
    ['glm4v', { 'general.name': 'Model', 'any.embedding_length': 1536 }, 'glm-ocr'],
    ['glm4v', { 'general.name': 'GLM-4.6V-Flash', 'any.embedding_length': 4096 }, 'glm4v'],
    ['lightonocr', { 'general.name': 'LightOnOCR-2-1B-bbox-soup' }, 'lighton-ocr-bbox'],
    ['lightonocr', { 'general.name': 'LightOnOCR-2-1B' }, 'lighton-ocr'],
    ['pixtral', { 'general.name': 'Mistral-Large-4-Instruct' }, 'mistral-large-4'],
    ['pixtral', { 'general.name': 'Ministral-3-8B' }, 'mistral'],
  ])('%s %j', (projector, language, family) => {
    expect(found(projector, language)).toBe(family)
  })

  test('and only such a one writes places in its notation', () => {
    const dialects = (name: FamilyName) => FAMILIES[name].dialect
    expect([dialects('lfm2-vl'), dialects('glm-ocr'), dialects('lighton-ocr'), dialects('mistral')]).toEqual(
      Array(4).fill(null),
    )
    // x comes first: Gemma's notation would exchange width and height.
    expect(dialects('mistral-large-4')).not.toBe('gemma')
  })
})

test('or by a key of its own, which wins over all others', () => {
  const language = new Map<string, unknown>([
    ['general.architecture', 'qwen3vl'],
    ['lookout.training.steps', 1],
  ])
  const encoder = new Map([['clip.projector_type', 'qwen3vl_merger']])
  expect(familyOf(familyMarks({ language, encoder }))).toBe('lookout')
})

test.each([
  [{ 'clip.audio.projector_type': 'qwen2a' }, { tokensPerSecond: 25, windowSeconds: 30 }],
  [
    { 'clip.projector_type': 'ultravox', 'clip.audio.projector.stack_factor': 8 },
    { tokensPerSecond: 6.25, windowSeconds: 30 },
  ],
  [{ 'clip.audio.projector_type': 'gemma4a' }, { tokensPerSecond: 25 }],
  [{ 'clip.audio.projector_type': 'gemma4ua' }, { tokensPerSecond: 25 }],
  [{ 'clip.projector_type': 'musicflamingo' }, { tokensPerSecond: 25, windowSeconds: 30 }],
  [{ 'clip.projector_type': 'lfm2a' }, { tokensPerSecond: 12.5 }],
  [
    { 'clip.projector_type': 'glma', 'clip.audio.projector.stack_factor': 4 },
    { tokensPerSecond: 377 / 30, windowSeconds: 30 },
  ],
  [
    {
      'clip.projector_type': 'granite_speech',
      'clip.audio.projector.window_size': 15,
      'clip.audio.projector.downsample_rate': 5,
    },
    { tokensPerSecond: 10, windowSeconds: 0.3 },
  ],
  // Without a factor nothing is known.
  [{ 'clip.projector_type': 'voxtral' }, null],
  [{ 'clip.projector_type': 'no-such' }, null],
  [{}, null],
])('sound takes as many tokens as its encoder makes: %j', (encoder, rule) => {
  expect(audioLimits(new Map<string, unknown>(Object.entries(encoder)))).toEqual(rule)
})

test.each([
  ['ultravox', 8, 1280, null],
  ['voxtral', 4, 1280, null],
  ['qwen2a', 8, 1024, null],
  // Whisper's medium size.
  ['ultravox', 8, 1024, 'libmtmd miscounts the tokens of sound when it stacks 8 outputs of 1024 numbers'],
])('sound that the library would miscount is known: %s, %i x %i', (projector, stack, width, problem) => {
  const encoder = new Map<string, unknown>([
    ['clip.audio.projector_type', projector],
    ['clip.audio.projector.stack_factor', stack],
    ['clip.audio.embedding_length', width],
  ])
  expect(soundProblem(encoder)).toBe(problem)
})

test('the width of an old projector is that of its encoder, and says nothing', () => {
  const language = new Map<string, unknown>([
    ['general.architecture', 'llama'],
    ['llama.embedding_length', 4096],
  ])
  const encoder = (type: string) =>
    new Map<string, unknown>([
      ['clip.has_vision_encoder', true],
      ['clip.projector_type', type],
      ['clip.vision.projection_dim', 768],
    ])
  expect(mismatch({ language, encoder: encoder('mlp') })).toBeNull()
  expect(mismatch({ language, encoder: encoder('internvl') })).toMatch(/vectors of 768 numbers, .+ takes 4096$/)
  expect(mismatch({ language, encoder: null })).toBeNull()
})

/**
 * Where a family may be named: here, where the notations and chat formats are that families share, where the format of one is
 * written, and where models are recommended.
 */
const ELSEWHERE =
  /^src\/(families|catalogue|grounding\/(?:dialects|pages)|conversation\/tools|templates|hugging-face)\/|commands\/models\/export-hf[.]|\.test\.ts$/

test('no other file of src knows a family by name', async () => {
  // This project's own name and that of llama.cpp mean other things as well.
  const names = FAMILY_NAMES.filter((name) => name !== 'lookout' && name !== 'llama')
  // By their first word, if that is no word of English.
  const words = names.map((name) =>
    /^(?:step|music|muse|unlimited|dots)/.test(name) ? name : /^[a-z]+/.exec(name)![0],
  )
  const naming: string[] = []
  let files = 0
  for (const name of await readdir('src', { recursive: true })) {
    const file = join('src', name)
    if (!/[.](ts|mjs)$/.test(file) || ELSEWHERE.test(file)) continue
    files++
    // Mistral has an API, too, and clients of it. Nor is sapphirerapids, a processor, one of Phi's, nor a table in base64, nor are llama.cpp's names
    // of ways to split words. Examples of commands name models of the catalogue.
    const text = (await readFile(file, 'utf8')).replaceAll(
      /surfaces\/mistral|mistral_paths|mistral-client|mistral[’']s (?:api|shape)|sapphirerapids|qwen3-vl-4b|'chatglm-bpe [\w -]+'|'[\w+/]{100,}=*'/gi,
      '',
    )
    if (new RegExp(words.join('|'), 'i').test(text)) naming.push(file)
  }
  expect(files).toBeGreaterThan(100)
  expect(naming).toEqual([])
})

describe('limits of images', () => {
  const rule = { patchSize: 16, mergeSize: 2, minTokens: 1024, maxTokens: 4096 }
  const square = { patchSize: 14, mergeSize: 4, minTokens: 256, maxTokens: 256, square: true } as const
  const encoder = (values: Record<string, unknown>) =>
    new Map(Object.entries(values).map(([key, value]) => [`clip.vision.${key}`, value]))

  test('are those of the family', () => {
    const limits = { pixelsPerToken: 32, minTokens: 1024, maxTokens: 4096 }
    expect(imageLimits(rule, null)).toEqual(limits)
    expect(imageLimits(rule, encoder({ image_size: 768, patch_size: 0, image_min_pixels: 'few' }))).toEqual(limits)
    expect(imageLimits(square, null)).toEqual({ pixelsPerToken: 56, minTokens: 256, maxTokens: 256, square: true })
    expect(imageLimits({ patchSize: 16, mergeSize: 2 }, null)).toEqual({ pixelsPerToken: 32 })
  })

  test('or what the file of the encoder says', () => {
    expect(imageLimits(rule, encoder({ patch_size: 14, spatial_merge_size: 4 }))).toMatchObject({ pixelsPerToken: 56 })
    expect(imageLimits(rule, encoder({ 'projector.scale_factor': 3 }))).toMatchObject({ pixelsPerToken: 48 })
    const pixels = { image_min_pixels: 64 * 32 ** 2, image_max_pixels: 2048 * 32 ** 2 }
    expect(imageLimits(rule, encoder(pixels))).toEqual({ pixelsPerToken: 32, minTokens: 64, maxTokens: 2048 })
    const smaller = { pixelsPerToken: 56, minTokens: 64, maxTokens: 64, square: true }
    expect(imageLimits(square, encoder({ image_size: 448 }))).toEqual(smaller)
  })

  test('with a longest edge are those of the file', () => {
    const limits = { pixelsPerToken: 28, minTokens: 8, maxTokens: 3025, longestEdge: 1540, rowEnds: true }
    const file = encoder({ image_size: 1540, patch_size: 14, spatial_merge_size: 2 })
    expect(imageLimits(FAMILIES.mistral.image!, file)).toEqual(limits)
    const enlarging = { pixelsPerToken: 28, minTokens: 1, maxTokens: 3025, longestEdge: 1540, enlarges: true }
    expect(imageLimits(FAMILIES['lighton-ocr'].image!, file)).toEqual(enlarging)
    expect(imageLimits(FAMILIES.mistral.image!, null)).not.toHaveProperty('maxTokens')
  })

  test.each<[FamilyName, Record<string, unknown>, object]>([
    [
      'internvl',
      { image_size: 448, patch_size: 14, 'projector.scale_factor': 2, preproc_max_tiles: 6 },
      {
        pixelsPerToken: 28,
        minTokens: 256,
        maxTokens: 1792,
        tiles: { grid: 'nearest', side: 448, tokens: 256, most: 6 },
      },
    ],
    [
      'smolvlm',
      { image_size: 384, patch_size: 14, 'projector.scale_factor': 3, preproc_image_size: 1536 },
      {
        pixelsPerToken: 42,
        minTokens: 405,
        maxTokens: 1377,
        tiles: { grid: 'longest', side: 384, tokens: 81, along: 4 },
      },
    ],
    [
      'lfm2-vl',
      { image_size: 256, patch_size: 16, 'projector.scale_factor': 2 },
      {
        pixelsPerToken: 32,
        minTokens: 64,
        maxTokens: 2816,
        tiles: { grid: 'large', side: 512, tokens: 256, most: 10 },
      },
    ],
    [
      'llava',
      { image_size: 336, patch_size: 14, image_grid_pinpoints: [336, 672, 672, 336, 672, 672] },
      {
        ...{ pixelsPerToken: 14, minTokens: 576, maxTokens: 2880 },
        tiles: {
          ...{ grid: 'listed', side: 336, tokens: 576 },
          grids: [
            [1, 2],
            [2, 1],
            [2, 2],
          ],
        },
      },
    ],
    // Grids that are not of whole tiles end libmtmd's process; squares do not.
    [
      'llava',
      { image_size: 336, patch_size: 14, image_grid_pinpoints: [336, 500] },
      { pixelsPerToken: 14, minTokens: 576, maxTokens: 576, square: true },
    ],
    [
      'minicpm-v',
      { image_size: 448, patch_size: 14, 'projector.scale_factor': 4 },
      {
        pixelsPerToken: 56,
        minTokens: 64,
        maxTokens: 640,
        tiles: { grid: 'slices', side: 448, tokens: 64, most: 9, unit: 56 },
      },
    ],
  ])('of tiles are those of the file: %s', (family, file, limits) => {
    expect(imageLimits((FAMILIES[family] as Family).image!, encoder(file))).toEqual(limits)
  })

  test('of slices are those of the resampler', () => {
    const rule = FAMILIES['minicpm-v'].image!
    const file = [...encoder({ image_size: 448, patch_size: 14 }), ['clip.projector_type', 'resampler']] as const
    const limits = (...more: [string, number][]) => imageLimits(rule, new Map<string, unknown>([...file, ...more]))
    expect(limits(['clip.minicpmv_version', 4])).toMatchObject({ maxTokens: 640, tiles: { tokens: 64, unit: 14 } })
    expect(limits()).toMatchObject({ pixelsPerToken: 46, maxTokens: 960, tiles: { tokens: 96, unit: 14 } })
    expect(limits(['clip.minicpmv_query_num', 32])).toMatchObject({ maxTokens: 320, tiles: { tokens: 32 } })
  })
})

test('docs/contributing/families.md has the table of all families', async () => {
  const page = await readFile('docs/contributing/families.md', 'utf8')
  const rows = page.split('\n').filter((line) => line.startsWith('| `'))
  const [heading, ...families] = rows
  expect(heading).toMatch(/^\| `family` \|/)
  expect(families).toEqual(FAMILY_NAMES.map((name) => rowOf(name, FAMILIES[name])))
})

function rowOf(name: string, family: Family): string {
  const { title, projectors, architectures, key, is, image, video, dialect, toolSyntax, thought } = family
  const codes = (values: readonly string[]) => values.map((value) => `\`${value}\``).join(', ')
  const named = key === undefined ? 'its name in the card' : `the key ${codes([key])}`
  const recognised = projectors.length === 0 ? named : codes(projectors)
  const cells = [
    `\`${name}\` (${title})`,
    `${recognised}${architectures.length === 0 ? '' : ` with ${codes(architectures)}`}${is ? ', and its name or size' : ''}`,
    image === null ? (hears(projectors) ? 'none: it hears' : 'card') : imageCell(image),
    video === null ? (hears(projectors) ? 'none' : 'card') : videoCell(video),
    dialect === null ? 'none' : `\`${dialect}\``,
    toolSyntax === null ? 'none' : `\`${toolSyntax}\``,
    thought === null ? 'none' : `\`${thought.end}\``,
  ]
  return `| ${cells.join(' | ')} |`
}

/** Whether a family's only projectors are for sound. */
function hears(projectors: readonly string[]): boolean {
  return projectors.length > 0 && projectors.every((projector) => audioRule(projector, () => 1) !== null)
}

function imageCell(rule: NonNullable<Family['image']>): string {
  const { patchSize, mergeSize, minTokens, maxTokens, auto, square, longestEdge, rowEnds, tiles } = rule
  const side = `${patchSize * mergeSize} px`
  switch (tiles?.grid) {
    case 'nearest':
      if ('whole' in tiles) return `the whole, and ${tiles.least} to ${tiles.most} tiles`
      return `1 to ${tiles.most} tiles`
    case 'windows':
      return `the whole, and tiles of ${tiles.side} px, up to ${tiles.along} along a side`
    case 'large':
      return `${side}, from ${minTokens} tokens; large ones in up to ${tiles.most} tiles`
    case 'slices':
      return `up to ${tiles.most} slices`
    case 'longest':
      return `${tiles.along} tiles along the longer side`
    case 'listed':
      if (tiles.always) return 'the whole, and tiles'
      if (tiles.along !== undefined) return `up to ${tiles.along} x ${tiles.along} tiles`
      return `squares of ${maxTokens} tokens, or tiles`
  }
  if (longestEdge === 'always') return `${side}, always with the longest edge`
  if (longestEdge) return `${side}, ${minTokens} tokens to a longest edge, and row ends`
  if (minTokens === undefined || maxTokens === undefined) return `${side}; tokens: file`
  if (square) return `${side}, squares of ${maxTokens} tokens`
  const usual = auto === undefined ? '' : `; ${auto.minTokens} to ${auto.maxTokens} unless more detail is asked for`
  return `${side}, ${minTokens} to ${maxTokens} tokens${rowEnds ? ', and row ends' : ''}${usual}`
}

function videoCell({ layout, ...limits }: NonNullable<Family['video']>): string {
  const frames = layout.framesPerGrid === 2 ? 'pairs of frames' : 'single frames'
  const shown = layout.timestamp === null ? frames : `${frames}, each after \`${layout.timestamp}\``
  const { minTokens, maxTokens, framesPerSecond, maxFrames } = limits
  if (maxTokens === undefined) return `${shown}; limits: card`
  return `${shown}; ${minTokens} to ${maxTokens} tokens, ${framesPerSecond} frames/s, at most ${maxFrames} frames`
}
