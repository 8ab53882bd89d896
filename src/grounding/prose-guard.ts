const NAMES = ['point_box', 'point', 'polygon', 'clip', 'track', 'collection']

/** Matches the start of a tag of the contract's markup; captures the slash of a closing tag, and the name. */
export const TAG = /^<(\/?)(point_box|point|polygon|clip|track|collection)(?=[\s/>])/i
const TAGS = /<(?=\/?(?:point_box|point|polygon|clip|track|collection)[\s/>])/gi
const NAME_START = /<\/?([a-z_]*)$/i

/** Whether the text ends inside a possible tag name. */
export function endsInName(text: string): boolean {
  const start = NAME_START.exec(text)?.[1]?.toLowerCase()
  return start !== undefined && NAMES.some((name) => name.startsWith(start))
}

/** Passes prose through and escapes markup tags in it, so that clients do not read them as annotations. */
export class ProseGuard {
  #held = ''

  push(text: string): string {
    const all = (this.#held + text).replaceAll(TAGS, '&lt;')
    this.#held = endsInName(all) ? all.slice(all.lastIndexOf('<')) : ''
    return all.slice(0, all.length - this.#held.length)
  }

  /** Returns the text held back. Call it before anything but prose follows. */
  flush(): string {
    const held = this.#held
    this.#held = ''
    return held
  }
}
