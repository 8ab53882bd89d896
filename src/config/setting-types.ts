import { isIP } from 'node:net'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import ipaddr from 'ipaddr.js'
import { z } from 'zod'
import { booleanOf } from './boolean-text.ts'

/*
 * The types of settings. The environment has only text, which is parsed to the type. The file may hold a value of the
 * type itself, or the same text.
 */

/** @param expected the end of the error message, after `expected` */
export function number(expected: string, { min = 0, max, whole = false }: NumberRange) {
  const message = `expected ${expected}`
  return z.preprocess(
    (given) => (typeof given === 'string' && DECIMAL.test(given) ? Number(given) : given),
    z.number(message).refine((value) => value >= min && value <= max && (!whole || Number.isInteger(value)), message),
  )
}

export interface NumberRange {
  readonly min?: number
  readonly max: number
  readonly whole?: boolean
}

const DECIMAL = /^\d+(\.\d+)?$/

export function port() {
  return number('a port number', { max: 65_535, whole: true })
}

export function text() {
  return z.string('expected text; put quotes around numbers, true and false')
}

/** A file or a folder. */
export function path() {
  return z.preprocess((given) => (typeof given === 'string' ? withHome(given) : given), text())
}

/** An absolute path. Shells do not expand a quoted ~, and nothing expands it in files. */
export function withHome(given: string): string {
  return resolve(given === '~' || given.startsWith('~/') ? join(homedir(), given.slice(1)) : given)
}

/** In text, items are separated by commas. */
export function list(item: z.ZodType<string> = text()) {
  return z.preprocess(
    (given) => (typeof given === 'string' ? splitList(given) : given),
    z.array(item, 'expected a list'),
  )
}

/** An address or host name to listen on; IPv6 addresses may have brackets, as in URLs. */
export function listeningHost() {
  return z.preprocess(
    (given) => (typeof given === 'string' ? given.replace(/^\[(.+)\]$/, '$1') : given),
    text().refine(
      (given) => isIP(given) !== 0 || (NAME.test(given) && isHost(given)),
      'expected an address or a name without http:// and port, such as 0.0.0.0 or ::1',
    ),
  )
}

/**
 * Hosts that may be contacted, each `host` or `host:port`.
 * @param networks whether networks are also allowed, as CIDR.
 */
export function hosts({ networks = false } = {}) {
  const isOne = (given: string) =>
    isHost(isIP(given) === 6 ? `[${given}]` : given) || (networks && ipaddr.isValidCIDR(given))
  return list().refine(
    (given) => given.every(isOne),
    `expected hosts (host or host:port, without http://)${networks ? ' and networks (192.168.1.0/24)' : ''}`,
  )
}

const NAME = /^[^:]+$/

function isHost(given: string): boolean {
  // A URL allows more: a path, a login, and stars in the name.
  return /^[^\s/?#@*\\]+$/.test(given) && !/:0*$/.test(given) && URL.canParse(`http://${given}`)
}

/** Matches addresses, which are not folders. */
const ADDRESS = /^s3:|:\/\//i

/** A place for files: a folder, or `s3://bucket/prefix` with its options in the query. */
export function blobPlace() {
  const isBucket = (given: string) => {
    if (!URL.canParse(given)) return false
    const { hostname, searchParams } = new URL(given)
    const endpoint = searchParams.get('endpoint')
    return (
      given.startsWith('s3://') &&
      hostname !== '' &&
      [...searchParams.keys()].every((name) => ['endpoint', 'region', 'young', 'silence'].includes(name)) &&
      (endpoint === null || address(['http:', 'https:']).safeParse(endpoint).success)
    )
  }
  return z.preprocess(
    (given) => (typeof given === 'string' && !ADDRESS.test(given) ? withHome(given) : given),
    text().refine(
      (given) => !ADDRESS.test(given) || isBucket(given),
      'expected a folder or s3://bucket/prefix, with nothing but endpoint=https://... and region=... after a ?',
    ),
  )
}

export function choice<const Values extends readonly string[]>(values: Values) {
  return z.enum(values, `expected ${values.slice(0, -1).join(', ')} or ${values.at(-1)}`)
}

export function onOff() {
  return z.preprocess(
    (given) => {
      const value = switched(given)
      return value === null ? given : value ? 'on' : 'off'
    },
    choice(['on', 'off']),
  )
}

/** Parses "on" or "off" in all usual spellings; null for anything else. */
export function switched(given: unknown): boolean | null {
  return typeof given === 'boolean' ? given : typeof given === 'string' ? booleanOf(given) : null
}

export function address(protocols: readonly string[]) {
  const begins = (given: string) =>
    protocols.some((protocol) => given.trimStart().toLowerCase().startsWith(`${protocol}//`))
  return text()
    .refine(begins, `expected an address that begins with ${protocols.map((name) => `${name}//`).join(' or ')}`)
    .refine(
      (given) => !begins(given) || URL.canParse(given),
      'expected a valid host and port; in a user or a password, write / as %2F, # as %23 and ? as %3F',
    )
}

/**
 * Parses `chat=600,models=60` to an object. A value that is not text, or has a key twice, is left unchanged, so that
 * the object's schema rejects it.
 */
export function parsePairs(given: unknown): unknown {
  if (typeof given !== 'string') return given
  const pairs = splitList(given).map((item) => {
    const [key = '', ...value] = item.split('=')
    return [key.trim(), value.join('=').trim()]
  })
  return new Set(pairs.map(([key]) => key)).size === pairs.length ? Object.fromEntries(pairs) : given
}

function splitList(given: string): string[] {
  return given
    .split(',')
    .map((item) => item.trim())
    .filter(Boolean)
}
