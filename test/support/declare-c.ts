import type koffi from 'koffi'
import type { LibraryHandle, TypeObject } from 'koffi'

type CType = string | TypeObject | ReturnType<typeof koffi.out>

/** Declares a C function by its C types, with the corresponding TypeScript signature `F`. */
export type Declare = <F>(name: string, result: string | TypeObject, args: CType[]) => F

export function declareIn(library: LibraryHandle): Declare {
  return <F>(name: string, result: string | TypeObject, args: CType[]) => library.func(name, result, args) as F
}
