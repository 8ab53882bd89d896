import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { type HeaderValues, writeHeader } from '../../test/support/model-header.ts'
import { checkPromises } from '../inference/contract/card-checks.ts'
import { describeModel } from '../inference/local/host/model-files.ts'
import { JinjaTemplate } from '../templates/jinja/template.ts'
import { type LocalModelCard, loadCard, loadLocalCard, readCard } from './card.ts'
import { deriveContext } from './derive/derived-context.ts'

const root = await mkdtemp(join(tmpdir(), 'lookout-derived-'))
afterAll(() => rm(root, { recursive: true }))
let directory: string
let warnings: string[]
beforeEach(async () => {
  directory = await mkdtemp(join(root, 'model-'))
  warnings = []
})

const CALL = `<tool_call>\n{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments }}}\n</tool_call>`
/** ChatML with tools and thoughts, in the manner of the templates that come with models. */
const TEMPLATE = `{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.tool_calls %}{% for c in m.tool_calls %}${CALL}{% endfor %}{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}<|im_start|>assistant\n{% if not enable_thinking %}<think>\n\n</think>\n\n{% endif %}`

const language = {
  'general.architecture': 'qwen3vl',
  'qwen3vl.context_length': 262_144,
  'qwen3vl.embedding_length': 64,
  'qwen3vl.block_count': 2,
  'qwen3vl.attention.head_count': 4,
  'qwen3vl.attention.head_count_kv': 2,
  'tokenizer.ggml.tokens': ['a', '<|im_start|>', '<|im_end|>', '<tool_call>', '</tool_call>', '<think>', '</think>'],
  'tokenizer.ggml.token_type': [1, 3, 3, 4, 4, 4, 4],
  'tokenizer.chat_template': TEMPLATE,
}
const encoder = {
  'general.architecture': 'clip',
  'clip.has_vision_encoder': true,
  'clip.projector_type': 'qwen3vl_merger',
  'clip.vision.patch_size': 16,
  'clip.vision.spatial_merge_size': 2,
  'clip.vision.projection_dim': 64,
}

interface Written {
  readonly card?: object
  readonly engine?: object
  readonly language?: HeaderValues
  /** Null for a model without encoders. */
  readonly encoder?: HeaderValues | null
}

/** A model with files and a card in a folder of their own. */
async function load(written: Written = {}): Promise<LocalModelCard> {
  await writeHeader(join(directory, 'some-model-Q4_K_M.gguf'), written.language ?? language)
  const projector = written.encoder === null ? {} : { projector: join(directory, 'mmproj.gguf') }
  if (written.encoder !== null) await writeHeader(join(directory, 'mmproj.gguf'), written.encoder ?? encoder)
  const engine = { model: 'some-model-Q4_K_M.gguf', ...projector, ...written.engine }
  const file = join(directory, 'card.json')
  await writeFile(file, JSON.stringify({ engine, ...written.card }))
  return loadLocalCard(file, (message) => warnings.push(message))
}

const without = (values: HeaderValues, ...keys: string[]) =>
  Object.fromEntries(Object.entries(values).filter(([key]) => !keys.includes(key)))

test('a minimal card is completed from the files', async () => {
  const card = await load({ card: { serves: [{ id: 'user/repo:Q4_K_M' }], source: 'hf:user/repo@1234' } })
  const contextTokens = card.engine.contextTokens
  expect(card).toMatchObject({
    source: 'hf:user/repo@1234',
    name: 'user/repo:Q4_K_M',
    license: 'unknown',
    ownedBy: 'user',
    extensions: true,
    family: 'qwen3-vl',
    engine: { type: 'local', contextTokens: 32_768, maxSequences: 64, printedTokens: [] },
    image: { pixelsPerToken: 32, minTokens: 1024, maxTokens: 4096 },
    video: { pixelsPerToken: 32, maxFrames: 128, layout: { framesPerGrid: 2 } },
    dialect: 'qwen3-vl',
    toolSyntax: 'hermes',
    thought: { begin: '<think>\n', end: '</think>', closing: '\n</think>\n\n', exemplars: false },
    schemaPrompt: expect.stringContaining('{schema}'),
  })
  expect(card.serves).toEqual([
    {
      id: 'user/repo:Q4_K_M',
      name: 'user/repo:Q4_K_M',
      created: expect.toSatisfy((seconds: number) => Math.abs(seconds - Date.now() / 1000) < 600),
      aliases: [],
      capabilities: ['response_format_json_schema', 'regex', 'tool_calling'],
      modalities: ['text', 'image', 'video'],
      outputFormats: ['text', 'point', 'box'],
      reasoning: true,
      maxContextTokens: contextTokens,
      maxOutputTokens: 16_384,
      credits: { input: 0, output: 0, cacheRead: 0 },
    },
  ])
  expect(warnings).toEqual([])
  const { info } = await describeModel(card)
  checkPromises(card, info)
})

test('a card may name nothing but a file, and a file may stand for a card', async () => {
  const { serves, name } = await load({ encoder: null })
  expect({ name, id: serves[0]!.id, modalities: serves[0]!.modalities }).toEqual({
    name: 'some-model-Q4_K_M',
    id: 'some-model-Q4_K_M',
    modalities: ['text'],
  })
  for (const name of ['mmproj-Q8_0.gguf', 'mmproj-BF16.gguf', 'mmproj-F16.gguf'])
    await writeHeader(join(directory, name), encoder)
  const card = await loadCard(join(directory, 'some-model-Q4_K_M.gguf'))
  expect(card).toMatchObject({ engine: { projector: 'mmproj-F16.gguf' }, image: { pixelsPerToken: 32 } })
})

test('who it is stands in the header, on one line', async () => {
  const about = {
    'general.name': 'Some\nModel\u0007  4B',
    'general.license': 'apache-2.0',
    'general.organization': 'Some Lab',
    'general.author': 'Somebody',
  }
  const card = await load({
    language: { ...language, ...about },
    card: { serves: [{ id: 'u/r' }, { id: 'b', name: 'B' }] },
  })
  expect(card).toMatchObject({ name: 'Some Model 4B', license: 'apache-2.0', ownedBy: 'some lab' })
  expect(card.serves.map(({ name }) => name)).toEqual(['Some Model 4B', 'B'])
})

test('every field of the card wins, down to single numbers', async () => {
  const card = await load({
    card: {
      name: 'Mine',
      serves: [
        { id: 'a', reasoning: false, outputFormats: ['text'] },
        { id: 'b', modalities: ['text'] },
      ],
      image: { maxTokens: 2048 },
      dialect: 'markup',
      toolSyntax: 'llama3',
      thought: { closing: '</think>' },
      schemaPrompt: null,
      load: 'first_use',
    },
    engine: { contextTokens: 8192, maxSequences: 2, printedTokens: ['x'] },
  })
  expect(card).toMatchObject({
    name: 'Mine',
    family: 'qwen3-vl',
    image: { minTokens: 1024, maxTokens: 2048 },
    dialect: 'markup',
    toolSyntax: 'llama3',
    thought: { begin: '<think>\n', closing: '</think>' },
    load: 'first_use',
    engine: { contextTokens: 8192, maxSequences: 2, printedTokens: ['x'] },
  })
  expect(card.schemaPrompt).toBeUndefined()
  const [first, second] = card.serves
  expect(first).toMatchObject({ reasoning: false, outputFormats: ['text'], maxContextTokens: 8192 })
  expect(second).toMatchObject({ reasoning: true, modalities: ['text'], outputFormats: ['text'] })
})

test('where each value comes from is known', async () => {
  await load({ card: { serves: [{ id: 'a' }], license: 'mine' } })
  const { origins } = await readCard(join(directory, 'card.json'))
  const from = Object.fromEntries(
    ['name', 'family', 'image.pixelsPerToken', 'image.minTokens', 'video.maxFrames', 'toolSyntax', 'thought.begin'].map(
      (field) => [field, origins.of(field)],
    ),
  )
  expect(from).toEqual({
    name: 'its id',
    family: 'clip.projector_type, general.architecture',
    'image.pixelsPerToken': 'clip.vision.patch_size, clip.vision.spatial_merge_size',
    'image.minTokens': 'family qwen3-vl',
    'video.maxFrames': 'family qwen3-vl',
    toolSyntax: 'the chat template',
    'thought.begin': 'the chat template',
  })
  expect(origins.of('license')).toBeNull()
})

describe('a model is served without what is not known of it:', () => {
  test('text only with a projector of no known family, which is named', async () => {
    const card = await load({ encoder: { ...encoder, 'clip.projector_type': 'no-such' } })
    expect(card).toMatchObject({ family: null, dialect: null, toolSyntax: 'hermes' })
    expect([card.image, card.video]).toEqual([undefined, undefined])
    expect(card.serves[0]).toMatchObject({ modalities: ['text'], outputFormats: ['text'] })
    expect(warnings).toEqual([
      expect.stringMatching(
        /^Model card .+card\.json: engine\.projector: the image projector 'no-such' with the architecture 'qwen3vl' .+ text only$/,
      ),
    ])
  })

  test('text only where neither the family nor the file says how pictures are sized', async () => {
    const card = await load({ encoder: { ...encoder, 'clip.projector_type': 'dots_ocr' } })
    expect(card.serves[0]).toMatchObject({ modalities: ['text'], outputFormats: ['text'] })
    expect(warnings).toEqual([
      expect.stringMatching(
        /the image sizes of dots\.ocr \('dots_ocr'\) are neither known nor .+without images\. .+"image" in the card/,
      ),
    ])
  })

  test('unless the card knows', async () => {
    const image = { pixelsPerToken: 28, minTokens: 4, maxTokens: 1024 }
    const card = await load({
      encoder: { ...encoder, 'clip.projector_type': 'no-such' },
      card: { image, dialect: 'molmo' },
    })
    expect(card.serves[0]).toMatchObject({ modalities: ['text', 'image'], outputFormats: ['text', 'point'] })
    expect({ image: card.image, warnings }).toEqual({ image, warnings: [] })
  })

  test('pictures without places for a family without a notation', async () => {
    const pixels = { 'clip.vision.image_min_pixels': 8 * 32 ** 2, 'clip.vision.image_max_pixels': 4096 * 32 ** 2 }
    const card = await load({ encoder: { ...encoder, ...pixels, 'clip.projector_type': 'phi4' } })
    expect(card).toMatchObject({ family: 'phi4', dialect: null, image: { minTokens: 8, maxTokens: 4096 } })
    expect(card.serves[0]).toMatchObject({ modalities: ['text', 'image'], outputFormats: ['text'] })
  })

  test('sound by the kind of its encoder', async () => {
    const hearing = { 'clip.has_audio_encoder': true, 'clip.audio.projector_type': 'voxtral' }
    const both = without(encoder, 'clip.projector_type')
    const seeing = { ...both, 'clip.vision.projector_type': 'qwen3vl_merger', ...hearing }
    const card = await load({ encoder: { ...seeing, 'clip.audio.projector.stack_factor': 4 } })
    expect(card.audio).toEqual({ tokensPerSecond: 6.25, windowSeconds: 30, maxTokens: 8192 })
    expect(card.serves[0]!.modalities).toEqual(['text', 'image', 'video', 'audio'])
    const other = await load({ encoder: { ...seeing, 'clip.audio.projector_type': 'no-such' } })
    expect(other.serves[0]!.modalities).toEqual(['text', 'image', 'video'])
    expect(warnings).toEqual([
      expect.stringMatching(
        /the audio encoder 'no-such' is unknown to llama\.cpp .+: the model is served without sound$/,
      ),
    ])
  })

  test('tools in a syntax that is not known', async () => {
    const template = TEMPLATE.replace('<tool_call>', '<|call|>')
    const card = await load({ language: { ...language, 'tokenizer.chat_template': template } })
    expect(card.toolSyntax).toBeUndefined()
    expect(card.serves[0]!.capabilities).toEqual(['response_format_json_schema', 'regex'])
    expect(warnings).toEqual([expect.stringMatching(/engine\.chatTemplate: .+ syntax that is not known here/)])
  })
})

describe('images that are cut into tiles', () => {
  const tiled = {
    ...without(encoder, 'clip.vision.spatial_merge_size'),
    'clip.projector_type': 'internvl',
    'clip.vision.image_size': 448,
    'clip.vision.patch_size': 14,
    'clip.vision.projector.scale_factor': 2,
  }

  test('are served as the file says, and their numbers come from there', async () => {
    const card = await load({ encoder: tiled })
    expect(card.image).toEqual({
      ...{ pixelsPerToken: 28, minTokens: 256, maxTokens: 3328 },
      tiles: { grid: 'nearest', side: 448, tokens: 256, most: 12 },
    })
    expect(card).toMatchObject({ family: 'internvl', video: undefined })
    expect(card.serves[0]).toMatchObject({ modalities: ['text', 'image'], outputFormats: ['text', 'box'] })
    expect(warnings).toEqual([])
    const { origins } = await readCard(join(directory, 'card.json'))
    expect(origins.of('image.maxTokens')).toBe('clip.vision.image_size')
    expect(origins.of('image.tiles.side')).toBe('clip.vision.image_size')
    expect(origins.of('image.tiles.grid')).toBe('family internvl')
  })

  test('are fewer where the context is small, or the card says so', async () => {
    const small = { ...language, 'qwen3vl.context_length': 4096 }
    expect((await load({ language: small, encoder: tiled })).image).toMatchObject({ maxTokens: 2048 })
    expect((await load({ encoder: tiled, card: { image: { maxTokens: 800 } } })).image).toMatchObject({
      maxTokens: 800,
      tiles: { most: 12 },
    })
  })

  test('are as many as ever where the encoder has no choice', async () => {
    const fixed = { ...tiled, 'clip.projector_type': 'idefics3' }
    const small = { ...language, 'qwen3vl.context_length': 4096 }
    expect((await load({ language: small, encoder: fixed })).image).toMatchObject({ minTokens: 1280, maxTokens: 4352 })
    await expect(load({ encoder: fixed, card: { image: { maxTokens: 2000 } } })).rejects.toThrow(
      /card\.json: image\.maxTokens: must be as many as all tiles have/,
    )
  })

  test('are not frames of a video, nor squares', async () => {
    const video = { ...{ minTokens: 16, maxTokens: 64, framesPerSecond: 1, maxFrames: 8 }, pixelsPerToken: 28 }
    const shown = { video: { ...video, layout: { framesPerGrid: 1, timestamp: null } } }
    await expect(load({ encoder: tiled, card: shown })).rejects.toThrow(/video: must be left out where images are cut/)
    await expect(load({ encoder: tiled, card: { image: { square: true, maxTokens: 1024 } } })).rejects.toThrow(
      /image\.tiles: cannot be combined/,
    )
  })
})

test('marks that are control tokens are printed', async () => {
  const types = { 'tokenizer.ggml.token_type': [1, 3, 3, 3, 3, 4, 3] }
  const { engine } = await load({ language: { ...language, ...types } })
  expect(engine.printedTokens).toEqual(['<tool_call>', '</tool_call>', '</think>'])
})

test('so are those of places', async () => {
  const tokens = {
    'tokenizer.ggml.tokens': ['a', '<|im_start|>', '<|im_end|>', '<ref>', '</ref>', '<box>', '</box>'],
    'tokenizer.ggml.token_type': [1, 3, 3, 3, 3, 3, 4],
  }
  const speaking = (dialect: string) => load({ language: { ...language, ...tokens }, card: { dialect } })
  expect((await speaking('minicpm-v')).engine.printedTokens).toEqual(['<ref>', '</ref>', '<box>'])
  expect((await speaking('gemma')).engine.printedTokens).toEqual([])
})

describe('a chat template', () => {
  const bare = without(language, 'tokenizer.chat_template')
  const tokens = (...list: string[]) => ({ 'tokenizer.ggml.tokens': ['a', ...list], 'tokenizer.ggml.token_type': [1] })

  test.each([
    [['<|im_start|>', '<|im_end|>'], 'built-in:chatml'],
    [['<start_of_turn>', '<end_of_turn>'], 'built-in:gemma'],
    [['<|im_start|>'], 'built-in:plain'],
  ])('that is missing is one whose marks the vocabulary has: %j', async (marks, chatTemplate) => {
    const card = await load({ language: { ...bare, ...tokens(...marks) } })
    expect(card).toMatchObject({ engine: { chatTemplate } })
    expect(card.serves[0]).toMatchObject({ capabilities: ['response_format_json_schema', 'regex'], reasoning: false })
    expect(warnings).toEqual([expect.stringMatching(/engine\.chatTemplate: the model has no chat template of its own/)])
    const { info } = await describeModel(card)
    for (const mark of ['<|im_start|>', '<start_of_turn>'])
      expect(info.chatTemplate!.includes(mark)).toBe(marks.includes(mark) && chatTemplate !== 'built-in:plain')
  })

  test('that cannot be used is replaced', async () => {
    const broken = { ...language, 'tokenizer.chat_template': '{% for m in messages %}{{ m.content }}' }
    expect(await load({ language: broken })).toMatchObject({ engine: { chatTemplate: 'built-in:chatml' } })
    expect(warnings).toEqual([
      expect.stringMatching(/own chat template cannot be used, so it gets 'built-in:chatml': ./),
    ])
  })

  test('may be a name of llama.cpp', async () => {
    const card = await load({ language: { ...language, 'tokenizer.chat_template': 'llama3' } })
    expect((await describeModel(card)).info.chatTemplate).toContain('<|start_header_id|>')
    expect(warnings).toEqual([])
  })

  test('may have another one for tools beside it', async () => {
    const turns = '{% for m in messages %}[{{ m.role }}]{{ m.content or m.tool_calls | tojson }}\n{% endfor %}\n'
    const named = {
      'tokenizer.chat_template': turns,
      'tokenizer.chat_template.tool_use': `\n  {{ tools | tojson }}${turns}`,
    }
    const { info } = await describeModel(await load({ language: { ...language, ...named } }))
    const jinja = new JinjaTemplate(info.chatTemplate!)
    const messages = [{ role: 'user', content: 'Hi' }]
    for (const variables of [{ messages }, { messages, tools: null }, { messages, tools: [{ name: 'f' }] }]) {
      const own = named[`tokenizer.chat_template${variables.tools ? '.tool_use' : ''}` as keyof typeof named]
      expect(jinja.render(variables)).toBe(new JinjaTemplate(own).render(variables))
    }
  })

  test('may be named by the card', async () => {
    await writeFile(join(directory, 'own.jinja'), '{% for m in messages %}{{ m.content }}{% endfor %}<think>')
    const card = await load({ engine: { chatTemplate: 'own.jinja' } })
    expect(card).toMatchObject({ engine: { chatTemplate: 'own.jinja' }, thought: { begin: '<think>' } })
    expect(card.toolSyntax).toBeUndefined()
    await expect(load({ engine: { chatTemplate: 'built-in:none' } })).rejects.toThrow(
      /card\.json: engine\.chatTemplate: there is no template 'built-in:none'; there are built-in:chatml, /,
    )
    await writeFile(join(directory, 'own.jinja'), '{{ 1 +')
    await expect(load({ engine: { chatTemplate: 'own.jinja' } })).rejects.toThrow(/engine\.chatTemplate: own\.jinja: ./)
  })
})

describe('the context', () => {
  const place = { file: 'card.json', directory: '/' }
  const about = (values: HeaderValues) => new Map(Object.entries(values))
  const GIB = 2 ** 30
  const large = {
    'general.architecture': 'x',
    'x.context_length': 131_072,
    'x.embedding_length': 4096,
    'x.block_count': 32,
    'x.attention.head_count': 32,
    'x.attention.head_count_kv': 8,
  }
  const written = async (serves?: readonly { maxContextTokens?: number }[]) => {
    const model = join(directory, 'm.gguf')
    await writeHeader(model, {})
    return { engine: { model }, ...(serves ? { serves: [...serves] } : {}) }
  }

  test('is what the memory allows, up to a usual size, or what the card asks for', async () => {
    const at = async (gib: number, ...serves: { maxContextTokens?: number }[]) =>
      deriveContext(await written(serves.length > 0 ? serves : undefined), about(large), place, gib * GIB)
    expect(await at(256)).toMatchObject({ contextTokens: 32_768, origin: 'default', maxSequences: 64 })
    expect(await at(256, { maxContextTokens: 65_536 }, {})).toMatchObject({ contextTokens: 65_536 })
    expect(await at(256, { maxContextTokens: 262_144 })).toMatchObject({
      contextTokens: 131_072,
      origin: 'x.context_length',
    })
    // A token takes 128 KiB, and half as much again in the prefix cache.
    const eight = await at(8)
    expect(eight.origin).toBe('the memory of this machine')
    expect(eight.contextTokens).toBeGreaterThan(20_000)
    expect(eight.contextTokens * 128 * 1024 * 1.5).toBeLessThan(0.6 * 8 * GIB)
    expect(await at(0.1)).toMatchObject({ contextTokens: 2048 })
    // Half as many bytes make room for nearly twice as many.
    const { engine } = await written()
    const halved = await deriveContext({ engine: { ...engine, kvType: 'q8_0' } }, about(large), place, 4 * GIB)
    expect(halved.contextTokens / (await at(4)).contextTokens).toBeGreaterThan(1.8)
  })

  test('has no room where the weights have none, which says what to do', async () => {
    await expect(deriveContext(await written(), about(large), place, 8)).rejects.toThrow(
      /card\.json: engine\.model: its files take 0\.0 GiB and this machine has 0\.0: take a model with fewer bits /,
    )
  })

  test('holds fewer sequences of a model whose layers keep a state for each', async () => {
    const hybrid = {
      ...large,
      'x.full_attention_interval': 4,
      'x.ssm.inner_size': 4096,
      'x.ssm.state_size': 128,
      'x.ssm.group_count': 16,
      'x.ssm.conv_kernel': 4,
    }
    const { maxSequences, contextTokens } = await deriveContext(await written(), about(hybrid), place, 8 * GIB)
    // 24 layers with more than half a million numbers of 4 bytes each.
    expect(maxSequences).toBeGreaterThan(4)
    expect(maxSequences * 24 * 4096 * 128 * 4).toBeLessThan(0.6 * 8 * GIB * 0.25)
    expect(contextTokens).toBe(32_768)
  })

  test('leaves room beside a picture and a video', async () => {
    const small = { ...language, 'qwen3vl.context_length': 4096 }
    const card = await load({ language: small })
    expect(card).toMatchObject({
      engine: { contextTokens: 4096 },
      image: { maxTokens: 2048 },
      video: { maxFrames: 24 },
    })
    expect(card.serves[0]).toMatchObject({ maxContextTokens: 4096, maxOutputTokens: 4096 })
  })
})

describe('files that do not fit', () => {
  test.each<[string, Written, RegExp]>([
    [
      'a projector of another model',
      { encoder: { ...encoder, 'clip.vision.projection_dim': 2560 } },
      /card\.json: engine\.projector: .+mmproj\.gguf does not belong to .+\.gguf: it makes vectors of 2560 numbers, .+ takes 64$/,
    ],
    ['no language model', { language: encoder }, /card\.json: engine\.model: .+Q4_K_M\.gguf is not a language model$/],
  ])('%s', async (_name, written, message) => {
    await expect(load(written).then(describeModel)).rejects.toThrow(message)
  })

  test('vectors of several layers belong together', async () => {
    const deep = { ...language, 'qwen3vl.n_deepstack_layers': 3 }
    for (const width of [64, 256])
      await describeModel(await load({ language: deep, encoder: { ...encoder, 'clip.vision.projection_dim': width } }))
  })

  test('missing and broken ones', async () => {
    await expect(load({ engine: { projector: 'none.gguf' } })).rejects.toThrow(
      /engine\.projector: the file .+none\.gguf/,
    )
    await mkdir(join(directory, 'empty'))
    await writeFile(join(directory, 'cut.gguf'), 'GGUF')
    await expect(load({ engine: { model: 'cut.gguf' } })).rejects.toThrow(
      /engine\.model: cannot read .+cut\.gguf: the file is truncated$/,
    )
    await expect(load({ card: { serves: [] } })).rejects.toThrow(/card\.json: serves: /)
  })
})
