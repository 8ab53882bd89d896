import { readNumber } from '../asking/numbers.ts'

export const RATING_OPTIONS = {
  confidence: { type: 'boolean' },
  thorough: { type: 'boolean' },
  'min-confidence': { type: 'string' },
} as const

export const RATING_HELP = `  --confidence     say how likely each object is to be right, from 0 to 1
  --thorough       the same, more accurate and about twice as slow, including objects that the model would have left out
  --min-confidence leave out less likely objects; implies --confidence`

type RatingValues = Partial<Record<'confidence' | 'thorough', boolean>> & { readonly 'min-confidence'?: string }

/** @returns the request's fields about confidence; null if none is wanted. @throws ConfigError */
export function readRating({ confidence, thorough, 'min-confidence': given }: RatingValues): object | null {
  const least = readNumber(given, '--min-confidence', { min: 0, max: 1 })
  if (!confidence && !thorough && least === undefined) return null
  return { confidence: thorough ? 'thorough' : true, ...(least === undefined ? {} : { min_confidence: least }) }
}
