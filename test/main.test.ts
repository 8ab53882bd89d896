import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { lstat, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { config } from '../src/commands/config.ts'
import { models } from '../src/commands/models/models.ts'
import { SETTINGS } from '../src/config/settings.ts'
import { DEMONSTRATION_NOTE } from '../src/config/shipped-model.ts'
import { bareEnvironment, outcomeHere } from './support/command-line.ts'
import { skipped } from './support/python.ts'
import { TERMINAL } from './support/terminal.ts'

if (TERMINAL === null) process.stdout.write(`${skipped('what is printed on a terminal', 'pty')}\n`)

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-main-'))
})
afterAll(async () => {
  // A failed test may have left a process.
  for (const child of started) child.kill('SIGKILL')
  await rm(directory, { recursive: true })
})
const started: ChildProcess[] = []

describe('the command line', () => {
  test.each<[string[], Record<string, string>, number, RegExp, string]>([
    [['--version'], {}, 0, /^\d+\.\d+\.\d+\n$/, ''],
    [['toString'], {}, 1, /^$/, "lookout: unknown command 'toString'; see --help\n"],
    [['serve', '--fast'], {}, 1, /^$/, "lookout: Unknown option '--fast'; see --help\n"],
    [['serve'], { LOOKOUT_PORT: 'x' }, 1, /^$/, 'lookout: LOOKOUT_PORT: expected a port number\n'],
    [
      ['serve'],
      { LOOKOUT_HOST: 'no.invalid', LOOKOUT_PORT: '0' },
      1,
      /^$/,
      expect.stringMatching(/^lookout: LOOKOUT_HOST and LOOKOUT_PORT: [^\n]+ no\.invalid\n$/),
    ],
  ])('%s %o', async (args, environment, code, stdout, stderr) => {
    const run = await outcome(start(args, environment))
    expect(run).toEqual({ code, stdout: expect.stringMatching(stdout), stderr })
  })

  test('warns about variables that look like settings, and suggests the right name', async () => {
    const environment = {
      LOOKOUT_PROT: '1',
      LOOKOUT_FLY_TO_THE_MOON: '1',
      LOOKOUT_DATABASE_URL: 'postgres://db/lookout',
      LOOKOUT_DATA_DIR: "'/srv/lookout'",
      LOOKOUT_CACHE_DIR: process.env.LOOKOUT_CACHE_DIR ?? '',
      LOOKOUT_CONFIG: '',
    }
    const run = await outcome(start(['config', 'check'], environment))
    expect(run).toMatchObject({
      code: 0,
      stderr:
        'lookout: LOOKOUT_PROT is not a setting and is ignored; did you mean LOOKOUT_PORT?\n' +
        'lookout: LOOKOUT_FLY_TO_THE_MOON is not a setting and is ignored\n' +
        'lookout: LOOKOUT_DATABASE_URL is not a setting and is ignored; did you mean DATABASE_URL?\n' +
        'lookout: LOOKOUT_DATA_DIR has quotes around its value, which are taken as part of it\n',
    })
    expect(run.stdout).toMatch(/The configuration is fine\n$/)
    const secrets = { LOOKOUT_API_KEY: 'lk-secret', LOOKOUT_SECRET: 'hidden'.repeat(6) }
    const asJson = await outcomeHere(config, ['check', '--json'], secrets)
    expect(JSON.parse(asJson.stdout)).toMatchObject({ port: 8080, apiKey: '***', secret: '***' })
  })

  test('~ is the home folder, in variables and in the file', async () => {
    const home = await mkdtemp(join(directory, 'home-'))
    await symlink(resolve('models/lookout-nano'), join(home, 'nano'))
    await writeFile(join(home, 'settings.yaml'), 'blobs: ~/blobs\nmodel_card: ~/nano\nmodels: [~/nano]\n')
    const environment = { HOME: home, LOOKOUT_DATA_DIR: '~/data', LOOKOUT_CONFIG: join(home, 'settings.yaml') }
    const { stdout } = await outcome(start(['config', 'check', '--json'], environment))
    expect(JSON.parse(stdout)).toMatchObject({
      dataDirectory: join(home, 'data'),
      blobs: join(home, 'blobs'),
      modelCards: [join(home, 'nano'), join(home, 'nano')],
    })
  })

  test('the settings are printed without passwords, wherever they are', async () => {
    const cameras = [
      { name: 'a', url: 'rtsp://admin:secret-1@10.0.0.9/live?user=admin&password=secret-2/x&secret-3' },
      { name: 'b', url: 'rtsp://10.0.0.9/user=admin&password=secret-4&channel=1' },
      { name: 'c', url: 'rtsp://10.0.0.9/user:admin;pwd:secret-12x/1' },
      { name: 'd', url: 'http://secret-13@10.0.0.9/cgi/admin:secret-14/x.jpg' },
      { name: 'e', url: 'rtsp://secret-15@10.0.0.9/cgi/admin%3Asecret-16/x%3Dsecret-17' },
    ]
    const environment = {
      DATABASE_URL: 'postgres://lookout@db/lookout?password=secret-5&sslmode=require',
      REDIS_URL: 'redis://:secret-6@cache?x=secret-7',
      LOOKOUT_BLOBS: 's3://bucket?endpoint=https://secret-19:secret-8@minio:9000/',
      LOOKOUT_CAMERAS: JSON.stringify(cameras),
      OTEL_EXPORTER_OTLP_ENDPOINT: 'https://secret-20:secret-9@collector:4318',
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://tok-secret-18@collector:4318',
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=secret-10',
      OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'api-key=secret-11',
    }
    const { code, stdout } = await outcomeHere(config, ['check', '--json'], environment)
    expect(code).toBe(0)
    expect(stdout).not.toContain('secret-')
    const shown = JSON.parse(stdout) as Record<string, string>
    expect(shown.databaseUrl).toContain('sslmode=require')
    expect(decodeURIComponent(shown.blobs!)).toBe('s3://bucket?endpoint=https://***:***@minio:9000/')
  })

  test.each([
    [{ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, /OTEL_EXPORTER_OTLP_PROTOCOL is grpc/],
    [{ OTEL_TRACES_SAMPLER: 'bogus' }, /OTEL_TRACES_SAMPLER is bogus/],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' }, /OTEL_EXPORTER_OTLP_ENDPOINT is not an http\(s\) URL/],
  ])('the settings are not fine with %o', async (variables, message) => {
    const environment = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318', ...variables }
    const run = await outcomeHere(config, ['check'], environment)
    expect(run).toMatchObject({ code: 1, stdout: '', stderr: expect.stringMatching(message) })
  })

  test('a reader that has had enough ends a command quietly', async () => {
    const child = start(['--help'], {})
    child.stdout!.destroy()
    const [stderr, [code]] = await Promise.all([text(child.stderr!), once(child, 'close')])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  })

  test('the help lists every setting', async () => {
    const run = await outcome(start(['--help'], {}))
    expect(run).toMatchObject({ code: 0, stderr: '' })
    const shown = [...run.stdout.matchAll(/^ {2}([A-Z_]+) /gm)].map(([, name]) => name)
    expect(shown).toEqual(SETTINGS.map(({ variable }) => variable))
  })

  test('every command has its own help', async () => {
    const listed = (await outcome(start(['--help'], {}))).stdout.matchAll(/^ {2}([a-z-]+) +[a-z]/gm)
    const commands = [...listed].map(([, name]) => name!)
    expect(commands).toContain('export-hf')
    // One after the other in one process: what they load is mostly the same.
    const program = `
      const main = process.argv[1]
      for (const stream of [process.stdout, process.stderr]) stream.setMaxListeners(0)
      for (const name of ${JSON.stringify(commands)}) {
        process.argv = [process.execPath, main, name, '--help']
        await import(\`file://\${main}?\${name}\`)
        process.stdout.write('\\0')
      }`
    const all = spawn(process.execPath, ['--input-type=module', '--eval', program, resolve('src/main.ts')], {
      env: bareEnvironment(),
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const { code, stdout, stderr } = await outcome(all)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const helps = stdout.split('\0').slice(0, -1)
    expect(helps).toEqual(commands.map((name) => expect.stringMatching(`^Usage: lookout ${name}\\b`)))
  })

  test('models: describes the models without loading them', async () => {
    const run = await outcome(start(['models'], {}))
    expect(run).toMatchObject({ code: 0, stderr: '' })
    const [head, row] = run.stdout.split('\n')
    expect(head).toMatch(/^ids +name +size +family +weights +memory +context +loaded +card +checked$/)
    expect(row).toMatch(
      /^service-mk1\.5, service-mk1, lookout-nano +Lookout Nano +18\.\d MiB +lookout +F16 +\d{3}\.\d MiB +32768 +at start +.*lookout-nano.card\.json +-$/,
    )
    const settings = join(directory, 'aliases.yaml')
    await writeFile(settings, 'aliases: { a: service-mk1 }')
    const aliased = { LOOKOUT_CONFIG: settings, LOOKOUT_DATA_DIR: directory }
    const [model] = JSON.parse((await outcomeHere(models, ['--json'], aliased)).stdout)
    expect(model).toMatchObject({
      ids: ['service-mk1.5', 'service-mk1'],
      aliases: ['lookout-nano', 'a'],
      context_tokens: 32_768,
    })
  })

  test('the error for a missing card is one line that names it', async () => {
    const run = await outcome(start(['serve'], { LOOKOUT_PORT: '0', LOOKOUT_MODEL_CARD: '/none/card.json' }))
    expect(run).toMatchObject({ code: 1, stderr: expect.stringMatching(/^lookout: [^\n]*\/none\/card\.json[^\n]*\n$/) })
  })
})

describe('serve', () => {
  test('a first key that cannot be kept ends the start; then one is in a file that its owner alone can read', {
    timeout: 600_000,
  }, async () => {
    const data = await mkdtemp(join(directory, 'keys-'))
    await mkdir(join(data, 'first-key'))
    const failed = await outcome(start(['serve'], { LOOKOUT_PORT: '0', LOOKOUT_DATA_DIR: data }))
    expect(failed).toEqual({
      code: 1,
      stdout: '',
      stderr: `lookout: ${data}/first-key cannot be written: EISDIR\n`,
    })
    await rm(join(data, 'first-key'), { recursive: true })

    // Otherwise, a user who can write here could have the key written to a file of their own.
    const trap = join(data, 'trap')
    await writeFile(trap, '')
    await symlink(trap, join(data, 'first-key'))
    const server = start(['serve'], { LOOKOUT_PORT: '0', LOOKOUT_LOG_LEVEL: 'info', LOOKOUT_DATA_DIR: data })
    const logged = text(server.stderr!)
    const greeting = await untilPrinted(server, /JSON\n\n$/)
    expect(greeting).toContain(`\n${DEMONSTRATION_NOTE}\n`)
    expect(greeting).toContain(`API key: in ${data}/first-key, which only its owner can read\n`)
    expect(greeting).toContain(`-H "Authorization: Bearer $(cat '${data}/first-key')"`)
    expect(greeting).toMatch(/\/studio \(it asks for the key\)$/m)
    const key = await firstKeyIn(greeting)
    expect(key).toMatch(/^lk-[0-9A-Za-z]{43}$/)
    expect((await lstat(join(data, 'first-key'))).mode).toBe(0o100600)
    expect((await lstat(join(data, 'studio-key'))).mode).toBe(0o100600)
    expect(await readFile(trap, 'utf8')).toBe('')
    expect((await readdir(data)).filter((name) => /key/.test(name)).sort()).toEqual(['first-key', 'studio-key'])

    const url = /^Lookout listens on (\S+)$/m.exec(greeting)![1]!
    const served = await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })
    expect(served.status).toBe(200)
    const second = await outcome(start(['serve'], { LOOKOUT_PORT: new URL(url).port }))
    expect(second.code).toBe(1)
    expect(second.stderr).toMatch(/^lookout: port \d+ is in use; /m)
    server.kill('SIGTERM')
    expect(await once(server, 'exit')).toEqual([0, null])

    // Where there is no terminal, the log is JSON, and says what protects the server from its decoders.
    const log = await logged
    expect(greeting + log).not.toMatch(/lk-|#key/)
    expect(log).not.toMatch(/without TLS/)
    const messages = log
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line).msg)
    expect(messages).toContainEqual(expect.stringMatching(/^Decoders are (not )?confined/))

    const again = await servedOnce(['serve'], { LOOKOUT_DATA_DIR: data })
    expect(await firstKeyIn(again.stdout)).toBe(key)

    await rm(join(data, 'first-key'))
    const pretty = { LOOKOUT_DATA_DIR: data, LOOKOUT_LOG_FORMAT: 'pretty' }
    const open = await servedOnce(['serve', '--host', '0.0.0.0'], pretty)
    expect(open.stdout).toMatch(/^API key: as made before \(`npx lookout keys list`/m)
    // Lines for people, if asked, which warn of a server that others can reach.
    expect(open.stdout).toMatch(/^Lookout listens on http:\/\/0\.0\.0\.0:\d+$/m)
    expect(open.stderr).toMatch(/^\[[\d:.]+\] WARN: http:\/\/0\.0\.0\.0:\d+ is open to other machines, without TLS: /m)
    for (const line of open.stderr.trimEnd().split('\n')) expect(line).toMatch(/^\[[\d:.]+\] [A-Z]+: /)
  })

  test.skipIf(TERMINAL === null)(
    'on a terminal, the first start shows its key and a link with one, and keeps no file',
    async () => {
      const data = await mkdtemp(join(directory, 'keys-'))
      const server = start(['serve'], { LOOKOUT_PORT: '0', LOOKOUT_DATA_DIR: data }, { terminal: true })
      const printed = await untilPrinted(server, /JSON\r\n\r\n$/)
      const url = /^Lookout listens on (\S+)\r$/m.exec(printed)![1]!
      const [, key] = /^API key: (lk-\w+) \(keep it: it is shown only once\)/m.exec(printed)!
      const [, studioKey] = /\/studio#key=(lk-\w+)/.exec(printed)!
      for (const shown of [key, studioKey]) {
        const models = await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${shown}` } })
        expect(models.status).toBe(200)
      }
      expect((await readdir(data)).filter((name) => /key/.test(name))).toEqual(['studio-key'])
      server.kill('SIGTERM')
      await once(server, 'exit')
    },
  )

  test('keys create prints the key alone, for scripts', async () => {
    const data = await mkdtemp(join(directory, 'keys-'))
    const made = await outcome(start(['orgs', 'create', 'acme'], { LOOKOUT_DATA_DIR: data }))
    expect(made).toMatchObject({ code: 0, stderr: '' })
    const { stdout } = await outcome(start(['keys', 'create', '--org', 'acme'], { LOOKOUT_DATA_DIR: data }))
    expect(stdout).toMatch(/^lk-[0-9A-Za-z]{43}\n$/)
  })
})

/** The greeting and the log of a server that is stopped as soon as it listens. */
async function servedOnce(args: readonly string[], environment: Record<string, string> = {}) {
  const server = start(args, { LOOKOUT_PORT: '0', LOOKOUT_LOG_LEVEL: 'info', ...environment })
  const stderr = text(server.stderr!)
  const stdout = await untilPrinted(server, /JSON\n\n$/)
  server.kill('SIGTERM')
  return { stdout, stderr: await stderr }
}

/** The key in the file that a greeting names. */
async function firstKeyIn(greeting: string): Promise<string> {
  const file = /^API key: in (\S+), /m.exec(greeting)![1]!
  return (await readFile(file, 'utf8')).trim()
}

describe('SIGTERM in the middle of an answer', () => {
  // A service manager sends the signal to every process of the service, and a terminal that closes SIGHUP, maybe twice.
  test.each([
    ['SIGTERM', 1],
    ['SIGHUP', 2],
  ] as const)('the answer ends first, whichever process of the service %s reaches', async (signal, times) => {
    const { server, url, stream } = await streaming()
    for (let time = 0; time < times; time++) process.kill(-server.pid!, signal)
    await untilPrinted(server, /SIG(TERM|HUP): no new requests; accepted ones have 30 s to end\n/)
    const rejected = await fetch(`${url}/v1/models`, { headers }).catch(() => null)
    if (rejected) expect([rejected.status, rejected.headers.get('retry-after')]).toEqual([503, '5'])
    const answer = await stream.text()
    expect(answer).toMatch(/"finish_reason":"stop"[\s\S]*data: \[DONE\]\n\n$/)
    const texts = [...answer.matchAll(/"content":"([ab]*)"/g)].map((match) => match[1])
    expect(texts.join('')).toHaveLength(2000)
    expect(await once(server, 'exit')).toEqual([0, null])
  })

  test.skipIf(process.platform !== 'linux')('a second signal ends the server and its engine at once', async () => {
    const { server, stream } = await streaming({}, 6000)
    const children = childrenOf(server.pid!)
    expect(children.length).toBeGreaterThan(0)
    server.kill('SIGTERM')
    await untilPrinted(server, /SIGTERM: /)
    const exited = once(server, 'exit')
    server.kill('SIGTERM')
    expect(await exited).toEqual([1, null])
    await expect(stream.text()).rejects.toThrow()
    await expect.poll(() => children.filter(isAlive)).toEqual([])
  })

  test('with a drain time of 0, answers end with an error; a key that the operator set is in no output and no file', async () => {
    const data = await mkdtemp(join(directory, 'keys-'))
    const settings = { LOOKOUT_DRAIN_SECONDS: '0', LOOKOUT_LOG_LEVEL: 'info', LOOKOUT_DATA_DIR: data }
    const { server, greeting, stream } = await streaming(settings, 6000)
    const logged = text(server.stderr!)
    server.kill('SIGTERM')
    const last = (await stream.text()).trim().split('\n\n').at(-1)!
    expect(JSON.parse(last.slice('data: '.length)).error).toMatchObject({ code: 'model_overloaded' })
    expect(await once(server, 'exit')).toEqual([0, null])
    expect(greeting + (await logged)).not.toMatch(/lk-/)
    expect((await readdir(data)).filter((name) => /key/.test(name))).toEqual([])
  })

  const headers = { authorization: 'Bearer lk-main', 'content-type': 'application/json' }

  /** Starts a server and an answer, 2000 characters of which take at least a second. */
  async function streaming(environment: Record<string, string> = {}, characters = 2000) {
    const server = start(
      ['serve'],
      { LOOKOUT_PORT: '0', LOOKOUT_API_KEY: 'lk-main', ...environment },
      { detached: true },
    )
    const greeting = await untilPrinted(server, /JSON\n\n$/)
    const url = /^Lookout listens on (\S+)$/m.exec(greeting)![1]!
    const messages = [{ role: 'user', content: 'Hi' }]
    // Without the penalty, which asks for repetition, the limit on repetition would end the reply.
    const sampling = { temperature: 1, presence_penalty: -1 }
    const body = { model: 'service-mk1.5', stream: true, ...sampling, regex: `[ab]{${characters}}`, messages }
    const stream = await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body: JSON.stringify(body) })
    expect(stream.status).toBe(200)
    return { server, greeting, url, stream }
  }
})

/** Child processes, on Linux. */
function childrenOf(pid: number): number[] {
  const list = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
  return list.split(' ').filter(Boolean).map(Number)
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

function start(
  args: readonly string[],
  environment: Record<string, string>,
  { detached = false, terminal = false } = {},
): ChildProcess {
  const [program, ...before] = [...(terminal ? TERMINAL! : []), process.execPath]
  const child = spawn(program!, [...before, 'src/main.ts', ...args], {
    env: {
      ...bareEnvironment(),
      LOOKOUT_DATA_DIR: directory,
      LOOKOUT_LOG_LEVEL: 'error',
      ...environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    // The process gets its own process group.
    detached,
  })
  started.push(child)
  return child
}

async function outcome(child: ChildProcess): Promise<{ code: number; stdout: string; stderr: string }> {
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout!), text(child.stderr!), once(child, 'exit')])
  return { code, stdout, stderr }
}

async function untilPrinted(child: ChildProcess, pattern: RegExp): Promise<string> {
  let printed = ''
  for await (const data of child.stdout!.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    printed += data
    if (pattern.test(printed)) break
  }
  return printed
}
