import type { Vocabulary } from '../../constraints/token-trie.ts'
import { isPartOfUtf8 } from '../../constraints/utf8.ts'
import type { Model } from '../native/model.ts'

/**
 * Reads the vocabulary off what the tokens print, so it does not matter how the model's own vocabulary is written: control tokens
 * print nothing, and tokens that the model's maker added are text like any other.
 */
export function readVocabulary(model: Model): Vocabulary {
  const tokens: string[] = []
  const stopTokens: number[] = []
  for (let token = 0; token < model.vocabularySize; token++) {
    const ends = model.isEndOfGeneration(token)
    if (ends) stopTokens.push(token)
    const bytes = ends ? '' : Buffer.from(model.piece(token)).toString('latin1')
    tokens.push(isPartOfUtf8(bytes) ? bytes : '')
  }
  return { tokens, stopTokens }
}
