import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { errorOf, jsonOf, KEY, startTestServer, type TestServer } from './support/server.ts'
import { fill, mountSmallDisk, unmount } from './support/small-disk.ts'

const mounted = await mountSmallDisk()
const title = mounted ? 'on a full disk' : 'on a full disk (skipped: mounting one requires root on Linux)'

describe.skipIf(mounted === null)(title, () => {
  const directory = mounted!
  const junk = join(directory, 'junk')
  let server: TestServer
  let png: Buffer
  beforeAll(async () => {
    png = await readFile(new URL('../docs/pictures/shapes.png', import.meta.url))
    // The embedded database is on the same disk.
    server = await startTestServer({
      environment: { LOOKOUT_DATA_DIR: join(directory, 'data'), DATABASE_URL: '', LOOKOUT_BLOBS: '' },
    })
  })
  afterAll(async () => {
    await server?.close()
    await unmount(directory)
  })

  const headers = { authorization: `Bearer ${KEY}` }
  function upload(): Promise<Response> {
    const body = new FormData()
    body.append('file', new Blob([new Uint8Array(png)]), 'a.png')
    body.append('purpose', 'vision')
    return fetch(`${server.url}/v1/files`, { method: 'POST', headers, body })
  }
  const chat = () =>
    server.post('/v1/chat/completions', { model: 'service-mk1.5', messages: [{ role: 'user', content: 'Hi' }] })

  async function isWhole(id: string): Promise<boolean> {
    const response = await fetch(`${server.url}/v1/files/${id}/content`, { headers })
    return response.status === 200 && Buffer.from(await response.arrayBuffer()).equals(png)
  }

  test('uploads are rejected, nothing is lost, and free space is used as soon as there is some', async () => {
    const response = await upload()
    expect(response.status).toBe(200)
    const { id } = await jsonOf<{ id: string }>(response)
    for (let round = 0; round < 2; round++) {
      await fill(junk)
      const rejected = await upload()
      expect(rejected.status).toBe(503)
      expect(Number(rejected.headers.get('retry-after'))).toBeGreaterThan(0)
      expect(await errorOf(rejected)).toMatchObject({
        type: 'server_error',
        message: expect.stringMatching(/no room to store the file|database is not responding/),
      })
      const unseen = await server.post('/v1/chat/completions', {
        model: 'service-mk1.5',
        messages: [{ role: 'user', content: [{ type: 'image_file_id', image_file_id: { file_id: id } }] }],
      })
      expect(unseen.status).toBe(503)
      expect((await errorOf(unseen)).message).toMatch(/no room for more media|database is not responding/)
      // A chat without media needs no disk space.
      expect((await chat()).status).toBe(200)
      await rm(junk)
      await expect.poll(async () => (await upload()).status, { timeout: 20_000, interval: 300 }).toBe(200)
      expect(await isWhole(id)).toBe(true)
    }
    const listed = await jsonOf<{ data: { id: string }[] }>(await fetch(`${server.url}/v1/files`, { headers }))
    expect(listed.data.length).toBeGreaterThanOrEqual(3)
    for (const file of listed.data) expect(await isWhole(file.id)).toBe(true)
  })
})
