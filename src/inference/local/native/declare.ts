import type { LibraryHandle, TypeObject } from 'koffi'
import { type NativeBatch, type NativeInputPart, type Pointer, type StructValue, structTypes } from './structs.ts'

/** The TypeScript types of C types, which have names of one word here. A `?` after one allows NULL. */
interface Types {
  void: undefined
  bool: boolean
  int: number
  uint8: number
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
  uint64s: BigUint64Array
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

type TypeOf<Type, Struct> = Type extends `${infer Named}?`
  ? TypeOf<Named, Struct> | null
  : Type extends keyof Types
    ? Types[Type]
    : Type extends Struct
      ? StructValue
      : never

type Trimmed<Text> = Text extends ` ${infer Rest}` | `\n${infer Rest}` ? Trimmed<Rest> : Text

type Arguments<List, Struct> =
  Trimmed<List> extends `${infer First},${infer Rest}`
    ? [...Arguments<First, Struct>, ...Arguments<Rest, Struct>]
    : Trimmed<List> extends `${infer Type} ${string}`
      ? [TypeOf<Type, Struct>]
      : []

type Declared<Prototype, Struct> = Prototype extends `${infer Result} ${string}(${infer List})`
  ? (...args: Arguments<List, Struct>) => TypeOf<Result, Struct>
  : never

/** Declares a C function by its prototype, such as `pointer? find(pointer list, int32 key)`. */
export type Declare<Struct extends string = never> = <const Prototype extends string>(
  prototype: Prototype,
) => Declared<Prototype, Struct>

/** @param structs further structs that are passed by value, by the names that prototypes use. */
export function declareIn<Struct extends string = never>(
  library: LibraryHandle,
  structs?: Readonly<Record<Struct, TypeObject>>,
): Declare<Struct> {
  const koffiTypes: Readonly<Record<string, TypeObject | undefined>> = { ...structTypes, ...structs }
  const koffiTypeOf = (type: string) => {
    const name = type.replace('?', '')
    return koffiTypes[name] ?? (/^pointer$|s$/.test(name) ? 'void *' : name)
  }
  return <Prototype extends string>(prototype: Prototype) => {
    const [, result, name, list] = /^(\S+) (\w+)\((.*)\)$/s.exec(prototype)!
    const types = [...list!.matchAll(/([\w?]+) \w+/g)].map(([, type]) => koffiTypeOf(type!))
    return library.func(name!, koffiTypeOf(result!), types) as unknown as Declared<Prototype, Struct>
  }
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
