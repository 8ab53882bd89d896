import type { Vocabulary } from '../../constraints/tokens/token-trie.ts'
import { isPartOfUtf8 } from '../../constraints/utf8.ts'
import type { Model } from '../native/model.ts'

/**
 * Derives the vocabulary from the text that tokens print, so the encoding of the model's own vocabulary does not matter:
 * control tokens print nothing, and added tokens are ordinary text.
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
