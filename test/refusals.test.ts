import { execFile } from 'node:child_process'
import { connect, type Socket } from 'node:net'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { TestAccounts } from './support/accounts.ts'
import { startTestServer, type TestServer } from './support/server.ts'

const run = promisify(execFile)
const python = await run('python3', ['--version']).then(
  () => true,
  () => false,
)

const MB = 1e6
const JSON_TYPE = 'application/json'
const FORM_TYPE = 'multipart/form-data; boundary=b'
const chat = '/v1/chat/completions'
const files = '/v1/files'

let server: TestServer
let accounts: TestAccounts
/** Keys with all scopes and with one, of an organisation that may make no requests, and one that is invalid. */
let keys: { good: string; files: string; inference: string; spent: string; wrong: string }

beforeAll(async () => {
  server = await startTestServer({ environment: { LOOKOUT_RATE_LIMITS: 'on' }, lingerSilenceMs: 30_000 })
  accounts = await TestAccounts.open()
  const requestsPerMinute = { chat: 1000, file_upload: 1000 }
  const { organisation } = await accounts.organisation({ requestsPerMinute })
  const [good, onlyFiles, onlyInference] = await Promise.all([
    accounts.accounts.createKey({ organisation }),
    accounts.accounts.createKey({ organisation, scopes: ['files'] }),
    accounts.accounts.createKey({ organisation, scopes: ['inference'] }),
  ])
  const spent = await accounts.organisation({ requestsPerMinute: { chat: 0, file_upload: 0 } })
  keys = {
    good: good.key,
    files: onlyFiles.key,
    inference: onlyInference.key,
    spent: spent.key,
    wrong: 'lk-wrong',
  }
})
afterAll(async () => {
  await server?.close()
  await accounts?.close()
})

type Case = readonly [status: number, path: string, key: keyof typeof keys, type: string, bytes: number]
/** Each refusal in a size that no buffer holds, and one in other sizes: what reads the rest does not know why it was refused. */
const refusals: readonly Case[] = [
  [401, chat, 'wrong', JSON_TYPE, 1 * MB],
  [401, chat, 'wrong', JSON_TYPE, 20 * MB],
  [401, files, 'wrong', FORM_TYPE, 20 * MB],
  [403, chat, 'files', JSON_TYPE, 20 * MB],
  [403, files, 'inference', FORM_TYPE, 20 * MB],
  [429, chat, 'spent', JSON_TYPE, 20 * MB],
  [429, files, 'spent', FORM_TYPE, 20 * MB],
  [413, chat, 'good', JSON_TYPE, 20 * 2 ** 20 + 1],
  [413, files, 'good', FORM_TYPE, 220 * MB],
]
const large: readonly Case[] = [[401, chat, 'wrong', JSON_TYPE, 150 * MB]]
const withoutLength: Case = [411, files, 'good', FORM_TYPE, 150 * MB]

describe('a client that sends the whole body before it reads gets', () => {
  test.each([...refusals, ...large])('%i from %s (key %s, %s, %i bytes)', async (status, path, key, type, bytes) => {
    for (const connection of bytes < 200 * MB ? ['close', 'keep-alive'] : ['keep-alive']) {
      const head = `POST ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${keys[key]}\r\nContent-Type: ${type}\r\nContent-Length: ${bytes}\r\nConnection: ${connection}\r\n\r\n`
      expect(await sendAllThenRead(head, bytes)).toMatch(
        new RegExp(`^HTTP/1\\.1 ${status} [\\s\\S]*"error":\\{"message"`),
      )
    }
  })

  // A Python process each, so only the largest: the sockets above get all refusals.
  test.skipIf(!python).each([...large, withoutLength])(
    `%i from %s (key %s, %s, %i bytes), with Python’s clients${python ? '' : ' (python3 is not installed here)'}`,
    async (status, path, key, type, bytes) => {
      for (const client of status === 411 ? ['chunked'] : ['urllib', 'http.client']) {
        const args = ['test/fixtures/refused.py', client, server.url + path, keys[key], type, String(bytes)]
        const { stdout } = await run('python3', args)
        expect([client, stdout]).toEqual([client, expect.stringMatching(new RegExp(`^${status} \\w+\n$`))])
      }
    },
  )
})

test('the connection is closed when the client stops sending', async () => {
  const impatient = await startTestServer({ lingerSilenceMs: 2000 })
  onTestFinished(() => impatient.close())
  for (const connection of ['close', 'keep-alive']) {
    const socket = open(impatient)
    socket.write(
      `POST ${chat} HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\nConnection: ${connection}\r\n\r\n{"model": `,
    )
    let answer = ''
    socket.on('data', (piece) => {
      answer += piece
    })
    await closing(socket)
    expect(answer).toMatch(/^HTTP\/1\.1 401 /)
  }
})

test('a body larger than any request may have is not read to its end', async () => {
  const socket = open()
  const bytes = 2 ** 40
  socket.write(`POST ${chat} HTTP/1.1\r\nHost: a\r\nContent-Length: ${bytes}\r\n\r\n`)
  const piece = Buffer.alloc(2 ** 20)
  let sent = 0
  const closed = closing(socket)
  const send = () => {
    let takesMore = !socket.destroyed
    while (takesMore) {
      takesMore = socket.write(piece)
      sent += piece.length
    }
  }
  socket.on('drain', send)
  send()
  await closed
  expect(sent).toBeGreaterThan(200 * 2 ** 20)
})

function open({ url } = server) {
  const { hostname, port } = new URL(url)
  // A connection that is cut off is reset; the tests check what was read before.
  return connect(Number(port), hostname).on('error', () => {})
}

function closing(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.once('close', () => resolve()))
}

/** Sends a body of `bytes` bytes, then reads the response. @throws Error when the connection breaks first. */
async function sendAllThenRead(head: string, bytes: number): Promise<string> {
  const socket = open().pause()
  const broken = closing(socket).then(() => {
    throw new Error('The connection was closed before all was sent')
  })
  broken.catch(() => {})
  const write = (piece: string | Buffer) =>
    Promise.race([new Promise((resolve) => socket.write(piece, resolve)), broken])
  await write(head)
  const piece = Buffer.alloc(2 ** 20, 'x')
  for (let left = bytes; left > 0; left -= piece.length)
    await write(left < piece.length ? piece.subarray(0, left) : piece)
  let answer = ''
  const whole = new Promise<void>((resolve) => {
    socket.on('data', (data) => {
      answer += data
      if (/\}\}$/.test(answer)) resolve()
    })
    socket.on('close', () => resolve())
  })
  socket.resume()
  await whole
  socket.destroy()
  return answer
}
