import { Deserializer, Serializer } from 'node:v8'

declare module 'node:v8' {
  interface Serializer {
    /** Missing in the types; `_writeHostObject` is called for typed arrays then. */
    _setTreatArrayBufferViewsAsHostObjects(flag: boolean): void
  }
}

/**
 * A value on its way to the other process. The channel between the processes reads whole messages in a callback of its
 * own, where an error ends the process; what is packed is read where the error can be caught.
 */
export interface Envelope {
  /** The value as a structured clone, with the number of a view in place of each. */
  readonly body: Uint8Array
  /** Pixels and samples: they are copied once, by the channel. */
  readonly views: readonly ArrayBufferView[]
}

/** @throws Error for a value that no message can hold, such as one that is nested too deep. */
export function pack(value: unknown): Envelope {
  const writer = new Writer()
  writer.writeHeader()
  writer.writeValue(value)
  return { body: writer.releaseBuffer(), views: writer.views }
}

/** @throws Error for an envelope that holds no such value. */
export function unpack<T>({ body, views }: Envelope): T {
  const reader = new Reader(body, views)
  reader.readHeader()
  return reader.readValue() as T
}

class Writer extends Serializer {
  readonly views: ArrayBufferView[] = []

  constructor() {
    super()
    this._setTreatArrayBufferViewsAsHostObjects(true)
  }

  _writeHostObject(view: ArrayBufferView): void {
    this.writeUint32(this.views.push(view) - 1)
  }
}

class Reader extends Deserializer {
  readonly #views: readonly ArrayBufferView[]

  constructor(body: Uint8Array, views: readonly ArrayBufferView[]) {
    super(body)
    this.#views = views
  }

  _readHostObject(): ArrayBufferView {
    const view = this.#views[this.readUint32()]
    if (view === undefined) throw new Error('An envelope lacks a view.')
    return view
  }
}
