import type { HubFile } from '../download/hub-client.ts'
import { folderOf, isProjector, quantisationOf } from './gguf-names.ts'

/** A projector costs little memory, and its precision shows in coordinates. BF16 is slow on older processors. */
const PREFERENCE = ['F16', 'BF16', 'Q8_0', 'F32']

/**
 * The image encoders that may belong to a model, the best first: those in the model's folder or a parent, the nearest
 * first, and then by precision.
 */
export function projectorsFor(model: string, files: readonly HubFile[]): HubFile[] {
  const folder = folderOf(model)
  return files
    .filter(({ path }) => isProjector(path) && folder.startsWith(folderOf(path)))
    .sort(
      (a, b) =>
        folderOf(b.path).length - folderOf(a.path).length || rank(a) - rank(b) || a.path.localeCompare(b.path, 'en'),
    )
}

/** Why this encoder was chosen. */
export function projectorReason(chosen: HubFile, others: readonly HubFile[], model: string): string {
  const rivals = others.filter(({ path }) => path !== chosen.path)
  if (rivals.length === 0) return 'the only one'
  const near = rivals.filter(({ path }) => folderOf(path) === folderOf(chosen.path))
  const names = [...new Set(near.map(({ path }) => precision(path) ?? path))].join(', ')
  if (near.length > 0) return `${precision(chosen.path) ?? 'it'} is preferred to ${names}`
  return folderOf(chosen.path) === folderOf(model)
    ? "it lies in the model's folder"
    : "it lies nearest to the model's folder"
}

function rank({ path }: HubFile): number {
  const index = PREFERENCE.indexOf(precision(path) ?? '')
  return index < 0 ? PREFERENCE.length : index
}

function precision(path: string): string | null {
  return quantisationOf(path)?.toUpperCase().replace(/^FP/, 'F') ?? null
}
