const LONGEST_MESSAGE = 500

/** A constraint that this server cannot keep. `path` leads from the constraint to the part at fault. */
export class UnsupportedConstraint extends Error {
  readonly path: readonly (string | number)[]

  constructor(message: string, path: readonly (string | number)[] = []) {
    // It may quote what a client sent.
    super(message.length > LONGEST_MESSAGE ? `${message.slice(0, LONGEST_MESSAGE)}…` : message)
    this.path = path
  }
}

/** What the constraint asks for together, nothing satisfies. */
export class Unsatisfiable extends UnsupportedConstraint {}
