import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const PROGRAM = fileURLToPath(new URL('./fixtures/few-descriptors.ts', import.meta.url))

test('without file descriptors, media requests get a 503 and the process keeps running', async () => {
  const limited = `ulimit -n 64; exec "$0" "$@"`
  const { stdout } = await promisify(execFile)('/bin/sh', ['-c', limited, process.execPath, PROGRAM])
  // Afterwards the requests fail with 400: nothing listens at the URL, and the image is damaged.
  expect(JSON.parse(stdout)).toEqual({ without: [503, 503, 503], after: [400, 400, 400] })
})
