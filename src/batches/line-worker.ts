/** Reads long lines of inputs away from the event loop. */
import { type InputLine, readInputLine } from './input-line.ts'

export interface LineTask {
  readonly bytes: Uint8Array
  readonly endpoint: string
}

export default function read({ bytes, endpoint }: LineTask): InputLine {
  // A buffer arrives as plain bytes.
  return readInputLine(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), endpoint)
}
