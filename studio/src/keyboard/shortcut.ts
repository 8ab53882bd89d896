/** What some keys do, for the list of them. */
export interface Shortcut {
  readonly keys: readonly string[]
  readonly what: string
}
