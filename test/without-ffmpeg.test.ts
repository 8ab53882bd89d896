import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { expect, test } from 'vitest'
import { jsonOf } from './support/server.ts'

/** A copy of the program whose node_modules have no FFmpeg, as after `rm -r node_modules/@seydx`. */
async function copyWithoutFFmpeg(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'lookout-without-ffmpeg-'))
  await Promise.all(['src', 'package.json'].map((name) => cp(name, join(directory, name), { recursive: true })))
  await symlink(resolve('models'), join(directory, 'models'))
  const modules = join(directory, 'node_modules')
  await mkdir(modules)
  for (const name of await readdir('node_modules')) {
    if (name !== '@seydx') await symlink(resolve('node_modules', name), join(modules, name))
  }
  return directory
}

test('without FFmpeg the server says so, refuses videos and audio, and still sees', async () => {
  const directory = await copyWithoutFFmpeg()
  const settings = {
    LOOKOUT_PORT: '0',
    LOOKOUT_API_KEY: 'test-key',
    LOOKOUT_DATA_DIR: join(directory, 'data'),
    LOOKOUT_MODEL_CARD: resolve('models/lookout-nano/card.json'),
  }
  const server = spawn(process.execPath, [join(directory, 'src/main.ts'), 'serve'], {
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      LOOKOUT_CACHE_DIR: process.env.LOOKOUT_CACHE_DIR,
      ...settings,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  try {
    let log = ''
    server.stderr.setEncoding('utf8').on('data', (text) => {
      log += text
    })
    let url: string | undefined
    for await (const line of createInterface(server.stdout)) {
      url = /http:\/\/[\d.:]+/.exec(line)?.[0]
      if (url) break
    }
    server.stdout.resume()
    expect(url, log).toBeDefined()
    const ask = async (type: string, value: object) => {
      const content = [
        { type, [type]: value },
        { type: 'text', text: 'What is this?' },
      ]
      const response = await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: 'Bearer test-key', 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'service-mk1.5', messages: [{ role: 'user', content }] }),
      })
      return { status: response.status, ...(await jsonOf<{ error?: object }>(response)) }
    }
    const base64 = (name: string) => readFile(`docs/pictures/${name}`, 'base64')
    const dataUrl = async (type: string, name: string) => `data:${type};base64,${await base64(name)}`

    expect(await ask('video_url', { url: await dataUrl('video/webm', 'shapes.webm') })).toEqual({
      status: 400,
      error: {
        message: 'This server does not support video input: it was installed without FFmpeg',
        type: 'invalid_request_error',
        param: 'messages[0].content[0].video_url.url',
        code: null,
      },
    })
    expect(await ask('input_audio', { data: await base64('words.mp3'), format: 'mp3' })).toMatchObject({
      status: 400,
      error: {
        message: 'This server does not support audio input: it was installed without FFmpeg',
        param: expect.stringContaining('messages[0].content[0].input_audio'),
      },
    })
    expect(await ask('image_url', { url: await dataUrl('image/png', 'shapes.png') })).toMatchObject({ status: 200 })
    expect(log.split('Video and audio are not available: FFmpeg is not installed')).toHaveLength(2)
  } finally {
    server.kill('SIGTERM')
    if (server.exitCode === null) await once(server, 'exit')
    await rm(directory, { recursive: true })
  }
})
