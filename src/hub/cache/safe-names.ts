import { HubError } from '../hub-error.ts'

/**
 * Whether a path that a server sent stays in the folder that it is joined to: names separated by slashes, none of which
 * is `.` or `..`, without backslashes, drives or control characters.
 */
export function isPlainSubpath(path: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the expression looks for control characters.
  if (/[\\\u0000-\u001f\u007f]/.test(path) || /^[a-z]:/i.test(path) || path.length > 1000) return false
  return path.split('/').every((name) => name !== '' && name !== '.' && name !== '..')
}

/** Whether this can be the id of a repository: an owner and a name. */
export function isRepositoryId(id: string): boolean {
  return /^[\w.-]{1,96}\/[\w.-]{1,96}$/.test(id) && id.split('/').every((name) => !/^\.|\.\./.test(name))
}

/** @throws HubError when the hub sent something other than a hash, which would become the name of a file. */
export function checkHash(text: unknown, pattern: RegExp, what: string): string {
  if (typeof text === 'string' && pattern.test(text)) return text
  throw new HubError(
    `The hub sent '${String(text).slice(0, 80)}' as ${what}; it is broken, or not a hub: check HF_ENDPOINT`,
  )
}

export const COMMIT = /^[0-9a-f]{40,64}$/
/** SHA-256, or git's SHA-1 of small files. */
export const BLOB = /^([0-9a-f]{64}|[0-9a-f]{40})$/

/** A folder name for any id: readable, and safe on every file system. */
export function folderName(id: string): string {
  const name = id
    .replace(/[/:]/g, '--')
    .replace(/[^\w.-]/g, '_')
    .replace(/^\.+/, '')
  return name.slice(0, 200) || 'model'
}
