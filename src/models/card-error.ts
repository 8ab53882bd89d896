/** A card that cannot be used; the message is one line that names the card's file and the field. */
export class CardError extends Error {
  override readonly name = 'CardError'
  /** The message for clients, without paths of this machine. */
  readonly told: string

  /**
   * @param field path in the card, e.g. `serves[0].id`; empty for the card as a whole.
   * @param options.told replaces a message that has paths.
   */
  constructor(file: string, field: string, message: string, options: ErrorOptions & { readonly told?: string } = {}) {
    const at = field === '' ? '' : `${field}: `
    super(`Model card ${file}: ${at}${message}`, options)
    this.told = `${at}${options.told ?? message}`
  }
}
