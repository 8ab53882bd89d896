export interface Target {
  readonly target: unknown
  /** Where in the root it stands. */
  readonly path: readonly (string | number)[]
}

/** What a JSON pointer stands for; null when it leads nowhere. */
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

/** A part of a pointer as it is written in an address. */
export function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
