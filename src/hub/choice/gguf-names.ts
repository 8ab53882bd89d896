import { basename, dirname } from 'node:path/posix'
import { getOrMake } from '../../lib/get-or-make.ts'
import { sumOf } from '../../lib/sum.ts'
import { MAX_PARTS, partNumber } from '../../models/read/weight-files.ts'
import type { HubFile } from '../download/hub-client.ts'
import { HubError } from '../hub-error.ts'

/** Parts of the names of files that are no language models by themselves. */
const OTHER_FILES = ['mmproj', 'imatrix', 'mtp-', 'eagle3-', 'dflash-', 'dspark-']
const QUANTISATION =
  /(?:^|[-._])((?:UD-)?(?:I?Q\d(?:_[A-Z0-9]+)*|TQ\d_\d|BF16|FP?16|FP?32|MXFP\d(?:_MOE)?|NVFP\d))(?=[-.]|$)/gi

/**
 * Some makers put encoders and speech generators into folders of their own, and repeat the kind in the file's name:
 * `vision/some-model-vision-F16.gguf`.
 */
const PART_FOLDER = /(?:^|\/)(?:(vision|audio|tts)\/[^/]*[-_.]\1[-_.]|token2wav(?:-gguf)?\/)[^/]*\.gguf$/i

/** The folder of a file's kind, with the slash; empty for a file outside such a folder. */
function partFolder(path: string): string {
  return PART_FOLDER.test(path) ? `${basename(dirname(path))}/` : ''
}

export function isProjector(path: string): boolean {
  return (/mmproj/i.test(basename(path)) && /\.gguf$/i.test(path)) || partFolder(path).toLowerCase() === 'vision/'
}

export function isLanguageModel(path: string): boolean {
  const name = basename(path).toLowerCase()
  return name.endsWith('.gguf') && partFolder(path) === '' && !OTHER_FILES.some((part) => name.includes(part))
}

/** The folder that a file belongs to, with a slash at its end, without a folder of its kind. Empty for the top. */
export function folderOf(path: string): string {
  const at = path.lastIndexOf('/', path.length - basename(path).length - partFolder(path).length - 1)
  return path.slice(0, at + 1)
}

/** The quantisation in a file's name, as written there: `Q4_K_M`, `UD-IQ2_XXS`, `F16`. */
export function quantisationOf(path: string): string | null {
  return [...stemOf(path).matchAll(QUANTISATION)].at(-1)?.[1] ?? null
}

/** The name of a file without its folder, its ending and its number. */
export function stemOf(path: string): string {
  const name = basename(path)
  return (partNumber(name)?.stem ?? name).replace(/\.gguf$/i, '')
}

/** @throws HubError for a file name with more parts than any model has. */
export function checkParts(path: string): void {
  const count = partNumber(path)?.count ?? 1
  if (count > MAX_PARTS) throw new HubError(`${path} is in ${count} parts; at most ${MAX_PARTS} are supported`)
}

/** A language model of a repository. */
export interface Candidate {
  /** Its name for the user: the quantisation, or the name of its file if the quantisation is not unique. */
  readonly label: string
  readonly quantisation: string | null
  /** In order; a model that is not split has one. */
  readonly files: readonly HubFile[]
  readonly bytes: number
}

/** The complete language models among the files, the smallest first. */
export function candidatesOf(files: readonly HubFile[]): Candidate[] {
  const parted = new Map<string, HubFile[]>()
  for (const file of files) {
    if (!isLanguageModel(file.path)) continue
    const part = partNumber(file.path)
    const [key, index, count] =
      part === null ? [file.path, 0, 1] : [`${part.stem} ${part.count}`, part.number - 1, part.count]
    if (index < 0 || index >= count || count > MAX_PARTS) continue
    getOrMake(parted, key, () => [])[index] = file
  }
  const whole: Omit<Candidate, 'label'>[] = []
  for (const parts of parted.values()) {
    const [first] = parts
    // A missing part leaves a hole.
    if (first === undefined || parts.filter(Boolean).length !== (partNumber(first.path)?.count ?? 1)) continue
    whole.push({ quantisation: quantisationOf(first.path), files: parts, bytes: sumOf(parts, ({ size }) => size) })
  }
  const alike = Map.groupBy(whole, ({ quantisation }) => quantisation?.toUpperCase())
  const labelOf = ({ quantisation, files: [first] }: Omit<Candidate, 'label'>) =>
    quantisation !== null && alike.get(quantisation.toUpperCase())!.length === 1
      ? quantisation
      : first!.path.replace(/\.gguf$/i, '').replace(/-00001-of-\d{5}$/, '')
  return whole.map((model) => ({ ...model, label: labelOf(model) })).sort((a, b) => a.bytes - b.bytes)
}

/**
 * The candidates that match the user's text best: by label, by quantisation, by the path of a file, or, as in
 * llama.cpp, by the text somewhere in a path, followed by a dot or a dash.
 */
export function askedFor(candidates: readonly Candidate[], wanted: string): Candidate[] {
  const text = wanted.toLowerCase()
  const rules: ((candidate: Candidate) => boolean)[] = [
    ({ label }) => label.toLowerCase() === text,
    ({ quantisation }) => quantisation?.toLowerCase() === text,
    ({ files }) => files.some(({ path }) => path.toLowerCase() === text || `${text}.gguf` === path.toLowerCase()),
    ({ files }) => files.some(({ path }) => ['.', '-'].some((end) => path.toLowerCase().includes(text + end))),
  ]
  for (const rule of rules) {
    const found = candidates.filter(rule)
    if (found.length > 0) return found
  }
  return []
}
