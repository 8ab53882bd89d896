/** A card that cannot be used; the message is one line that names the card's file and the field. */
export class CardError extends Error {
  override readonly name = 'CardError'

  /** @param field path in the card, e.g. `serves[0].id`; empty for the card as a whole. */
  constructor(file: string, field: string, message: string, options?: ErrorOptions) {
    super(`Model card ${file}: ${field === '' ? '' : `${field}: `}${message}`, options)
  }
}
