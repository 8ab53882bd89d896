import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { float32, parseGguf, string, TensorType, uint32, writeGguf } from './gguf.ts'

test('what is written is read back, whatever the lengths before it', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'lookout-gguf-'))
  try {
    const file = join(folder, 'model.gguf')
    const metadata = new Map([
      ['general.name', string('wörds')],
      ['some.count', uint32(7)],
      ['some.share', float32(0.5)],
    ])
    const tensors = [
      { name: 'a', shape: [3], type: TensorType.F32, data: Buffer.from(new Float32Array([1, 2, 3]).buffer) },
      { name: 'b.weight', shape: [32, 2], type: TensorType.Q8_0, data: Buffer.alloc(68, 5) },
      { name: 'c', shape: [2], type: TensorType.F16, data: Buffer.from([1, 2, 3, 4]) },
    ]
    await writeGguf(
      file,
      metadata,
      tensors.map((tensor) => ({ ...tensor, read: () => tensor.data })),
    )
    const read = parseGguf(await readFile(file))
    expect([...read.metadata]).toEqual([...metadata])
    expect(read.tensors).toEqual(tensors)
  } finally {
    await rm(folder, { recursive: true })
  }
})
