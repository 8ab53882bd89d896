/** An error in an input. Its message is sent to the client, so it must describe nothing but the input. */
export class InvalidMedia extends Error {
  readonly code: InvalidMediaCode | null

  constructor(message: string, code: InvalidMediaCode | null = null) {
    super(message)
    this.code = code
  }
}

/** The system refuses to start a thread. The input is not at fault, and a later try may succeed. */
export class NoThread extends Error {}

export type InvalidMediaCode = 'audio_token_limit_exceeded'
