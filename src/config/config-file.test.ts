import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { ConfigError, readConfig } from './config.ts'
import { parseConfigFile } from './config-file.ts'
import { readConfigFile } from './read-config-file.ts'

const read = (text: string, environment = {}) => readConfig(environment, parseConfigFile(text, 'lookout.config.yaml'))

test('a file says what the environment could say, in its own forms', () => {
  const config = read(`
# where it listens
host: 0.0.0.0
port: 9000
database_url: postgres://lookout@db/lookout
redis_url: redis://cache
blobs: s3://bucket/files?endpoint=http://minio:9000
media_hosts: [pictures.local:9000, 10.0.0.7]
cors_origins:
  - https://example.org
rate_limits: { chat: 600, models: 60 }
drain_seconds: 5
cache_dir: /var/cache/lookout
`)
  expect(config).toMatchObject({
    host: '0.0.0.0',
    port: 9000,
    databaseUrl: 'postgres://lookout@db/lookout',
    redisUrl: 'redis://cache',
    blobs: 's3://bucket/files?endpoint=http://minio:9000',
    mediaHosts: ['pictures.local:9000', '10.0.0.7'],
    corsOrigins: ['https://example.org'],
    rateLimits: { chat: 600, models: 60 },
    drainSeconds: 5,
    cacheDirectory: '/var/cache/lookout',
  })
  expect(read('rate_limits: off').rateLimits).toBeNull()
  expect(read('rate_limits: true').rateLimits).toEqual({})
  expect(read('').port).toBe(8080)
  expect(read('port:').port).toBe(8080)
})

test('a value may be of its type, or text as in the environment', () => {
  for (const [typed, text] of [
    ['port: 0', 'port: "0"'],
    ['drain_seconds: 0', 'drain_seconds: "0"'],
    ['model_memory: 1.5', 'model_memory: "1.5"'],
    ['media_hosts: [a, "b:1"]', 'media_hosts: a, b:1'],
    ['aliases: { gpt-4o: service-mk1.5 }', 'aliases: gpt-4o=service-mk1.5'],
    ['rate_limits: { chat: 0, models: 60 }', 'rate_limits: chat=0, models=60'],
  ]) {
    expect(read(typed!)).toEqual(read(text!))
  }
  expect(read('drain_seconds: 0').drainSeconds).toBe(0)
})

test('is found with either ending, unless another one is named', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'lookout-settings-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const portIn = async (environment = {}) => (await readConfigFile(environment, folder)).values.port
  expect(await portIn()).toBeUndefined()
  await writeFile(join(folder, 'lookout.config.yml'), 'port: 1')
  expect(await portIn()).toBe(1)
  await writeFile(join(folder, 'lookout.config.yaml'), 'port: 2')
  expect(await portIn()).toBe(2)
  await expect(portIn({ LOOKOUT_CONFIG: join(folder, 'none') })).rejects.toThrow(/none: there is no such file$/)
})

test('the environment wins, and an empty variable does not', () => {
  expect(read('port: 9000', { LOOKOUT_PORT: '9001' }).port).toBe(9001)
  expect(read('port: 9000', { LOOKOUT_PORT: '' }).port).toBe(9000)
})

test.each([
  ['host: a\nport: 80x', /^lookout\.config\.yaml:2: port: expected a port number$/],
  ['\n\nprot: 80', /^lookout\.config\.yaml:3: there is no setting 'prot'; did you mean port\?$/],
  ['pictures: 80', /^lookout\.config\.yaml:1: there is no setting 'pictures'; the settings are host, port, /],
  ['toString: 1', /^lookout\.config\.yaml:1: there is no setting 'toString'/],
  ['port: 1\nport: 2', /^lookout\.config\.yaml:2: Map keys must be unique/],
  ['host: "a', /^lookout\.config\.yaml:1: Missing closing "quote/],
  ['- port', /^lookout\.config\.yaml:1: expected settings/],
  ['port: { a: { b: 1 } }', /^lookout\.config\.yaml:1: port: expected a port number$/],
  ['port: *none', /^lookout\.config\.yaml:1: port: Unresolved alias /],
  ['host: 127', /^lookout\.config\.yaml:1: host: expected text; put quotes around numbers/],
  ['models: [a, 1]', /^lookout\.config\.yaml:1: models: expected text; /],
  ['models: { a: 1 }', /^lookout\.config\.yaml:1: models: expected a list$/],
  ['drain_seconds: -1', /^lookout\.config\.yaml:1: drain_seconds: expected a number of seconds$/],
  ['rate_limits: { chat: 1.5 }', /^lookout\.config\.yaml:1: rate_limits: expected whole numbers of requests/],
  ['rate_limits: [chat]', /^lookout\.config\.yaml:1: rate_limits: expected on, off or limits such as chat=600/],
  ['a: 1\nrate_limits:\n  chat: 1', /^lookout\.config\.yaml:1: there is no setting 'a'/],
  [
    '# limits\nrate_limits:\n  fly: 1',
    /^lookout\.config\.yaml:2: rate_limits: expected on, off or limits such as chat=600/,
  ],
  ['cache_dir: cache', /^lookout\.config\.yaml:1: cache_dir: expected an absolute path$/],
  ['database_url: mysql://a', /^lookout\.config\.yaml:1: database_url: expected an address that begins with postgres:/],
  ...[
    ...['https://a.org/path', 'app://obsidian.md/', 'app:', 'App://a', 'example.org', 'null'],
    ...['chrome-extension://*', 'https://*.a.org'],
  ].map((origin): [string, RegExp] => [
    `cors_origins: ['${origin}']`,
    /^lookout\.config\.yaml:1: cors_origins: expected comma-separated origins/,
  ]),
])('names the line at fault: %j', (text, message) => {
  expect(() => read(text)).toThrow(ConfigError)
  expect(() => read(text)).toThrow(message)
})

test('no text is anything but settings or one line of complaint', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom(...'port: 0\n-[]{},#"\'&*!|>%@`', 'h') }), (text) => {
      try {
        read(text)
      } catch (error) {
        expect(error).toBeInstanceOf(ConfigError)
        expect((error as Error).message).toMatch(/^lookout\.config\.yaml:\d+: [^\n]+$/)
      }
    }),
  )
})
