import { audioRule } from '../../families/audio-encoders.ts'
import { FAMILIES, FAMILY_NAMES, type FamilyName } from '../../families/families.ts'
import type { Family } from '../../families/family.ts'
import { encoders, type GgufMetadata } from '../../families/gguf.ts'
import { isObject } from '../card-values.ts'
import type { ModelHeaders, NamedFiles } from '../read/model-headers.ts'

interface Asked {
  readonly engine: NamedFiles
  readonly family?: FamilyName | null | undefined
  /** The card as it was written. */
  readonly written: Readonly<Record<string, unknown>>
}

export interface LackingEncoder {
  /**
   * Whether the card, or the model's identity, promises the missing modality. Otherwise, only similar models may have
   * it.
   */
  readonly isPromised: boolean
  /** Which encoder is missing, and what to do about it. */
  readonly message: string
}

const ADVICE =
  'Name the file of the encoder (mmproj) in engine.projector: lookout pull fetches it, and lookout add takes it as ' +
  '--mmproj. Or write "modalities": ["text"] into the card'

/** The encoder that a model should have, but its files lack. Null if none is missing. */
export async function lackingEncoder(
  { engine, family: known, written }: Asked,
  headers: ModelHeaders,
): Promise<LackingEncoder | null> {
  if (isTextByWish(written)) return null
  const unserved = (await headers.folder())?.unserved ?? null
  if (unserved !== null)
    return { isPromised: false, message: `${unserved.replace(/^./, (first) => first.toUpperCase())}.` }
  if (engine.type !== 'local' && engine.type !== undefined) return null
  const has = encoders(await headers.encoder())
  const lacks = (what: string, isPromised = true): LackingEncoder => ({
    isPromised,
    message: `${what} ${ADVICE}.`,
  })
  if (engine.projector !== undefined && !has.image && !has.audio)
    return lacks(`${engine.projector} holds neither an image encoder nor an audio encoder.`)
  for (const kind of ['image', 'audio'] as const) {
    if (written[kind] !== undefined && !has[kind])
      return lacks(`The card has limits for '${kind}', but the model's files hold no encoder for it.`)
  }
  if (has.image || has.audio) return null
  const language = await headers.language()
  const family = familyOf(known, language)
  const kind = family === null ? null : kindOf(family)
  if (family === null || kind === null || isTooSmall(family, language)) return null
  const isPromised = written.family !== undefined || isNamedByFile(family, language)
  return lacks(`Models of ${family.title} take ${kind}, but the model's files hold no encoder for that.`, isPromised)
}

/** Whether the card declares each of its ids as text only. */
function isTextByWish({ serves }: Readonly<Record<string, unknown>>): boolean {
  if (!Array.isArray(serves)) return false
  return serves.every(
    (served) => isObject(served) && Array.isArray(served.modalities) && served.modalities.join() === 'text',
  )
}

/** The family of the card; without one, the first whose language models have this architecture. */
function familyOf(name: FamilyName | null | undefined, language: GgufMetadata): Family | null {
  if (name) return FAMILIES[name]
  const architecture = String(language.get('general.architecture'))
  const found = FAMILY_NAMES.find((one) => FAMILIES[one].architectures.includes(architecture))
  return found === undefined ? null : FAMILIES[found]
}

function kindOf({ image, projectors }: Family): 'images' | 'sound' | null {
  if (image !== null) return 'images'
  if (projectors.length === 0) return null
  return projectors.every((projector) => audioRule(projector, () => 1) !== null) ? 'sound' : 'images'
}

/** Whether models of this size come without an encoder. */
function isTooSmall({ fewestLayers = 0 }: Family, language: GgufMetadata): boolean {
  const layers = language.get(`${String(language.get('general.architecture'))}.block_count`)
  return typeof layers === 'number' && layers < fewestLayers
}

/** Whether the header is that of a model that sees. Some architectures also have text-only models. */
function isNamedByFile({ key }: Family, language: GgufMetadata): boolean {
  return (key !== undefined && language.has(key)) || /vl/i.test(String(language.get('general.architecture')))
}
