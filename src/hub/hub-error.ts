/** What keeps a model from being fetched, added or removed; the message is a sentence for the user that says what to do. */
export class HubError extends Error {
  override readonly name: string = 'HubError'
}

/** The disk has no room. */
export class FullDiskError extends HubError {
  override readonly name = 'FullDiskError'
}
