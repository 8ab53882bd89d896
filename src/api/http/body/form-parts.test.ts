import { setImmediate } from 'node:timers/promises'
import { expect, test, vi } from 'vitest'
import { splitForm } from './form-parts.ts'

test('the rest of a rejected form is not read', async () => {
  const part = (at: number) => `--b\r\ncontent-disposition: form-data; name="p${at}"\r\n\r\n1\r\n`
  const bytes = Buffer.from(`${Array.from({ length: 40_000 }, (_, at) => part(at)).join('')}--b--\r\n`)
  const pieces = vi.spyOn(bytes, 'subarray')
  await expect(splitForm(bytes, 'multipart/form-data; boundary=b')).rejects.toThrow('at most 257 parts')
  // Each chunk would take one turn of the event loop.
  for (let turn = 0; turn < 50; turn++) await setImmediate()
  expect(pieces.mock.calls.length).toBeLessThan(3)
})
