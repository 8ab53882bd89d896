export interface Target {
  readonly target: unknown
  /** Its path in the root. */
  readonly path: readonly (string | number)[]
}

/** The target of a JSON pointer; null if there is none. */
export function lookUp(root: unknown, pointer: string): Target | null {
  let target = root
  const path: (string | number)[] = []
  for (const part of pointer.split('/').slice(1)) {
    const key = decode(part).replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof target !== 'object' || target === null || !Object.hasOwn(target, key)) return null
    path.push(Array.isArray(target) ? Number(key) : key)
    target = (target as Record<string, unknown>)[key]
  }
  return { target, path }
}

/** Decodes a part of a pointer in a URL. */
export function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
