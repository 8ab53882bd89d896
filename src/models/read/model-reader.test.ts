import { mkdir, mkdtemp, readdir, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { bool, string, strings, uint32, type WrittenField, writeGguf } from '../../../test/support/gguf-writer.ts'
import { writeHeader } from '../../../test/support/model-header.ts'
import { GuardedProcess, ProcessEnded } from '../../lib/guarded/guarded-process.ts'
import { CHATML } from '../../templates/chatml.ts'
import type { GgufArray } from './gguf-value.ts'
import { probeGuarded, READER, readCheckedMetadata, readFolder, readMetadata } from './model-reader.ts'

let directory: string
let path: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-reader-'))
  path = join(directory, 'model.gguf')
})
afterAll(() => rm(directory, { recursive: true }))

const uint64 = (value: number) => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return bytes
}

/** Writes the beginning of a header, and makes the file as long as it needs to be believed. The rest is a hole. */
async function writeCounts(tensors: number, fields: number, size: number): Promise<void> {
  const version = uint32(3).bytes.subarray(4)
  await writeFile(path, Buffer.concat([Buffer.from('GGUF'), version, uint64(tensors), uint64(fields)]))
  await truncate(path, size)
}

async function write(fields: Readonly<Record<string, WrittenField>>): Promise<void> {
  await writeGguf(path, { metadata: new Map(Object.entries(fields)), tensors: [] })
}

test('what a reader has compiled is kept before its first question, for the next one', async () => {
  const folder = join(directory, 'compiled')
  vi.stubEnv('NODE_COMPILE_CACHE', folder)
  vi.stubEnv('NODE_DISABLE_COMPILE_CACHE', undefined)
  const reader = new GuardedProcess(READER)
  await reader.ask({ type: 'file', path: join(directory, 'none'), size: null })
  expect((await readdir(folder, { recursive: true })).length).toBeGreaterThan(20)
  await reader.stop()
})

test('a question is at fault where it crashes its process, and not where the system kills that', async () => {
  const program = join(directory, 'ends.mjs')
  const source = `process.on('message', (signal) => process.kill(process.pid, signal)); process.send('ready')`
  await writeFile(program, source)
  const reader = new GuardedProcess<NodeJS.Signals, never>({ ...READER, program: pathToFileURL(program) })
  await expect(reader.ask('SIGSEGV')).rejects.toThrow(ProcessEnded)
  await expect(reader.ask('SIGKILL')).rejects.toMatchObject({ status: 503, retryAfter: 5 })
  await reader.stop()
})

describe('a header', () => {
  test('comes back as it is in the file, without what is long and never needed', async () => {
    const tokens = Array.from({ length: 9000 }, (_, i) => `token ${i}`)
    await write({
      'general.architecture': string('x'),
      'x.block_count': uint32(3),
      'x.pattern': { bytes: strings(['a', 'b']).bytes },
      'tokenizer.ggml.tokens': strings(tokens),
      'tokenizer.ggml.merges': strings(tokens),
      flag: bool(true),
    })
    const metadata = await readMetadata(path)
    expect([...metadata.keys()].sort()).toEqual(
      ['flag', 'general.architecture', 'tokenizer.ggml.tokens', 'x.block_count', 'x.pattern'].sort(),
    )
    expect([...(metadata.get('x.pattern') as GgufArray)]).toEqual(['a', 'b'])
    const read = metadata.get('tokenizer.ggml.tokens') as GgufArray
    expect([read.length, read.at(8999)]).toEqual([9000, 'token 8999'])
    expect(read.find(['token 12', 'token', 'token 8999'])).toEqual(
      new Map([
        ['token 12', 12],
        ['token 8999', 8999],
      ]),
    )
  })

  test('says that a file is not there as the system does', async () => {
    await expect(readMetadata(join(directory, 'none.gguf'))).rejects.toMatchObject({ code: 'ENOENT' })
  })

  test.each([
    ['fields', 0, 12_000_000, /^the file has 12000000 fields in its header; at most 16384 are supported$/],
    ['tensors', 3_500_000, 0, /^the file has 3500000 tensors; at most 65536 are supported$/],
  ])('of millions of %s is refused by their number', async (_what, tensors, fields, message) => {
    await writeCounts(tensors, fields, 2 ** 32)
    await expect(readMetadata(path)).rejects.toThrow(message)
  })

  test('of more than the file has room for is refused before it is read', async () => {
    await writeCounts(60_000, 0, 2 ** 16)
    await expect(readMetadata(path)).rejects.toThrow('the file is truncated')
    await writeCounts(0, 16_000, 2 ** 16)
    await expect(readMetadata(path)).rejects.toThrow('the file is truncated')
  })

  test('of more layers than there can be, or than there are tensors, is refused', async () => {
    const named = { 'general.architecture': string('x'), 'x.block_count': uint32(4_000_000_000) }
    await write(named)
    await expect(readMetadata(path)).rejects.toThrow('the file names 4000000000 layers; at most 1024 are supported')
    const tensor = { name: 't', shape: [1], type: 0, read: () => Buffer.alloc(4) }
    const metadata = new Map<string, WrittenField>(Object.entries({ ...named, 'x.block_count': uint32(100) }))
    await writeGguf(path, { metadata, tensors: [tensor] })
    await expect(readMetadata(path)).rejects.toThrow('the file names 100 layers and has 1 tensors')
    // The first part of several may have few of them.
    await writeGguf(path, { metadata: metadata.set('split.tensors.count', uint32(200)), tensors: [tensor] })
    expect((await readMetadata(path)).get('x.block_count')).toBe(100)
  })

  test('of ten million tokens, or of texts without an end, is refused', async () => {
    const count = Buffer.concat([uint32(9).bytes.subarray(4), uint32(8).bytes.subarray(4), uint64(10_000_000)])
    await write({ 'tokenizer.ggml.tokens': { bytes: count } })
    await truncate(path, 2 ** 32)
    await expect(readMetadata(path)).rejects.toThrow('the file has 10000000 texts in one array; at most 2097152')
    await write(Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`text ${i}`, string('x'.repeat(300_000))])))
    await expect(readMetadata(path)).rejects.toThrow('the file has more than 4194304 bytes of text in its header')
  })

  test('larger than any is given up', async () => {
    const length = Buffer.concat([uint32(8).bytes.subarray(4), uint64(2 ** 31)])
    await write({ text: { bytes: length } })
    await truncate(path, 2 ** 33)
    await expect(readMetadata(path)).rejects.toThrow("the file's header is larger than 134217728 bytes")
  })

  test('of a file elsewhere is read piece by piece, and its tensors are checked', async () => {
    const reads: number[] = []
    const tensor = { name: 't', shape: [4], type: 0, read: () => Buffer.alloc(16) }
    const metadata = new Map<string, WrittenField>([['text', string('x'.repeat(2_000_000))]])
    await writeGguf(path, { metadata, tensors: [tensor, { ...tensor, name: 'u' }] })
    const { readFile } = await import('node:fs/promises')
    const bytes = await readFile(path)
    const source = {
      size: bytes.length,
      read: async (position: number, length: number) => {
        reads.push(length)
        return bytes.subarray(position, position + length)
      },
    }
    expect((await readCheckedMetadata(source, bytes.length)).has('text')).toBe(true)
    expect(reads.length).toBe(2)
    await expect(readCheckedMetadata(path, bytes.length - 64)).rejects.toThrow('ends before its last tensor begins')
  })

  test('of any bytes is read or refused in words, and the process lives on', async () => {
    const header = fc.record({
      bytes: fc.uint8Array({ maxLength: 300 }),
      tensors: fc.oneof(fc.nat(10), fc.maxSafeNat()),
      fields: fc.oneof(fc.nat(10), fc.maxSafeNat()),
    })
    await fc.assert(
      fc.asyncProperty(header, async ({ bytes, tensors, fields }) => {
        await writeCounts(tensors, fields, 24)
        await writeFile(path, bytes, { flag: 'a' })
        const outcome = await readMetadata(path).catch((error: Error) => error)
        if (outcome instanceof Error) expect(outcome.message).toMatch(/^the file /)
        expect(outcome).not.toBeInstanceOf(ProcessEnded)
      }),
      { numRuns: 200 },
    )
  })
})

test.each<[string, Readonly<Record<string, unknown>>, readonly [plain: string, forTools?: string]]>([
  ['in the settings', { 'tokenizer_config.json': { chat_template: 'a' } }, ['a']],
  [
    'a file of processors',
    { 'chat_template.json': { chat_template: 'b' }, 'tokenizer_config.json': { chat_template: 'a' } },
    ['b'],
  ],
  ['a file of its own', { 'chat_template.jinja': 'c', 'chat_template.json': { chat_template: 'b' } }, ['c']],
  [
    'by names',
    {
      'tokenizer_config.json': {
        chat_template: [
          { name: 'tool_use', template: 't' },
          { name: 'default', template: 'a' },
        ],
      },
    },
    ['a', 't'],
  ],
  [
    'by names in a file of processors',
    { 'chat_template.json': { chat_template: { default: 'b', tool_use: 't' } } },
    ['b', 't'],
  ],
  ['in a folder', { 'chat_template.jinja': 'c', 'additional_chat_templates/tool_use.jinja': 't' }, ['c', 't']],
  [
    'by the name for tools alone',
    { 'tokenizer_config.json': { chat_template: [{ name: 'tool_use', template: 't' }] } },
    ['t', 't'],
  ],
])('the chat template of a folder: %s', async (_name, files, [plain, forTools]) => {
  const { language } = await headersOf(files)
  expect(language.get('tokenizer.chat_template')).toBe(plain)
  expect(language.get('tokenizer.chat_template.tool_use')).toBe(forTools)
})

test.each<[string, number, Readonly<Record<string, unknown>>]>([
  ['none', 1000, {}],
  ['YaRN', 2000, { rope_scaling: { type: 'yarn', factor: 4, original_max_position_embeddings: 500 } }],
  ['YaRN without the original context', 4000, { rope_scaling: { rope_type: 'yarn', factor: 4 } }],
  ['linear', 2500, { rope_scaling: { rope_type: 'linear', factor: 2.5 } }],
  ['dynamic, as newer files have it', 2000, { rope_parameters: { rope_type: 'dynamic', factor: 2, rope_theta: 1e4 } }],
  [
    'YaRN for some layers',
    2000,
    { rope_parameters: { a: { rope_type: 'default' }, b: { rope_type: 'yarn', factor: 2 } }, rope_scaling: null },
  ],
  ['Llama 3', 1000, { rope_scaling: { rope_type: 'llama3', factor: 8, original_max_position_embeddings: 500 } }],
  ['LongRoPE', 1000, { rope_scaling: { type: 'longrope', factor: 32, original_max_position_embeddings: 500 } }],
  ['M-RoPE', 1000, { rope_scaling: { type: 'mrope', mrope_section: [16, 24, 24] } }],
  ['Gemma 3', 1000, { model_type: 'gemma3_text', rope_scaling: { rope_type: 'linear', factor: 8 } }],
])('the context of a folder whose positions are scaled: %s', async (_name, tokens, settings) => {
  const text_config = { max_position_embeddings: 1000, ...settings }
  const { language } = await headersOf({ 'config.json': { model_type: 'qwen2', text_config } })
  expect(language.get(`${language.get('general.architecture')}.context_length`)).toBe(tokens)
})

test.each([
  [['<|end|>', '<|return|>', '<|call|>'], [1]],
  [['<|end|>', '<|calls|>', '<|flush|>'], [1]],
  [
    ['<|end|>', '<|call|>'],
    [1, 0],
  ],
  [
    ['<|im_end|>', '<|end|>'],
    [1, 0],
  ],
])('tokens that end a reply, beside the one that a folder names, among %j', async (tokens, ends) => {
  const vocab = Object.fromEntries(tokens.map((token, id) => [token, id]))
  const { stopTokens } = await headersOf({
    'config.json': { model_type: 'gpt_oss', eos_token_id: 1 },
    'tokenizer.json': { model: { vocab } },
  })
  expect(stopTokens).toEqual(ends)
})

async function headersOf(files: Readonly<Record<string, unknown>>) {
  const folder = await mkdtemp(join(directory, 'folder-'))
  await mkdir(join(folder, 'additional_chat_templates'))
  const all = { 'config.json': { model_type: 'qwen2' }, 'tokenizer.json': { model: { vocab: { a: 0 } } }, ...files }
  for (const [name, content] of Object.entries(all))
    await writeFile(join(folder, name), typeof content === 'string' ? content : JSON.stringify(content))
  return readFolder('.', { file: join(folder, 'card.json'), directory: folder })
}

test('a tokenizer that names a token far behind all others is read without it', async () => {
  await writeFile(join(directory, 'config.json'), JSON.stringify({ model_type: 'qwen2' }))
  const vocab = { a: 0, b: 4_000_000_000, c: -1, d: 0.5, e: 1 }
  await writeFile(join(directory, 'tokenizer.json'), JSON.stringify({ model: { vocab } }))
  const { language } = await readFolder('.', { file: 'card.json', directory })
  expect(language.get('tokenizer.ggml.tokens')).toEqual(['a', 'e'])
  await truncate(join(directory, 'tokenizer.json'), 2 ** 27)
  await expect(readFolder('.', { file: 'card.json', directory })).rejects.toThrow(
    /card\.json: engine\.tokenizer: cannot read .*tokenizer\.json: it has 134217728 bytes; at most 67108864 are read/,
  )
})

test('a folder that ends the process that reads it is named with its card', async () => {
  await writeFile(join(directory, 'tokenizer.json'), '{}')
  await writeFile(join(directory, 'config.json'), `{"deep":${'['.repeat(3e7)}${']'.repeat(3e7)}}`)
  await expect(readFolder('.', { file: 'card.json', directory })).rejects.toMatchObject({
    message: expect.stringMatching(
      /^Model card card\.json: engine\.tokenizer: the folder \. cannot be read: it needs more /,
    ),
    cause: expect.any(ProcessEnded),
  })
})

describe('a template of somebody else', () => {
  const refused = (source: string, milliseconds?: number) => expect(probeGuarded(source, milliseconds)).rejects

  test('is probed in a process of its own', async () => {
    const source = `${CHATML}{% if enable_thinking %}<think>{% endif %}`
    const { findings, traits } = await probeGuarded(source)
    expect(findings).toMatchObject({ thought: { end: '</think>' } })
    expect(traits).toMatchObject({ shape: 'string' })
  })

  test('may loop for ever', () =>
    refused(
      '{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}',
      600,
    ).toThrow('it takes more than 0.6 s of processor time'))

  test.each([
    [
      'a list that doubles',
      '{% set ns = namespace(x=[1]) %}{% for a in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ messages[0].content }}',
    ],
    ['a range of four billion', '{% for i in range(4000000000) %}{{ i }}{% endfor %}{{ messages[0].content }}'],
  ])('may fill the memory with %s', async (_what, source) => {
    // Others that were asked meanwhile are answered.
    const [outcome, other] = await Promise.all([
      probeGuarded(source).catch((error: Error) => error),
      probeGuarded(CHATML),
    ])
    expect(outcome).toBeInstanceOf(ProcessEnded)
    expect(other.findings.warnings).toEqual(expect.any(Array))
  })

  test('may be too long', () => refused(' '.repeat(300_000)).toThrow(/has more than 262144 characters$/))

  test.each([
    ['{% if %}', /./],
    ['{{ raise_exception("never") }}', /^The chat template does not render a plain conversation: never$/],
    ['nothing of the conversation', /^The chat template does not render a plain conversation$/],
  ])('may not work: %s', (source, message) => refused(source).toThrow(message))
})

test('a header without tensors is one of a file that names its layers', async () => {
  await writeHeader(path, { 'general.architecture': 'x', 'x.block_count': 28 })
  expect((await readMetadata(path)).get('x.block_count')).toBe(28)
})
