import { createHash, type Hash } from 'node:crypto'
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import type { NumericParts, Numerics } from '../../contract/engine.ts'
import type { Adapter } from '../native/adapter.ts'
import type { NativeLibraries } from '../native/libraries.ts'
import type { NativePaths } from '../native/native-paths.ts'
import type { EngineSettings } from '../protocol.ts'
import type { LoadedModel } from '../scheduler/loaded-model.ts'

/**
 * Samples of a weights file that are hashed, beside its first bytes: hashing all of 20 GB would take longer than loading it.
 */
const SAMPLES = 256
const SAMPLE_BYTES = 4096
const HEAD_BYTES = 2 ** 20
/** Hexadecimal digits of a hash that people compare. */
const DIGITS = 12

/** The loaded parts that numbers depend on. */
export interface Computing {
  readonly libraries: Pick<NativeLibraries, 'llama' | 'kernels'>
  /** Instruction sets that the kernels use, as ggml names them. */
  readonly features: readonly string[]
  readonly loaded: Pick<LoadedModel, 'offload'> & { readonly adapters?: ReadonlyMap<string, Pick<Adapter, 'key'>> }
}

/**
 * Everything that the numbers of a loaded model depend on. Anything else, such as threads, other work and the caches,
 * must not change them. Reads some of the weights. Call it after each of the model's operations has run.
 */
export function numericsOf(
  settings: EngineSettings,
  paths: Pick<NativePaths, 'mtmd' | 'kernels' | 'directory' | 'gpu'>,
  { libraries: { llama, kernels }, features, loaded }: Computing,
): Numerics {
  const { model, modelParts = [model], projector, origin } = settings
  const { version = 'unknown', chatTemplate = null } = origin ?? {}
  const own = kernels === null ? null : nameOf(paths.kernels!)
  const devices = devicesOf(settings, paths, loaded)
  const parts: NumericParts = {
    weights: digest(modelParts),
    ...(projector === null ? {} : { encoder: `${digest([projector])}, ${nameOf(paths.mtmd!)}` }),
    template: short(createHash('sha256').update(chatTemplate ?? '')),
    // Without the suffix of the prebuilt packages.
    release: `Lookout ${version}, llama.cpp ${llama.version().split('-')[0]}`,
    kernels: `${own ?? `prebuilt (${basename(paths.directory)})`}: ${features.join(', ')}`,
    ...(devices === null ? {} : { devices }),
    settings: settingsOf(settings),
  }
  const adapted = Array.from(
    loaded.adapters ?? [],
    ([name, { key }]) => [name, named({ ...parts, adapter: key.slice(0, DIGITS) })] as const,
  )
  return {
    ...named(parts),
    ...(adapted.length === 0 ? {} : { adapters: Object.fromEntries(adapted) }),
    isInvariant: kernels?.computesProducts === true && kernels.isInvariant() && devices === null,
  }
}

function named(parts: NumericParts): Pick<Numerics, 'fingerprint' | 'parts'> {
  return { fingerprint: `fp_${short(createHash('sha256').update(JSON.stringify(parts)))}`, parts }
}

/** The devices in use, their layers and their libraries; null for none. */
function devicesOf(
  { gpu }: EngineSettings,
  paths: Pick<NativePaths, 'gpu'>,
  { offload: { devices, layers, ofLayers, encoder } }: Computing['loaded'],
): string | null {
  if (devices.length === 0) return null
  return [
    ...devices.map(({ name, description }) => `${name} (${description})`),
    ...paths.gpu.libraries.map(({ name, path }) => `${name} (${nameOf(path)})`),
    `${layers} of ${ofLayers} layers`,
    ...(encoder === null ? [] : [`encoder on ${encoder}`]),
    ...(gpu === undefined ? [] : [`split by ${[gpu.splitMode, ...(gpu.tensorSplit ?? [])].join(' ')}`]),
  ].join(', ')
}

function settingsOf({ kvType = 'f16', cells, image, audio }: EngineSettings): string {
  return [
    `${kvType} keys and values`,
    `${cells} tokens of context`,
    ...(image === null ? [] : [`images of ${image.minTokens} to ${image.maxTokens} tokens`]),
    ...(audio === undefined ? [] : [`${audio.tokensPerSecond} tokens per second of audio`]),
  ].join(', ')
}

/** The folder of a compiled library is named after its sources and its flags. */
function nameOf(library: string): string {
  return basename(dirname(library))
}

/** Hash of the files' sizes, first bytes and samples. */
function digest(files: readonly string[]): string {
  const hash = createHash('sha256')
  const buffer = Buffer.allocUnsafe(HEAD_BYTES)
  for (const path of files) {
    const file = openSync(path, 'r')
    try {
      const { size } = fstatSync(file)
      hash.update(`${size}\0`)
      const add = (at: number, length: number) => hash.update(buffer.subarray(0, readSync(file, buffer, 0, length, at)))
      add(0, HEAD_BYTES)
      for (let i = 1; i <= SAMPLES; i++) add(Math.floor(Math.max(0, size - SAMPLE_BYTES) * (i / SAMPLES)), SAMPLE_BYTES)
    } finally {
      closeSync(file)
    }
  }
  return short(hash)
}

function short(hash: Hash): string {
  return hash.digest('hex').slice(0, DIGITS)
}
