import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { KEY, startTestServer } from '../support/server.ts'

const run = promisify(execFile)
const CHAT = fileURLToPath(new URL('../support/generated-client.py', import.meta.url))
/** A Python with `openapi-python-client` installed. Without it, the test is skipped. */
const python = process.env.LOOKOUT_TEST_OPENAPI_PYTHON

test.skipIf(python === undefined)(
  'a client generated from openapi.json chats (needs LOOKOUT_TEST_OPENAPI_PYTHON)',
  { timeout: 60_000 },
  async () => {
    const server = await startTestServer()
    const directory = await mkdtemp(join(tmpdir(), 'lookout-client-'))
    try {
      const client = join(directory, 'client')
      // The generator runs tools that are installed next to it.
      const env = { ...process.env, PATH: dirname(python!) + delimiter + process.env.PATH }
      const generate = ['generate', '--url', `${server.url}/openapi.json`, '--output-path', client, '--fail-on-warning']
      await run(python!, ['-m', 'openapi_python_client', ...generate], { env })
      const { stdout } = await run(python!, [CHAT, client, server.url, KEY])
      expect(stdout.trim()).toBe('Hello there.')
    } finally {
      await rm(directory, { recursive: true })
      await server.close()
    }
  },
)
