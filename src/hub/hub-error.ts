/** What keeps a model from being fetched, added or removed; the message is a sentence for the user that says what to do. */
export class HubError extends Error {
  override readonly name: string = 'HubError'
  /** The same without paths of this machine, for clients. */
  readonly told: string

  /** @param options.told in place of a message that has paths. */
  constructor(message: string, options: ErrorOptions & { readonly told?: string } = {}) {
    super(message, options)
    this.told = options.told ?? message
  }
}

/** The disk has no room. */
export class FullDiskError extends HubError {
  override readonly name = 'FullDiskError'
}
