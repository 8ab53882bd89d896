import { signal } from '@preact/signals'
import { callJson } from './call.ts'
import { models } from './connection.ts'
import { type Failure, toFailure } from './failure.ts'
import type { Model } from './wire.ts'

/** Why the models are not known; null when they are, or are being asked for. */
export const modelsFailure = signal<Failure | null>(null)

/** Asks the server which models it serves. */
export async function loadModels(): Promise<void> {
  modelsFailure.value = null
  try {
    models.value = (await callJson<{ data: Model[] }>('/v1/models?extended=true')).data
  } catch (error) {
    modelsFailure.value = toFailure(error)
  }
}
