import type koffi from 'koffi'
import type { LibraryHandle, TypeObject } from 'koffi'

type CType = string | TypeObject | ReturnType<typeof koffi.out>

/** Declares a C function by its C types, with the corresponding TypeScript signature `F`. */
export type Declare = <F>(name: string, result: string | TypeObject, args: CType[]) => F

/** The same function on another thread. Memory that its arguments point to must not change until it returns. */
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
