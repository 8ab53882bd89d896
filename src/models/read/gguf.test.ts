import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { bool, float32, readGguf, string, TensorType, uint32, writeGguf } from '../../../test/support/gguf-writer.ts'
import { CARD } from '../../../test/support/local-engine.ts'
import { loadCard } from '../card.ts'
import { type GgufField, parseGguf, readGgufMetadata } from './gguf.ts'
import { GgufArray, type GgufValue } from './gguf-value.ts'

const STRING = 8
const ARRAY = 9
const uint64 = (value: bigint) => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(value)
  return bytes
}
const rawUint32 = (value: number) => uint32(value).bytes.subarray(4)
/** Type, element type, length and elements. */
const array = (type: number, length: bigint, ...elements: Buffer[]) =>
  Buffer.concat([rawUint32(ARRAY), rawUint32(type), uint64(length), ...elements])
const strings = (texts: readonly string[]) =>
  array(STRING, BigInt(texts.length), ...texts.map((text) => string(text).bytes.subarray(4)))

let directory: string
let path: string
/** The beginning of the shipped model: its header and some of its data. */
let head: Buffer
let headerBytes: number
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-gguf-'))
  path = join(directory, 'model.gguf')
  const card = await loadCard(CARD)
  const whole = await readFile(join(card.directory, card.engine.model))
  headerBytes = Math.min(...parseGguf(whole).tensors.map(({ offset }) => offset))
  head = whole.subarray(0, headerBytes + 1024)
})
afterAll(() => rm(directory, { recursive: true }))

/** Metadata of a file with one field. */
async function readField(bytes: Buffer): Promise<GgufValue | undefined> {
  await writeGguf(path, { metadata: new Map([['some.field', { bytes, value: '' }]]), tensors: [] })
  return (await readGgufMetadata(path)).get('some.field')
}

test('what is written is read back', async () => {
  const key = fc.string({ unit: 'binary', minLength: 1 })
  const metadata = fc.dictionary(
    key,
    fc.oneof(
      key.map(string),
      fc.nat().map(uint32),
      fc.float({ noNaN: true }).map(float32),
      fc.boolean().map(bool),
      fc.array(key).map((texts) => ({ value: texts, bytes: strings(texts) })),
    ),
    { noNullPrototype: true },
  )
  const sizes = fc.array(fc.record({ name: key, shape: fc.array(fc.nat(5), { maxLength: 4 }) }))
  await fc.assert(
    fc.asyncProperty(metadata, sizes, async (fields, shapes) => {
      const tensors = shapes.map(({ name, shape }, index) => {
        const data = Buffer.alloc(4 * shape.reduce((product, side) => product * side, 1), index)
        return { name, shape, type: TensorType.F32, read: () => data }
      })
      const written = Object.entries(fields)
      // The writer takes the bytes of a field.
      await writeGguf(path, { metadata: new Map(written) as ReadonlyMap<string, GgufField>, tensors })
      const values = [...(await readGgufMetadata(path))].map(([name, value]) => [
        name,
        value instanceof GgufArray ? [...value] : value,
      ])
      expect(values).toEqual(written.map(([name, { value }]) => [name, value]))
      const copy = await readGguf(path)
      expect([...copy.metadata].map(([name, { bytes }]) => [name, bytes])).toEqual(
        written.map(([name, { bytes }]) => [name, bytes]),
      )
      const contents = (list: typeof tensors) => list.map(({ read, ...tensor }) => ({ ...tensor, data: read() }))
      expect(contents([...copy.tensors] as typeof tensors)).toEqual(contents(tensors))
    }),
    { numRuns: 50 },
  )
})

test('elements of an array are found by their index', async () => {
  const tokens = (await readField(strings(['a', 'bc', '', 'def']))) as GgufArray
  expect([0, 1, 2, 3, 4, -1, 0.5].map((index) => tokens.at(index))).toEqual([
    'a',
    'bc',
    '',
    'def',
    undefined,
    undefined,
    undefined,
  ])
})

test('a string larger than the first read is read whole', async () => {
  const template = `${'x'.repeat(3_000_000)}end`
  expect(await readField(string(template).bytes)).toBe(template)
})

test('a file that ends within its header is refused', () => {
  expect(() => parseGguf(head.subarray(0, headerBytes))).not.toThrow()
  fc.assert(
    // The tensors' list is padded to the data by less than 32 bytes.
    fc.property(fc.nat(headerBytes - 32), (length) => {
      expect(() => parseGguf(head.subarray(0, length))).toThrow('the file is truncated')
    }),
  )
})

test('files with any damage are refused in words', async () => {
  const damage = fc.record({
    length: fc.nat(head.length),
    at: fc.oneof(fc.nat(2000), fc.nat(head.length - 16)),
    bytes: fc.uint8Array({ maxLength: 16 }),
  })
  await fc.assert(
    fc.asyncProperty(damage, async ({ length, at, bytes }) => {
      const damaged = Buffer.from(head)
      damaged.set(bytes, at)
      await writeFile(path, damaged.subarray(0, length))
      const read = [() => readGgufMetadata(path), async () => parseGguf(damaged).fields]
      for (const attempt of read) {
        const outcome = await attempt().catch((error: Error) => error)
        if (outcome instanceof Error) expect(outcome.message).toMatch(/^the file /)
        // A damaged count may be none, and the file then ends where it should.
        else expect(outcome).toBeInstanceOf(Map)
      }
    }),
    { numRuns: 200 },
  )
})

test('hostile headers are refused', async () => {
  const level = Buffer.concat([rawUint32(ARRAY), uint64(1n)])
  const nested = Buffer.concat(Array.from({ length: 50_000 }, () => level))
  const most = 2n ** 64n - 1n
  await expect(readField(array(ARRAY, 1n, nested))).rejects.toThrow('the file has nested arrays in its metadata')
  await expect(readField(array(STRING, most))).rejects.toThrow('the file is truncated')
  await expect(readField(array(0, most))).rejects.toThrow('the file is truncated')
  await expect(readField(Buffer.concat([rawUint32(STRING), uint64(most)]))).rejects.toThrow('truncated')
  await expect(readField(Buffer.alloc(8, 77))).rejects.toThrow('the file has metadata of the unknown type')
  const counts = Buffer.concat([Buffer.from('GGUF'), rawUint32(3), uint64(most), uint64(most)])
  expect(() => parseGguf(Buffer.concat([counts, Buffer.alloc(64)]))).toThrow('the file is truncated')
})

test.each([
  ['big-endian', Buffer.from('GGUF\0\0\0\x03'), 'the file is big-endian, which is not supported'],
  ['of version 1', Buffer.from('GGUF\x01\0\0\0'), 'the file has GGUF version 1; versions 2 and 3 are supported'],
  ['something else', Buffer.from('PK\x03\x04'), 'the file is not a GGUF file'],
  ['empty', Buffer.alloc(0), 'the file is truncated'],
])('a file that is %s is refused by name', async (_name, start, message) => {
  await writeFile(path, Buffer.concat([start, Buffer.alloc(start.length && 64)]))
  await expect(readGgufMetadata(path)).rejects.toThrow(message)
})
