import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { bareEnvironment, outcomeOf } from './support/command-line.ts'
import { jsonOf } from './support/server.ts'

/** A copy of the program whose node_modules have no FFmpeg, as after `rm -r node_modules/@seydx`, and without models. */
async function copyWithoutFFmpeg(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'lookout-without-ffmpeg-'))
  await Promise.all(['src', 'package.json'].map((name) => cp(name, join(directory, name), { recursive: true })))
  const modules = join(directory, 'node_modules')
  await mkdir(modules)
  for (const name of await readdir('node_modules')) {
    if (name !== '@seydx') await symlink(resolve('node_modules', name), join(modules, name))
  }
  return directory
}

let directory: string
beforeAll(async () => {
  directory = await copyWithoutFFmpeg()
})
afterAll(() => rm(directory, { recursive: true }))

/** Starts the copy's command line. */
function start(args: readonly string[], card = resolve('models/lookout-nano/card.json')): ChildProcess {
  const { LOOKOUT_CACHE_DIR } = process.env
  const settings = {
    LOOKOUT_PORT: '0',
    LOOKOUT_API_KEY: 'test-key',
    LOOKOUT_DATA_DIR: join(directory, 'data'),
    LOOKOUT_MODEL_CARD: card,
  }
  return spawn(process.execPath, [join(directory, 'src/main.ts'), ...args], {
    env: { ...bareEnvironment(), LOOKOUT_CACHE_DIR, ...settings },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
}

test('without FFmpeg the server says so, refuses and does not list videos and audio, and still sees', async () => {
  const server = start(['serve'])
  try {
    let log = ''
    server.stderr!.setEncoding('utf8').on('data', (text) => {
      log += text
    })
    let url: string | undefined
    for await (const line of createInterface(server.stdout!)) {
      url = /http:\/\/[\d.:]+/.exec(line)?.[0]
      if (url) break
    }
    server.stdout!.resume()
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
    const listed = await fetch(`${url}/v1/models?extended=true`, { headers: { authorization: 'Bearer test-key' } })
    const { data } = await jsonOf<{ data: { modalities: string[] }[] }>(listed)
    for (const { modalities } of data) expect(modalities).toEqual(['text', 'image'])
    expect(log.split('Video and audio are not available: FFmpeg is not installed')).toHaveLength(2)
  } finally {
    server.kill('SIGTERM')
    if (server.exitCode === null) await once(server, 'exit')
  }
})

test('lookout doctor says that FFmpeg is missing, that the rest is well, and how to get a model where there is none', async () => {
  const { code, stdout, stderr } = await outcomeOf(start(['doctor'], ''))
  expect(stdout).toMatch(/^FFmpeg +warning +Not installed: the server takes no videos and no audio/m)
  expect(stdout).toMatch(process.platform === 'linux' ? /^sandbox +ok/m : /^sandbox +warning/m)
  expect(stdout).toMatch(/^encoder +ok/m)
  expect(stdout).not.toMatch(/^template/m)
  expect(stderr).toContain('there is no model yet')
  expect(code).toBe(1)
})
