import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'

const run = promisify(execFile)

/**
 * What `npm run pack` makes, installed beside the dependencies of this checkout. Whether npm installs it, and whether it
 * works where there is nothing else, is what scripts/clean-room.sh shows.
 */
const ABROAD = '@lookout/native-darwin-arm64'
let directory: string
let lookout: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-package-'))
  const modules = join(directory, 'node_modules')
  await mkdir(modules)
  for (const name of await readdir('node_modules')) await symlink(resolve('node_modules', name), join(modules, name))
  // As "npm run platform-packages" would have made it.
  const platform = join(directory, ABROAD)
  await mkdir(platform, { recursive: true })
  const { version } = JSON.parse(await readFile('package.json', 'utf8'))
  await writeFile(join(platform, 'package.json'), JSON.stringify({ name: ABROAD, version, os: ['darwin'] }))
  await run(process.execPath, ['scripts/pack.ts', directory], { env: { ...process.env, GITHUB_REPOSITORY: 'a/fork' } })
  const tarballs = (await readdir(directory)).filter((name) => name.endsWith('.tgz'))
  for (const tarball of tarballs) {
    const folder = join(modules, tarball.replace(/-\d+\.\d+\.\d+\.tgz$/, ''))
    await mkdir(folder)
    await run('tar', ['-xzf', join(directory, tarball), '--strip-components=1', '-C', folder])
  }
  lookout = join(modules, 'lookout/bin/lookout.cjs')
})
afterAll(() => rm(directory, { recursive: true }))

const environment = () => ({
  ...process.env,
  LOOKOUT_DATA_DIR: join(directory, 'data'),
  LOOKOUT_LOG_LEVEL: 'warn',
  LOOKOUT_PORT: '0',
})

const execute = (...args: string[]) => run(process.execPath, [lookout, ...args], { env: environment(), cwd: directory })

test('has no sources but those that set-up compiles, no tests and no install scripts', async () => {
  const files = await readdir(join(directory, 'node_modules/lookout'), { recursive: true })
  expect(files.filter((file) => /\.test\.|\.m?ts$/.test(file))).toEqual([])
  expect(files).toEqual(
    expect.arrayContaining(['LICENSE', 'README.md', 'CHANGELOG.md', 'dist/main.js', 'models/catalogue.json']),
  )
  const manifest = JSON.parse(await readFile(join(directory, 'node_modules/lookout/package.json'), 'utf8'))
  const { version } = JSON.parse(await readFile('models/lookout-nano/package.json', 'utf8'))
  expect(manifest.optionalDependencies).toMatchObject({ 'lookout-nano': version })
  for (const field of ['private', 'scripts', 'devDependencies', 'files']) expect(manifest).not.toHaveProperty(field)
})

test.each(['lookout', 'lookout-nano', 'lookout-native-darwin-arm64'])(
  '%s can be published, with its provenance',
  async (name) => {
    const manifest = JSON.parse(await readFile(join(directory, 'node_modules', name, 'package.json'), 'utf8'))
    expect(manifest).not.toHaveProperty('private')
    expect(manifest.publishConfig).toEqual({ access: 'public', provenance: true })
    // npm compares it with the repository whose workflow publishes.
    expect(manifest.repository.url).toBe('git+https://github.com/a/fork.git')
  },
)

test('brings the platform packages, which npm may leave out', async () => {
  const manifest = JSON.parse(await readFile(join(directory, 'node_modules/lookout/package.json'), 'utf8'))
  expect(manifest.optionalDependencies).toMatchObject({ [ABROAD]: manifest.version })
})

test('is released only with a section of its own in the changelog, for the tag of its version', async () => {
  const { version } = JSON.parse(await readFile('package.json', 'utf8'))
  const changelog = await readFile('CHANGELOG.md', 'utf8')
  const isReady = new RegExp(`^## \\[${version}\\] - \\d{4}-\\d{2}-\\d{2}$`, 'm').test(changelog)
  const notes = (tag: string) => run(process.execPath, ['scripts/release-notes.ts', tag])
  await expect(notes('v0.0.1')).rejects.toThrow('the tag is v0.0.1')
  if (isReady) expect((await notes(`v${version}`)).stdout).toMatch(/^###|^- /)
  else await expect(notes(`v${version}`)).rejects.toThrow(/has no date|has no \[/)
})

test('has the version that the changelog begins with', async () => {
  const { stdout } = await execute('--version')
  const changelog = await readFile(join(directory, 'node_modules/lookout/CHANGELOG.md'), 'utf8')
  expect(/^## \[?(\d+\.\d+\.\d+)/m.exec(changelog)?.[1]).toBe(stdout.trim())
})

test('reads the catalogue of models from its own folder', async () => {
  const { findEntry } = await import(join(directory, 'node_modules/lookout/dist/catalogue/catalogue.js'))
  expect(await findEntry('qwen3-vl-4b')).toMatchObject({ repository: 'Qwen/Qwen3-VL-4B-Instruct-GGUF' })
})

test('describes the shipped model, which is a package of its own', async () => {
  const [model] = JSON.parse((await execute('models', '--json')).stdout)
  expect(model.card).toBe(join(directory, 'node_modules/lookout-nano/card.json'))
  expect(model.ids).toContain('service-mk1.5')
})

test('finds objects on the command line, in processes and threads of its own', async () => {
  const picture = resolve('docs/pictures/shapes.png')
  const { stdout } = await execute('detect', picture, 'red circle,heart', '--format', 'json')
  const [{ detections }] = JSON.parse(stdout)
  expect(detections.length).toBeGreaterThan(0)
})

test('serves its pages, validates large bodies and structured replies, and ends in order', async () => {
  const server = spawn(process.execPath, [lookout, 'serve'], {
    env: { ...environment(), LOOKOUT_API_KEY: 'lk-package' },
    stdio: ['ignore', 'pipe', 'inherit'],
    cwd: directory,
  })
  try {
    let printed = ''
    for await (const data of server.stdout.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
      printed += data
      if (/JSON\n\n$/.test(printed)) break
    }
    const url = /^Lookout listens on (\S+)$/m.exec(printed)![1]!
    for (const page of ['studio', 'docs']) expect(await (await fetch(`${url}/${page}`)).text()).toMatch(/<script/)
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: 'Bearer lk-package', 'content-type': 'application/json' },
      // Bodies of this size are parsed in a thread.
      body: JSON.stringify({
        model: 'service-mk1.5',
        messages: [{ role: 'user', content: 'Hello.' }],
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'n', schema: { type: 'object', properties: { n: { enum: [1] } }, required: ['n'] } },
        },
      }).padEnd(400_000),
    })
    const body = (await response.json()) as { choices: [{ message: { content: string } }] }
    expect(response.status, JSON.stringify(body)).toBe(200)
    expect(JSON.parse(body.choices[0].message.content)).toEqual({ n: 1 })
  } finally {
    server.kill('SIGTERM')
  }
  expect(await once(server, 'exit')).toEqual([0, null])
})
