import type { LibraryHandle } from 'koffi'
import { type NativeBatch, type NativeInputPart, type Pointer, type StructValue, structTypes } from './structs.ts'

/** The TypeScript types of C types, which have names of one word here. A `?` after one allows NULL. */
interface Types {
  void: undefined
  bool: boolean
  int: number
  int32: number
  int64: number
  uint32: number
  size_t: number
  float: number
  double: number
  str: string
  pointer: Pointer
  bytes: Uint8Array
  int32s: Int32Array
  floats: Float32Array
  doubles: Float64Array
  /** Where the function writes a size. */
  out_size: [number]
  llama_model_params: StructValue
  llama_context_params: StructValue
  llama_batch: NativeBatch
  mtmd_context_params: StructValue
  mtmd_input_parts: NativeInputPart[]
}

type TypeOf<Type> = Type extends `${infer Named}?`
  ? TypeOf<Named> | null
  : Type extends keyof Types
    ? Types[Type]
    : never

type Trimmed<Text> = Text extends ` ${infer Rest}` | `\n${infer Rest}` ? Trimmed<Rest> : Text

type Arguments<List> =
  Trimmed<List> extends `${infer First},${infer Rest}`
    ? [...Arguments<First>, ...Arguments<Rest>]
    : Trimmed<List> extends `${infer Type} ${string}`
      ? [TypeOf<Type>]
      : []

type Declared<Prototype> = Prototype extends `${infer Result} ${string}(${infer List})`
  ? (...args: Arguments<List>) => TypeOf<Result>
  : never

/** Declares a C function by its prototype, such as `pointer? find(pointer list, int32 key)`. */
export type Declare = <const Prototype extends string>(prototype: Prototype) => Declared<Prototype>

export function declareIn(library: LibraryHandle): Declare {
  return <Prototype extends string>(prototype: Prototype) => {
    const [, result, name, list] = /^(\S+) (\w+)\((.*)\)$/s.exec(prototype)!
    const types = [...list!.matchAll(/([\w?]+) \w+/g)].map(([, type]) => koffiTypeOf(type!))
    return library.func(name!, koffiTypeOf(result!), types) as unknown as Declared<Prototype>
  }
}

function koffiTypeOf(type: string) {
  const name = type.replace('?', '')
  return structTypes[name] ?? (/^pointer$|s$/.test(name) ? 'void *' : name)
}

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
