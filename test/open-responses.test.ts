import { execFile } from 'node:child_process'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { TestServer } from './support/server.ts'
import { startShippedServer } from './support/shipped-model.ts'

/**
 * The compliance suite of Open Responses, from a checkout of github.com/openresponses/openresponses that OPEN_RESPONSES_DIR
 * names, against the shipped model.
 */
const checkout = process.env.OPEN_RESPONSES_DIR ? resolve(process.env.OPEN_RESPONSES_DIR) : null
const title = `the compliance suite of Open Responses${checkout === null ? ' (skipped: OPEN_RESPONSES_DIR names no checkout)' : ''}`
/** What the suite tests of compaction, which there is not. */
const ABSENT = /^(websocket-)?compact-/

interface Result {
  readonly id: string
  readonly status: 'passed' | 'failed' | 'skipped'
  readonly errors?: readonly string[]
}

describe.skipIf(checkout === null)(title, () => {
  let server: TestServer
  beforeAll(async () => {
    server = await startShippedServer()
  })
  afterAll(() => server?.close())

  test('passes', async () => {
    const results = await run(['--base-url', `${server.url}/v1`, '--api-key', server.service.apiKey!])
    const tested = results.filter(({ id }) => !ABSENT.test(id))
    expect(tested.filter(({ status }) => status === 'failed')).toEqual([])
    expect(tested.filter(({ status }) => status === 'passed').map(({ id }) => id)).toEqual(
      expect.arrayContaining(['basic-response', 'streaming-response', 'system-prompt', 'tool-calling', 'image-input']),
    )
    console.info(`Open Responses: ${tested.map(({ id, status }) => `${id} ${status}`).join(', ')}`)
  })
})

/** The program fails when one of its tests does, which is judged here. */
function run(options: readonly string[]): Promise<readonly Result[]> {
  const program = join(checkout!, 'bin/compliance-test.ts')
  const hooks = new URL('support/open-responses.mjs', import.meta.url).href
  const args = ['--no-warnings', '--import', hooks, program, '--json', '--model', 'service-mk1.5', ...options]
  return new Promise((done, fail) => {
    execFile(process.execPath, args, { maxBuffer: 2 ** 26 }, (error, stdout, stderr) => {
      try {
        done((JSON.parse(stdout) as { results: Result[] }).results)
      } catch {
        fail(new Error(`The suite did not run: ${stderr}`, { cause: error }))
      }
    })
  })
}
