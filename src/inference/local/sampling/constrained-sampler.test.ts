import { expect, test } from 'vitest'
import { Automaton } from '../../constraints/automaton.ts'
import { grammarOf } from '../../constraints/constraint-grammar.ts'
import { TokenTrie } from '../../constraints/tokens/token-trie.ts'
import { LIKELIEST } from '../native/choice.ts'
import { ConstrainedSampler } from './constrained-sampler.ts'

const PIECES = ['', 'arguments', '":', ' ', '{', ' {"', '}', '"', 'at', '0']
const END = 0
const trie = new TokenTrie({ tokens: PIECES, stopTokens: [END] })
const sampler = { ask: () => LIKELIEST, sample: () => END, accept() {} }
/** Takes the longest piece that fits, as far as there is one. */
const model = {
  piece: (token: number) => Buffer.from(PIECES[token]!),
  tokenize(text: string): Int32Array {
    const tokens: number[] = []
    for (let rest = text; rest !== ''; ) {
      const fitting = PIECES.filter((piece) => piece !== '' && rest.startsWith(piece))
      const longest = fitting.reduce((best, piece) => (piece.length > best.length ? piece : best))
      tokens.push(PIECES.indexOf(longest))
      rest = rest.slice(longest.length)
    }
    return Int32Array.from(tokens)
  },
}

function forced(regex: string, most = 100): string[] {
  const automaton = new Automaton(grammarOf({ type: 'regex', pattern: regex }), trie)
  const constrained = new ConstrainedSampler(sampler, automaton.createMatcher(), model)
  return constrained.forced(most).map((token) => PIECES[token]!)
}

test('forced text ends where a token of the model may extend beyond it', () => {
  expect(forced('arguments": \\{("at"|)\\}')).toEqual(['arguments', '":'])
})

test('if the constraint allows no such token, all but the last one is forced', () => {
  expect(forced('arguments": \\{(at|0)\\}')).toEqual(['arguments', '":', ' '])
  expect(forced('arguments": \\{(at|0)\\}', 2)).toEqual(['arguments', '":'])
})
