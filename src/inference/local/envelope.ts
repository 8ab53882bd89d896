import { Deserializer, Serializer } from 'node:v8'

declare module 'node:v8' {
  interface Serializer {
    /** Missing from Node's types. Makes the serializer call `_writeHostObject` for typed arrays. */
    _setTreatArrayBufferViewsAsHostObjects(flag: boolean): void
  }
}

/**
 * A value on its way to the other process. Node reads messages in a callback of its own, where an error ends the
 * process. An envelope is read later, where the error can be caught.
 */
export interface Envelope {
  /** The value as a structured clone, with its index in `views` in place of each view. */
  readonly body: Uint8Array
  /** Pixels and samples. Only the channel copies them. */
  readonly views: readonly NodeJS.ArrayBufferView[]
}

/** @throws Error for a value that cannot be sent, such as one that is nested too deep. */
export function pack(value: unknown): Envelope {
  const writer = new Writer()
  writer.writeHeader()
  writer.writeValue(value)
  return { body: writer.releaseBuffer(), views: writer.views }
}

/** @throws Error for a malformed envelope. */
export function unpack<T>({ body, views }: Envelope): T {
  const reader = new Reader(body, views)
  reader.readHeader()
  return reader.readValue() as T
}

class Writer extends Serializer {
  readonly views: NodeJS.ArrayBufferView[] = []

  constructor() {
    super()
    this._setTreatArrayBufferViewsAsHostObjects(true)
  }

  _writeHostObject(view: NodeJS.ArrayBufferView): void {
    this.writeUint32(this.views.push(view) - 1)
  }
}

class Reader extends Deserializer {
  readonly #views: readonly NodeJS.ArrayBufferView[]

  constructor(body: Uint8Array, views: readonly NodeJS.ArrayBufferView[]) {
    super(body)
    this.#views = views
  }

  _readHostObject(): ArrayBufferView {
    const view = this.#views[this.readUint32()]
    if (view === undefined) throw new Error('The envelope refers to a view that it does not contain.')
    return view
  }
}
