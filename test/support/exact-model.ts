import type { Context } from '../../src/inference/local/native/context.ts'
import { loadNativeLibraries, type NativeLibraries } from '../../src/inference/local/native/libraries.ts'
import { locateNativeLibraries } from '../../src/inference/local/native/native-paths.ts'
import type { EngineSettings } from '../../src/inference/local/protocol.ts'
import { LoadedModel } from '../../src/inference/local/scheduler/loaded-model.ts'
import { shippedSettings } from './shipped-settings.ts'

/** The shipped model with logits that are made up, so that replies do not depend on how batches were put together. */
export async function loadExact(
  settings: Partial<EngineSettings>,
  libraries: NativeLibraries = loadNativeLibraries(locateNativeLibraries()),
): Promise<LoadedModel> {
  const repetition = { blockTokens: 8, repeats: 8, tokens: 48 }
  const model = new LoadedModel(libraries, await shippedSettings({ repetition, speculation: true, ...settings }))
  const { vocabularySize } = model.model
  const tokens = Array.from({ length: vocabularySize }, (_, token) => token)
  makeExact(model.context, vocabularySize, tokens.find((token) => model.model.isEndOfGeneration(token))!)
  return model
}

/**
 * Has logits depend on nothing but the tokens that a row sees, to the last bit: those of the model differ a little between
 * batches, and two tokens may be as likely as each other. It keeps its own account of what is in the KV cache, and most
 * texts go on as they have done before.
 */
function makeExact(context: Context, vocabulary: number, end: number): void {
  const { batch } = context
  const cells = new Map<number, Map<number, number>>()
  const cellsOf = (sequence: number) => cells.get(sequence) ?? new Map<number, number>()
  const rows: { readonly row: number; readonly sequence: number; readonly position: number }[] = []
  const add = batch.add.bind(batch)
  batch.add = (token, position, sequence, output) => {
    const own = cellsOf(sequence)
    if (own.has(position)) throw new Error(`Sequence ${sequence} has a token at ${position} already.`)
    cells.set(sequence, own.set(position, token))
    const row = add(token, position, sequence, output)
    if (output) rows.push({ row, sequence, position })
    return row
  }
  const launch = context.launchBatch.bind(context)
  context.launchBatch = () => {
    launch()
    for (const { row, sequence, position } of rows.splice(0)) {
      const seen = Array.from({ length: position + 1 }, (_, at) => cellsOf(sequence).get(at)!)
      fill(context.logits(row), seen, vocabulary, end)
    }
  }
  const clear = context.clear.bind(context)
  context.clear = () => {
    clear()
    cells.clear()
  }
  const fork = context.forkSequence.bind(context)
  context.forkSequence = (source, target, to, from = 0) => {
    fork(source, target, to, from)
    const shared = [...cellsOf(source)].filter(([position]) => position >= from && position < to)
    cells.set(target, new Map([...cellsOf(target), ...shared]))
  }
  const remove = context.removeSequence.bind(context)
  context.removeSequence = (sequence, from = 0) => {
    remove(sequence, from)
    cells.set(sequence, new Map([...cellsOf(sequence)].filter(([position]) => position < from)))
  }
  const states = new WeakMap<Uint8Array, ReadonlyMap<number, number>>()
  const save = context.saveSequence.bind(context)
  context.saveSequence = (sequence) => {
    const state = save(sequence)
    states.set(state, new Map(cellsOf(sequence)))
    return state
  }
  const restore = context.restoreSequence.bind(context)
  context.restoreSequence = (sequence, state) => {
    restore(sequence, state)
    const saved = states.get(state)
    if (saved === undefined) throw new Error('This state was not saved here.')
    cells.set(sequence, new Map(saved))
  }
}

function fill(logits: Float32Array, seen: readonly number[], vocabulary: number, end: number): void {
  let hash = 1
  for (const token of seen) hash = Math.imul(hash ^ token, 0x9e3779b1) ^ (hash >>> 13)
  const noise = (key: number) => ((Math.imul(hash ^ key, 0x85ebca6b) >>> 8) & 0xffff) / 0xffff
  for (let token = 0; token < vocabulary; token++) logits[token] = 4 * noise(token)
  if (noise(-1) < 0.02) logits[end] = 12
  const [last, before] = [seen.at(-1), seen.at(-2)]
  for (let at = seen.length - 2; at > 0; at--) {
    if (seen[at] !== last || seen[at - 1] !== before) continue
    if (noise(-2) < 0.85) logits[seen[at + 1]!] = 9
    return
  }
}

/** Called when a step begins and when it has ended. */
export interface DeviceHooks {
  /** May throw: the step then fails, at its beginning or at its end. */
  readonly launched?: () => void
  readonly waited?: () => void
}

/**
 * Has a model look, while `work` runs, as if a device computed its steps after the call that begins them.
 * @throws Error when something touched the context between that call and the end of the step.
 */
export async function computesApart<T>(
  model: LoadedModel,
  work: () => T | Promise<T>,
  { launched, waited }: DeviceHooks = {},
): Promise<T> {
  const { context, compute } = model
  const touched: string[] = []
  let isBusy = false
  const own = new Map<string, PropertyDescriptor | undefined>()
  const wrap = (name: keyof Context, around: (call: () => unknown) => unknown) => {
    const original = context[name] as (...values: unknown[]) => unknown
    own.set(name, Object.getOwnPropertyDescriptor(context, name))
    const value = (...values: unknown[]) => around(() => original.apply(context, values))
    Object.defineProperty(context, name, { value, configurable: true, writable: true })
  }
  const others = ['forkSequence', 'removeSequence', 'saveSequence', 'restoreSequence', 'decodeEmbeddings'] as const
  for (const name of [...others, 'logits'] as const) {
    wrap(name, (call) => {
      if (isBusy) touched.push(name)
      return call()
    })
  }
  wrap('launchBatch', (call) => {
    if (isBusy) touched.push('launchBatch')
    call()
    launched?.()
    isBusy = true
  })
  wrap('wait', (call) => {
    isBusy = false
    call()
    waited?.()
  })
  Object.assign(model, { compute: { ...compute, leavesCpu: true } })
  try {
    const result = await work()
    if (touched.length === 0) return result
    throw new Error(`The context was touched while a step was computed: ${touched.join()}.`)
  } finally {
    Object.assign(model, { compute })
    for (const [name, descriptor] of own) {
      if (descriptor === undefined) Reflect.deleteProperty(context, name)
      else Object.defineProperty(context, name, descriptor)
    }
  }
}
