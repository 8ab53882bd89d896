const LONGEST_MESSAGE = 500

/** A constraint that this server cannot enforce. `path` leads from the constraint to the part at fault. */
export class UnsupportedConstraint extends Error {
  readonly path: readonly (string | number)[]

  constructor(message: string, path: readonly (string | number)[] = []) {
    // It may quote the client's text.
    super(message.length > LONGEST_MESSAGE ? `${message.slice(0, LONGEST_MESSAGE)}…` : message)
    this.path = path
  }
}

/** No value satisfies all parts of the constraint. */
export class Unsatisfiable extends UnsupportedConstraint {}
