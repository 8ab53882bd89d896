import { expect, test } from 'vitest'
import { ConfigError, readConfig } from './config.ts'

test('has a default for everything', () => {
  const config = readConfig({})
  expect(config).toMatchObject({ host: '127.0.0.1', port: 8080, apiKey: null, rateLimits: {}, logLevel: 'info' })
  expect(config).toMatchObject({ compatibility: 'contract', modelMemoryBytes: null, queueLength: 128 })
  expect(config).toMatchObject({ drainSeconds: 30, metrics: null })
  expect(config.modelCards[0]).toMatch(/models.lookout-nano.card\.json$/)
})

test('reads every setting, and takes an empty one as not set', () => {
  const config = readConfig({
    LOOKOUT_HOST: '0.0.0.0',
    LOOKOUT_PORT: '0',
    LOOKOUT_API_KEY: 'secret',
    LOOKOUT_DATA_DIR: '/srv/lookout',
    LOOKOUT_RATE_LIMITS: 'off',
    LOOKOUT_LOG_LEVEL: '',
    LOOKOUT_COMPATIBILITY: 'openai',
    LOOKOUT_MEDIA_HOSTS: 'pictures.local:9000, 10.0.0.7',
    LOOKOUT_MODEL_CARD: '/srv/first/card.json',
    LOOKOUT_MODELS: '/srv/models, /srv/other/card.json,',
    LOOKOUT_ALIASES: 'gpt-4o = service-mk1.5, a=b=c',
    LOOKOUT_MODEL_MEMORY: '1.5',
    LOOKOUT_PREFIX_CACHE: '512',
    LOOKOUT_ENCODER_CACHE: '0',
    LOOKOUT_QUEUE_LENGTH: '16',
    LOOKOUT_DRAIN_SECONDS: '120',
    LOOKOUT_METRICS_PORT: '9464',
  })
  expect(config).toMatchObject({
    host: '0.0.0.0',
    port: 0,
    apiKey: 'secret',
    dataDirectory: '/srv/lookout',
    rateLimits: null,
    logLevel: 'info',
    compatibility: 'openai',
    mediaHosts: ['pictures.local:9000', '10.0.0.7'],
    modelCards: ['/srv/first/card.json', '/srv/models', '/srv/other/card.json'],
    aliases: { 'gpt-4o': 'service-mk1.5', a: 'b=c' },
    modelMemoryBytes: 1.5 * 2 ** 30,
    caches: { prefixCacheBytes: 2 ** 29, encoderCacheBytes: 0, memoryLimitBytes: 1.5 * 2 ** 30 },
    queueLength: 16,
    drainSeconds: 120,
    metrics: { host: '127.0.0.1', port: 9464 },
  })
})

test.each(['on', 'ON', 'true', 'True', '1', 'yes'])('%s switches on', (text) => {
  const config = readConfig({ LOOKOUT_OLLAMA: text, LOOKOUT_DOCS: text, LOOKOUT_RATE_LIMITS: text })
  expect([config.ollama, config.docs, config.rateLimits]).toEqual([true, true, readConfig({}).rateLimits])
})

test.each(['off', 'OFF', 'false', 'False', '0', 'no'])('%s switches off', (text) => {
  const config = readConfig({ LOOKOUT_STUDIO: text, LOOKOUT_DOCS: text, LOOKOUT_RATE_LIMITS: text })
  expect([config.studio, config.docs, config.rateLimits]).toEqual([false, false, null])
})

test.each([
  ['LOOKOUT_STUDIO', 'maybe'],
  ['LOOKOUT_OLLAMA', '2'],
  ['LOOKOUT_PORT', '80x'],
  ['LOOKOUT_PORT', '70000'],
  ['LOOKOUT_PORT', '-1'],
  ['LOOKOUT_API_KEY', 'two words'],
  ['LOOKOUT_RATE_LIMITS', 'maybe'],
  ['LOOKOUT_RATE_LIMITS', 'chat=1,chat=2'],
  ['LOOKOUT_ALIASES', 'gpt-4o'],
  ['LOOKOUT_ALIASES', '=service-mk1.5'],
  ['LOOKOUT_ALIASES', 'a=b,a=c'],
  ['LOOKOUT_LOG_LEVEL', 'loud'],
  ['LOOKOUT_COMPATIBILITY', 'mostly'],
  ['LOOKOUT_MODEL_MEMORY', '4G'],
  ['LOOKOUT_PREFIX_CACHE', '1G'],
  ['LOOKOUT_MODEL_MEMORY', '0'],
  ['LOOKOUT_QUEUE_LENGTH', '0'],
  ['LOOKOUT_QUEUE_LENGTH', 'long'],
  ['LOOKOUT_CHAT_SECONDS', '0'],
  ['LOOKOUT_DRAIN_SECONDS', '-1'],
  ['LOOKOUT_HOST', 'http://0.0.0.0'],
  ['LOOKOUT_HOST', 'localhost:8080'],
  ['LOOKOUT_METRICS_HOST', '[::1]:9464'],
  ['LOOKOUT_WEBHOOK_HOSTS', 'hooks.local/path'],
  ['LOOKOUT_CAMERA_HOSTS', 'rtsp://cam'],
  ['LOOKOUT_CAMERA_HOSTS', '192.168.1.0/99'],
  ['LOOKOUT_CAMERA_HOSTS', 'cam/24'],
  ['LOOKOUT_BLOBS', 's3://'],
  ['LOOKOUT_BLOBS', 's3:bucket'],
  ['LOOKOUT_BLOBS', 'S3://bucket'],
  ['LOOKOUT_BLOBS', 's3://bucket?endpoint=minio:9000'],
  ['LOOKOUT_BLOBS', 's3://bucket?end_point=http://minio:9000'],
  ['LOOKOUT_METRICS_PORT', '8080'],
  ['LOOKOUT_METRICS_PORT', 'on'],
])('names the setting at fault: %s=%s', (name, value) => {
  expect(() => readConfig({ [name]: value })).toThrow(ConfigError)
  expect(() => readConfig({ [name]: value })).toThrow(new RegExp(`^${name}: .+$`))
})

test.each([
  'http://minio:9000',
  'minio:99999',
  'minio:0',
  'minio:',
  '10.0.0.0/8',
  '*.local',
  'a@b',
  '300.1.1.1',
  '[::1',
  'fe80::1%eth0',
])('names the setting whose host is invalid: %s', (host) => {
  for (const name of ['LOOKOUT_MEDIA_HOSTS', 'LOOKOUT_WEBHOOK_HOSTS']) {
    expect(() => readConfig({ [name]: `minio, ${host}` })).toThrow(`${name}: expected hosts`)
  }
})

test('takes hosts as names and addresses, with ports and as networks of cameras', () => {
  const hosts = ['minio', 'minio:9000', 'a_b.local', '10.0.0.7:80', '[::1]:80', '[fe80::1]', 'fe80::1', 'bücher.de']
  const networks = ['192.168.1.0/24', '10.0/8', 'fd00::/8']
  const config = readConfig({
    LOOKOUT_HOST: '[::1]',
    LOOKOUT_MEDIA_HOSTS: hosts.join(),
    LOOKOUT_CAMERA_HOSTS: [...hosts, ...networks].join(),
    LOOKOUT_BLOBS: 's3://bucket/a/b?endpoint=http://minio:9000&region=eu',
  })
  expect(config).toMatchObject({ host: '::1', mediaHosts: hosts, cameraHosts: [...hosts, ...networks] })
  expect(config.blobs).toMatch(/^s3:/)
})

test('says which characters of a password an address cannot have', () => {
  for (const password of ['a/b', 'a#b', 'a?b']) {
    expect(() => readConfig({ DATABASE_URL: `postgres://lookout:${password}@db/lookout` })).toThrow(
      /^DATABASE_URL: expected a valid host and port; in a user or a password, write \/ as %2F/,
    )
  }
  expect(readConfig({ DATABASE_URL: '\npostgres://db/lookout\n' }).databaseUrl).toContain('postgres://db/lookout')
  const cameras = JSON.stringify([{ name: 'a', url: 'rtsp://admin:50%off@c/live' }])
  expect(() => readConfig({ LOOKOUT_CAMERAS: cameras })).toThrow(/^LOOKOUT_CAMERAS: camera 1, url: .* as %25$/)
})

test('cameras are spoken to as their addresses say, unless a type is given', () => {
  const urls = ['rtsps://c/live', 'https://c/video', 'http://c/now.JPG', 'http://c/index.m3u8']
  const cameras = urls.map((url, at) => ({ name: `c${at}`, url }))
  const typed = { name: 'typed', url: 'http://c/now.jpg', type: 'mjpeg' }
  const read = (list: object[]) => readConfig({ LOOKOUT_CAMERAS: JSON.stringify(list) }).cameras
  expect(read([...cameras, typed]).map(({ type }) => type)).toEqual(['rtsp', 'mjpeg', 'jpeg', 'hls', 'mjpeg'])
  for (const url of ['ftp://c/live', 'c/live', 'rtsp://c/live']) {
    expect(() => read([{ ...typed, url }])).toThrow(/camera 1, url: expected an address/)
  }
  expect(() => read([{ ...typed, url: 'rtsp://c:99999/' }])).toThrow(/camera 1, url: expected a valid host and/)
})
