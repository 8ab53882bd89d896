import { execFile } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { generatorCommands, hasCommand } from '../support/openapi-generators.ts'
import { jsonOf, KEY, type TestServer } from '../support/server.ts'
import { startShippedServer } from '../support/shipped-model.ts'

/**
 * The clients of docs/generated-clients.md: its commands generate them from the server's `openapi.json`, they compile, and
 * its programs get from the shipped model what a plain request gets.
 */
const PAGE = 'docs/generated-clients.md'
const MODEL = 'service-mk1.5'
const TSC = ['typescript', 'typescript-7'].map((name) => resolve('node_modules', name, 'bin/tsc'))
/** Names that clash show only when a module is imported. */
const IMPORT_ALL = `
import importlib, pkgutil, lookout_client
for module in pkgutil.walk_packages(lookout_client.__path__, 'lookout_client.'):
    importlib.import_module(module.name)
`
const run = promisify(execFile)

const commands = await generatorCommands()
const hasPython = commands !== null
const hasGo =
  commands !== null &&
  (await hasCommand('go', ['version'], 'a client in Go')) &&
  (await hasCommand('java', ['-version'], 'the generator of clients in Go'))

let server: TestServer
let folder: string
let expected: string
beforeAll(async () => {
  server = await startShippedServer()
  folder = await mkdtemp(join(tmpdir(), 'lookout-clients-'))
  for (const name of ['docs', 'node_modules']) await symlink(resolve(name), join(folder, name))
  await writeFile(join(folder, 'package.json'), '{"type": "module"}')
  // npx itself would look for the folder of a package.
  await mkdir(join(folder, 'bin'))
  await writeFile(join(folder, 'bin/npx'), '#!/bin/sh\nname=$1; shift; exec "node_modules/.bin/$name" "$@"\n')
  await chmod(join(folder, 'bin/npx'), 0o755)
  expected = await plainAnswers()
})
afterAll(async () => {
  await server?.close()
  if (folder) await rm(folder, { recursive: true })
})

interface Answers {
  readonly choices: readonly { readonly message: { readonly content: string } }[]
  readonly detections: readonly {
    readonly mention: string
    readonly point_box: { readonly top_left: { readonly x: number } }
  }[]
  readonly results: readonly { readonly completions: Answers['choices'] }[]
}

/** What the programs print, from requests without a client. */
async function plainAnswers(): Promise<string> {
  const picture = await readFile('docs/pictures/shapes.png')
  const url = `data:image/png;base64,${picture.toString('base64')}`
  const image = { type: 'image_url', image_url: { url } }
  const star = 'Where is the blue star?'
  const ask = async (path: string, body: object) =>
    jsonOf<Answers & Record<string, unknown>>(await server.post(path, { model: MODEL, ...body }))
  const content = [image, { type: 'text', text: star }]
  const chat = await ask('/v1/chat/completions', { messages: [{ role: 'user', content }] })
  const found = await ask('/v1/detect', { media: { type: 'image', image_url: url }, categories: ['heart'] })
  const looks = await ask('/v1/chat/completions/multilook', {
    context: [{ role: 'user', content: [image] }],
    prompts: [star, 'Where is the heart?'],
  })
  return [
    `${chat.choices[0]!.message.content} shapes-1`,
    ...found.detections.map(({ mention, point_box: box }) => `${mention} ${box.top_left.x}`),
    ...looks.results.map(({ completions }) => completions[0]!.message.content),
    `shapes.png ${picture.length}`,
    '',
  ].join('\n')
}

/** Runs the commands of a section, and saves its program. */
async function generate(section: string): Promise<void> {
  const text = (await readFile(PAGE, 'utf8')).replaceAll('http://127.0.0.1:8080', server.url)
  const [own] = text.slice(text.indexOf(`\n## ${section}\n`) + 1).split(/\n(?=## )/)
  const [, command] = /^```sh\n(.*?)^```$/ms.exec(own!)!
  const [, file, code] = /^```\w+ \[([\w./]+)\]\n(.*?)^```$/ms.exec(own!)!
  await execute('bash', '-euo', 'pipefail', '-c', command!)
  await mkdir(dirname(join(folder, file!)), { recursive: true })
  await writeFile(join(folder, file!), code!)
}

async function execute(command: string, ...args: string[]): Promise<string> {
  const PATH = [join(folder, 'bin'), ...(commands === null ? [] : [commands]), process.env.PATH].join(delimiter)
  const env = { ...process.env, PATH, LOOKOUT_API_KEY: KEY, PYTHONPATH: 'lookout-client', GOFLAGS: '-mod=mod' }
  const options = { cwd: folder, env, maxBuffer: 2 ** 26 }
  const { stdout } = await run(command, args, options).catch((error: Error & { stdout: string; stderr: string }) => {
    throw new Error(`${command} ${args.join(' ')}\n${error.stdout}\n${error.stderr}`)
  })
  return stdout
}

describe('a client generated from openapi.json', { timeout: 240_000 }, () => {
  test('in TypeScript', async () => {
    await generate('TypeScript')
    const compilerOptions = {
      strict: true,
      noUncheckedIndexedAccess: true,
      exactOptionalPropertyTypes: true,
      module: 'nodenext',
      target: 'es2024',
      types: ['node'],
      allowImportingTsExtensions: true,
      noEmit: true,
    }
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['look.ts'] }))
    for (const compiler of TSC) await execute(process.execPath, compiler, '-p', '.')
    expect(await execute(process.execPath, 'look.ts')).toBe(expected)
  })

  test.skipIf(!hasPython)('in Python', async () => {
    await generate('Python')
    await execute('python', '-c', IMPORT_ALL)
    expect(await execute('python', 'look.py')).toBe(expected)
  })

  test.skipIf(!hasGo)('in Go', async () => {
    await generate('Go')
    await execute('bash', '-c', 'cd lookout && go vet . ./cmd/look && go build -o ../look ./cmd/look')
    expect(await execute('./look')).toBe(expected)
  })
})
