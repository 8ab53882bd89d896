import { isPartOfUtf8 } from '../../constraints/utf8.ts'
import type { Model } from '../native/model.ts'

/** A model's vocabulary as grammars see it. Plain data: it crosses between threads. */
export interface GrammarVocabulary {
  /** Bytes of each token, one character per byte; empty for tokens that never match. */
  readonly tokens: readonly string[]
  /** Any of them ends a text, where the grammar lets it end. */
  readonly stopTokens: readonly number[]
}

/**
 * Reads it off what the tokens print, so it does not matter how the model's own vocabulary is written: control tokens
 * print nothing, and tokens that the model's maker added are text like any other.
 */
export function readGrammarVocabulary(model: Model): GrammarVocabulary {
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
