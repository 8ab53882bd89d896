import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { startEngine } from '../../src/inference/engines/engines.ts'
import { outcomeOf, startLookout } from '../support/command-line.ts'
import { type FakeHub, startFakeHub } from '../support/fake-hub.ts'
import { jsonOf, startTestServer } from '../support/server.ts'

/** What the doctor says of the shipped weights that were pulled from a hub, under cards that are right and wrong. */
const REPOSITORY = 'acme/nano-GGUF'
const ID = `${REPOSITORY}:Q4_K_M`
const OFF = /^boxes are off by \d\.\d patches on average$/i
/** The model writes places as the card says, and the server reads the numbers in another unit and order. */
const Y_FIRST = {
  dialect: 'paligemma',
  serves: [{ id: ID, modalities: ['text', 'image'], outputFormats: ['text', 'box'] }],
}

let files: Map<string, Buffer>
beforeAll(async () => {
  files = new Map([
    ['nano-Q4_K_M.gguf', await readFile('models/lookout-nano/model-f16.gguf')],
    ['mmproj-nano-F16.gguf', await readFile('models/lookout-nano/mmproj-f16.gguf')],
  ])
})

let hub: FakeHub
let home: string
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'lookout-examined-'))
  hub = await startFakeHub()
  hub.repositories.set(REPOSITORY, files)
  onTestFinished(async () => {
    await hub[Symbol.asyncDispose]()
    await rm(home, { recursive: true, force: true })
  })
})

const folder = () => join(home, 'data/models/acme--nano-GGUF--Q4_K_M')
const kept = async () => JSON.parse(await readFile(join(folder(), 'examination.json'), 'utf8'))
/** A card that somebody has written into keeps that when its model is pulled. */
async function writeCard(card: object): Promise<void> {
  await mkdir(folder(), { recursive: true })
  await writeFile(join(folder(), 'card.json'), JSON.stringify({ ...card, engine: { model: 'none.gguf' } }))
}

describe('lookout pull', () => {
  const start = (args: readonly string[], changes: Readonly<Record<string, string>> = {}) =>
    startLookout(args, {
      HF_HOME: join(home, 'hf'),
      HF_ENDPOINT: hub.url,
      LOOKOUT_DATA_DIR: join(home, 'data'),
      LOOKOUT_PORT: '0',
      ...changes,
    })
  const lookout = (...args: readonly string[]) => outcomeOf(start(args))
  const listed = async () => {
    const { stdout } = await lookout('models')
    return stdout
      .split('\n')
      .find((line) => line.startsWith(ID))!
      .split(/ {2,}/)
      .at(-1)!
  }

  test('says what the model can do, and keeps it', async () => {
    const { code, stdout } = await lookout('pull', ID)
    expect(code).toBe(0)
    for (const check of ['template', 'images', 'coordinates', 'forced call', 'thinking']) {
      expect(stdout).toMatch(new RegExp(`^  ${check} +ok  `, 'm'))
    }
    expect(stdout).toMatch(/^ {2}coordinates +ok +Boxes are exact: .* mean error 0\.\d\d patches/m)
    expect(stdout).toMatch(/\nThe model does what its card promises\.\n$/)
    expect(await kept()).toMatchObject({ state: 'done', ok: true, unchecked: [] })
    expect(await listed()).toMatch(/^\d{4}-\d\d-\d\d: ok$/)

    const removed = await lookout('rm', ID)
    expect(removed).toMatchObject({ code: 0 })
    expect(existsSync(folder())).toBe(false)
  })

  test('says that boxes are off, and so do the list, the card and every answer', async () => {
    await writeCard(Y_FIRST)
    const { code, stdout } = await lookout('pull', ID)
    expect(code).toBe(0)
    const last = stdout.trim().split('\n').at(-1)!
    expect(last).toMatch(
      /^Boxes are off by \d\.\d patches on average: use another model for places, or see docs\/doctor\.md\./,
    )
    const [, brief] = (await listed()).split(': ')
    expect(brief).toMatch(OFF)
    expect((await lookout('card', 'show', ID)).stdout).toContain(`: ${brief}`)
    const [row] = JSON.parse((await lookout('models', '--json')).stdout).filter((one: { ids: string[] }) =>
      one.ids.includes(ID),
    )
    expect(row.examination).toMatchObject({ state: 'done', ok: false })
    expect(row.examination.places_off_by).toBeGreaterThan(2)
    for (const command of [
      ['detect', ID, 'docs/pictures/shapes.png', 'circle'],
      ['chat', ID, 'docs/pictures/shapes.png', 'What is in this image?'],
    ]) {
      const { stderr } = await lookout(...command)
      expect(stderr.match(/^lookout: Boxes are off by \d\.\d patches on average: use another/gm)).toHaveLength(1)
    }

    // The doctor by itself keeps what it finds, too: here after the card has been mended.
    await writeFile(join(folder(), 'card.json'), JSON.stringify({ ...(await cardOf()), dialect: 'markup' }))
    expect(await listed()).toBe('no')
    expect((await lookout('doctor', ID, '--images', '6')).code).toBe(0)
    expect(await listed()).toMatch(/: ok$/)
  })
  const cardOf = async () => JSON.parse(await readFile(join(folder(), 'card.json'), 'utf8'))

  test('goes on in the background with what it did not wait for', async () => {
    const { code, stdout } = await lookout('pull', ID, '--check-seconds', '0')
    expect(code).toBe(0)
    expect(stdout).toMatch(/Still unchecked: template, images, .*\. It goes on in the background; lookout models shows/)
    await expect.poll(listed).toMatch(/still examined|: ok$/)
    await expect.poll(async () => (await kept()).state).toBe('done')
    expect(await listed()).toMatch(/: ok$/)
    const { pid } = (await kept()).by
    await expect.poll(() => isAlive(pid)).toBe(false)
  })

  test('a model that is removed meanwhile ends it', async () => {
    await lookout('pull', ID, '--check-seconds', '0')
    await expect.poll(() => existsSync(join(folder(), 'examination.json'))).toBe(true)
    const { pid } = (await kept()).by
    expect((await lookout('rm', ID)).code).toBe(0)
    await expect.poll(() => isAlive(pid)).toBe(false)
    expect(existsSync(join(folder(), 'examination.json'))).toBe(false)
  })

  test('Ctrl-C skips it, and the pull has succeeded', async () => {
    const child = start(['pull', ID])
    onTestFinished(() => void child.kill('SIGKILL'))
    let stdout = ''
    let isStopped = false
    child.stdout!.on('data', (piece) => {
      stdout += piece
      // Once: a second Ctrl-C ends the command at once.
      if (isStopped || !/^ {2}template/m.test(stdout)) return
      isStopped = child.kill('SIGINT')
    })
    const [code] = await once(child, 'exit')
    expect(code).toBe(0)
    expect(stdout).toMatch(/Skipped\. .*Unchecked: .*thoughts\. lookout doctor acme\/nano-GGUF:Q4_K_M examines it\./)
    expect(await kept()).toMatchObject({ state: 'skipped', findings: [{ check: 'template' }] })
    expect(isAlive((await kept()).by.pid)).toBe(false)
    expect(await listed()).toMatch(/: ok; unchecked: .* thoughts$/)
  })

  test('it can be left out', async () => {
    const left = await lookout('pull', ID, '--no-check')
    expect(left.stdout).not.toContain('Checking')
    expect(await listed()).toBe('no')
    const refused = await lookout('pull', ID, '--check-seconds', 'soon')
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('--check-seconds: expected a number') })
  })

  test('--json has a line whenever more is known', async () => {
    const { stdout } = await lookout('pull', ID, '--json')
    const events = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
      .filter(({ type }) => type === 'examination')
    expect(events[0]).toMatchObject({ state: 'running', findings: [], overall: null })
    expect(events.at(-1)).toMatchObject({ state: 'done', ok: true, unchecked: [] })
    expect(events.map(({ unchecked }) => unchecked.length)).toEqual([5, 5, 4, 3, 2, 1, 0])
  })
})

describe('a server', () => {
  const examined = async (card: object | null) => {
    vi.stubEnv('HF_ENDPOINT', hub.url)
    vi.stubEnv('HF_HOME', join(home, 'hf'))
    if (card !== null) await writeCard(card)
    const server = await startTestServer({ startEngine, environment: { LOOKOUT_DATA_DIR: join(home, 'data') } })
    onTestFinished(() => server.close())
    expect(await (await server.post('/v1/models/pull', { model: ID })).text()).toContain('"served":true')
    const examination = async () => {
      const { engines } = await jsonOf<{
        engines: { models: string[]; examination: Record<string, unknown> | null }[]
      }>(await server.get('/v1/server'))
      return engines.find(({ models }) => models.includes(ID))?.examination
    }
    await expect.poll(async () => (await examination())?.state).toBe('done')
    return { server, examination: (await examination())! }
  }

  test('says that boxes are exact', async () => {
    const { examination } = await examined(null)
    expect(examination).toMatchObject({ ok: true, unchecked: [], overall: 'The model does what its card promises.' })
    expect(examination.places_off_by).toBeLessThan(0.5)
  })

  test('says that boxes are off, also with what it finds', async () => {
    const { server, examination } = await examined(Y_FIRST)
    expect(examination).toMatchObject({ ok: false, overall: expect.stringMatching(/^Boxes are off by \d\.\d patches/) })
    const image = await readFile('docs/pictures/shapes.png', 'base64')
    const response = await server.post('/v1/detect', {
      model: ID,
      media: { type: 'image', image_url: `data:image/png;base64,${image}` },
    })
    expect(response.status).toBe(200)
    expect(response.headers.get('x-lookout-warning')).toMatch(
      /^Boxes are off by \d\.\d patches on average: use another/,
    )
  })
})

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
