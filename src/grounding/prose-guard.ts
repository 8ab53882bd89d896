const NAMES = ['point_box', 'point', 'polygon', 'clip', 'track', 'collection']

/** The beginning of a tag of the contract's markup: slash of a closing tag, name. */
export const TAG = /^<(\/?)(point_box|point|polygon|clip|track|collection)(?=[\s/>])/i
const TAGS = /<(?=\/?(?:point_box|point|polygon|clip|track|collection)[\s/>])/gi
const NAME_START = /<\/?([a-z_]*)$/i

/** Whether the text ends within what may become the name of a tag. */
export function endsInName(text: string): boolean {
  const start = NAME_START.exec(text)?.[1]?.toLowerCase()
  return start !== undefined && NAMES.some((name) => name.startsWith(start))
}

/** Passes prose on. A tag in it that is no annotation is written so that nobody takes it for one. */
export class ProseGuard {
  #held = ''

  push(text: string): string {
    const all = (this.#held + text).replaceAll(TAGS, '&lt;')
    this.#held = endsInName(all) ? all.slice(all.lastIndexOf('<')) : ''
    return all.slice(0, all.length - this.#held.length)
  }

  /** What was held back; to be called where something else than prose follows. */
  flush(): string {
    const held = this.#held
    this.#held = ''
    return held
  }
}
