/** Why a model cannot be fetched, added or removed. The message is a sentence for the user that says what to do. */
export class HubError extends Error {
  override readonly name: string = 'HubError'
  /** The message for clients, without paths of this machine. */
  readonly told: string

  /** @param options.told replaces a message that has paths. */
  constructor(message: string, options: ErrorOptions & { readonly told?: string } = {}) {
    super(message, options)
    this.told = options.told ?? message
  }
}

/** The disk has no room. */
export class FullDiskError extends HubError {
  override readonly name = 'FullDiskError'
}
