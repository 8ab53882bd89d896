import type { Pattern } from '../../src/inference/constraints/regex/pattern.ts'

/** The equivalent of `pattern` for JavaScript's own engine. It matches whole texts only. */
export function toRegExp(pattern: Pattern): RegExp {
  return new RegExp(`^(?:${sourceOf(pattern)})$`, 'u')
}

function sourceOf(pattern: Pattern): string {
  switch (pattern.type) {
    case 'character':
      return `[${pattern.set.map(([first, last]) => `${escaped(first)}-${escaped(last)}`).join('')}]`
    case 'sequence':
      return pattern.parts.map(sourceOf).join('')
    case 'choice':
      return `(?:${pattern.options.map(sourceOf).join('|')})`
    case 'repeat':
      return `(?:${sourceOf(pattern.part)}){${pattern.min},${pattern.max ?? ''}}`
  }
}

function escaped(codePoint: number): string {
  return `\\u{${codePoint.toString(16)}}`
}
