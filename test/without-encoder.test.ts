import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { startEngine } from '../src/inference/engines/engines.ts'
import { platformPackage, wantsOwnKernels } from '../src/setup/native-library.mjs'
import { locatePrebuilt } from '../src/setup/prebuilt.mjs'
import { outcomeOf, startLookout } from './support/command-line.ts'
import { errorOf, jsonOf, startTestServer, type TestServer } from './support/server.ts'

/** A machine on which libmtmd was neither compiled nor installed: its cache folder is empty. */
const PROBLEM = /libmtmd.* is not installed: models answer about text, but not about images, video or audio\. Install/

describe.skipIf(hasPackage())('a server without the image encoder library', () => {
  let cache: string
  let server: TestServer
  let picture: string
  beforeAll(async () => {
    cache = await mkdtemp(join(tmpdir(), 'lookout-without-encoder-'))
    vi.stubEnv('LOOKOUT_CACHE_DIR', cache)
    server = await startTestServer({ startEngine })
    vi.unstubAllEnvs()
    picture = `data:image/png;base64,${await readFile('docs/pictures/shapes.png', 'base64')}`
  })
  afterAll(async () => {
    await server?.close()
    await rm(cache, { recursive: true, force: true })
  })

  const ask = (content: unknown) =>
    server.post('/v1/chat/completions', {
      model: 'service-mk1.5',
      max_tokens: 4,
      messages: [{ role: 'user', content }],
    })

  test('starts, and says so once', () => {
    expect(server.logs.filter((line) => PROBLEM.test(line))).toHaveLength(1)
  })

  test('answers about text', async () => {
    const response = await ask('Hello')
    expect(response.status).toBe(200)
    expect(await jsonOf(response)).toMatchObject({ usage: { completion_tokens: expect.any(Number) } })
  })

  test('refuses an image with the error of a model that takes none', async () => {
    const response = await ask([{ type: 'image_url', image_url: { url: picture } }])
    expect(response.status).toBe(400)
    expect(await errorOf(response)).toMatchObject({
      type: 'invalid_request_error',
      param: 'messages[0].content[0].image_url',
      message: expect.stringContaining("Model 'service-mk1.5' does not support image input"),
    })
  })

  test('detects nothing, and says that no model does', async () => {
    const response = await server.post('/v1/detect', {
      media: { type: 'image', image_url: picture },
      categories: ['circle'],
    })
    expect(response.status).toBe(400)
    expect((await errorOf(response)).message).toContain('This server has no model that detects objects')
  })

  test('lists its models as those of text', async () => {
    const { data } = await jsonOf<{ data: { modalities: string[] }[] }>(await server.get('/v1/models?extended=true'))
    for (const { modalities } of data) expect(modalities).toEqual(['text'])
  })

  test('lookout doctor says what is missing', async () => {
    const settings = { LOOKOUT_CACHE_DIR: cache, LOOKOUT_DATA_DIR: cache }
    const { stdout } = await outcomeOf(startLookout(['doctor', '--json', '--images', '6'], settings))
    const { findings } = JSON.parse(stdout) as { findings: { check: string; verdict: string; finding: string }[] }
    expect(findings).toContainEqual({ check: 'encoder', verdict: 'warning', finding: expect.stringMatching(PROBLEM) })
    const verdictOf = (name: string) => findings.find(({ check }) => check === name)?.verdict
    expect(verdictOf('platform package')).toBe('skipped')
    expect(verdictOf('kernels')).toBe(wantsOwnKernels(locatePrebuilt().platform) ? 'warning' : 'ok')
    expect(findings.find(({ check }) => check === 'images')?.verdict).toBe('skipped')
  })
})

function hasPackage(): boolean {
  try {
    createRequire(import.meta.url).resolve(`${platformPackage(locatePrebuilt().platform)}/package.json`)
    return true
  } catch {
    return false
  }
}
