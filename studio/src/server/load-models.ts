import { signal } from '@preact/signals'
import { callJson } from './call.ts'
import { model, models } from './connection.ts'
import { type Failure, isAbort, toFailure } from './failure.ts'
import { withPatience } from './patience.ts'
import type { Model } from './wire.ts'

/** Why the models are not known; null when they are, or are being asked for. */
export const modelsFailure = signal<Failure | null>(null)

let asking = new AbortController()

let latest: Promise<void> = Promise.resolve()

/** Asks the server which models it serves. Where it is asked again meanwhile, that answer counts, for all who wait. */
export async function loadModels(): Promise<void> {
  latest = load()
  for (let awaited = null; awaited !== latest; ) {
    awaited = latest
    await awaited
  }
}

/**
 * The chosen model, to ask it: a first question may be quicker than the list of models, which is awaited then.
 * @returns null where the server has not told of any
 * @throws DOMException `AbortError` when aborted meanwhile
 */
export async function knownModel(signal?: AbortSignal): Promise<Model | null> {
  if (model.value === null) await loadModels()
  signal?.throwIfAborted()
  return model.value
}

async function load(): Promise<void> {
  modelsFailure.value = null
  asking.abort()
  asking = new AbortController()
  const { signal } = asking
  try {
    const list = () => callJson<{ data: Model[] }>('/v1/models?extended=true', { signal })
    models.value = (await withPatience(list, () => {}, signal)).data
  } catch (error) {
    if (!isAbort(error)) modelsFailure.value = toFailure(error)
  }
}
