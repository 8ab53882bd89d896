import type koffi from 'koffi'
import type { LibraryHandle, TypeObject } from 'koffi'

type CType = string | TypeObject | ReturnType<typeof koffi.out>

/** Names a C function and the TypeScript signature `F` that its C types amount to. */
export type Declare = <F>(name: string, result: string | TypeObject, args: CType[]) => F

/** The same function on a thread of its own; what its arguments point to must stay as it is until it returns. */
export function inBackground<Args extends unknown[], Result>(
  native: (...args: Args) => Result,
): (...args: Args) => Promise<Result> {
  const call = (native as unknown as { async: (...args: unknown[]) => void }).async
  return (...args) =>
    new Promise((resolve, reject) => {
      call(...args, (error: Error | null, result: Result) => (error ? reject(error) : resolve(result)))
    })
}

export function declareIn(library: LibraryHandle): Declare {
  return <F>(name: string, result: string | TypeObject, args: CType[]) => library.func(name, result, args) as F
}
