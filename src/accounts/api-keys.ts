import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { chmod, link, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Who a request is made for. Limits, quotas and caches are an organisation's. */
export interface Principal {
  readonly organisation: string
}

export interface ApiKeys {
  /** The key's owner; null for a key that nobody holds. */
  authenticate(key: string): Promise<Principal | null>
}

interface KeyRecord {
  readonly hash: Buffer
  readonly organisation: string
}

/** Keys known at start, kept as hashes only. */
export class FixedApiKeys implements ApiKeys {
  readonly #records: readonly KeyRecord[]

  constructor(keys: readonly { readonly key: string; readonly organisation: string }[]) {
    this.#records = keys.map(({ key, organisation }) => ({ hash: sha256(key), organisation }))
  }

  /** Compares with every key, in a time that does not depend on which one matches or where they differ. */
  async authenticate(key: string): Promise<Principal | null> {
    const hash = sha256(key)
    let owner: Principal | null = null
    for (const record of this.#records) {
      if (timingSafeEqual(record.hash, hash)) owner = { organisation: record.organisation }
    }
    return owner
  }
}

const KEY_FILE = 'api-key'
const KEY = /^lk-[0-9A-Za-z]{43}$/

/**
 * The server's first key, made on the first start and kept in the data directory, readable by its owner only.
 * @throws Error that names the file when it is there and holds no key.
 */
export async function keptApiKey(dataDirectory: string): Promise<string> {
  await mkdir(dataDirectory, { recursive: true, mode: 0o700 })
  const file = join(dataDirectory, KEY_FILE)
  const known = await readKey(file)
  if (known) return known

  // A link appears whole or not at all, so of two servers that start together both end up with the same key.
  const draft = `${file}.${randomBytes(6).toString('hex')}`
  await writeFile(draft, `${newApiKey()}\n`, { mode: 0o600, flag: 'wx' })
  try {
    await link(draft, file)
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error
  } finally {
    await rm(draft, { force: true })
  }
  return (await readKey(file))!
}

async function readKey(file: string): Promise<string | null> {
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null
    throw error
  }
  const key = text.trim()
  if (!KEY.test(key)) throw new Error(`${file} holds no API key; remove it to have a new one made`)
  await chmod(file, 0o600)
  return key
}

/** `lk-` and 256 random bits in 43 letters and digits. */
export function newApiKey(): string {
  const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
  let bits = BigInt(`0x${randomBytes(32).toString('hex')}`)
  let key = ''
  for (let i = 0; i < 43; i++) {
    key += digits[Number(bits % 62n)]
    bits /= 62n
  }
  return `lk-${key}`
}

function sha256(key: string): Buffer {
  return createHash('sha256').update(key).digest()
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}
