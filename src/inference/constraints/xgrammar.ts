import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { compileFunction } from 'node:vm'
import type * as Library from '@mlc-ai/web-xgrammar'
import type { GrammarVocabulary } from '../local/sampling/vocabulary.ts'
import { choice, Ebnf } from './ebnf.ts'
import { STRICT_LEADS } from './utf8.ts'

/** What XGrammar compiles: a grammar of ours or of a caller, or a structural tag that holds such. */
export type GrammarSource =
  | { readonly type: 'ebnf'; readonly text: string }
  | { readonly type: 'structural_tag'; readonly format: Library.StructuralTagFormat }

/** XGrammar's objects live in its WebAssembly memory; `dispose` frees them. */
export interface Grammar {
  dispose(): void
}

/** The state of one text that follows a grammar. */
export interface Matcher {
  /** A bit for each token that may come next. Not to be changed. */
  nextTokens(): Int32Array
  /** False when the token may not come next; the state is then as before. */
  accept(token: number): boolean
  /** Text that comes next in any case; empty when there is a choice. Some of it may not be what `accept` takes. */
  forcedText(): string
  dispose(): void
}

type Exports = typeof Library & { bindingOfThisInstance(): Binding }

/** The library's own face to its WebAssembly. Its JavaScript around this is asynchronous, where nothing is to wait for. */
interface Binding {
  readonly GrammarMatcher: new (
    grammar: unknown,
    stopTokens: undefined,
    terminateWithoutStopToken: boolean,
    maxRollback: number,
  ) => BoundMatcher
  vecIntToView(vector: unknown): Int32Array
}

interface BoundMatcher {
  GetNextTokenBitmask(vocabularySize: number): { delete(): void }
  AcceptToken(token: number, verbose: boolean): boolean
  FindJumpForwardString(): string
  delete(): void
}

/** The end of the library's own exports, where the one thing is added that it does not export. */
const ANCHOR = 'exports.TokenizerInfo = TokenizerInfo;'
const SILENT = { log() {}, warn() {}, error() {} }

/**
 * One instance of the library, with a memory of its own. A fault in it may leave that memory in any state, so an
 * instance that threw is not to be used again.
 */
export class XGrammar {
  readonly #library: Exports
  readonly #vocabulary: GrammarVocabulary
  readonly #compiler: Library.GrammarCompiler
  readonly #continuations: ReadonlyMap<string, Int32Array>

  static async create(vocabulary: GrammarVocabulary): Promise<XGrammar> {
    const library = instantiate()
    const tokenizer = await library.TokenizerInfo.createTokenizerInfo(
      vocabulary.tokens.map(encode),
      'byte_level',
      false,
      vocabulary.tokens.length,
      [...vocabulary.stopTokens],
    )
    // We keep what is worth keeping; its own cache has no limit.
    const compiler = await library.GrammarCompiler.createGrammarCompiler(tokenizer, false)
    await checkByteClasses(library)
    return new XGrammar(library, vocabulary, compiler)
  }

  private constructor(library: Exports, vocabulary: GrammarVocabulary, compiler: Library.GrammarCompiler) {
    this.#library = library
    this.#vocabulary = vocabulary
    this.#compiler = compiler
    this.#continuations = continuationsOf(vocabulary)
  }

  /** Blocks while it compiles. Throws whatever the library throws, which says little. */
  compile(source: GrammarSource): Promise<Grammar> {
    return source.type === 'ebnf'
      ? this.#compiler.compileGrammar(source.text)
      : this.#compiler.compileStructuralTag(source.format)
  }

  createMatcher(grammar: Grammar): Matcher {
    const binding = this.#library.bindingOfThisInstance()
    const matcher = new binding.GrammarMatcher((grammar as Library.CompiledGrammar).handle, undefined, false, -1)
    const size = this.#vocabulary.tokens.length
    let lastByte = ''
    return {
      nextTokens: () => {
        const vector = matcher.GetNextTokenBitmask(size)
        const mask = binding.vecIntToView(vector).slice()
        vector.delete()
        const continuations = this.#continuations.get(lastByte)
        continuations?.forEach((word, index) => {
          mask[index]! &= word
        })
        return mask
      },
      accept: (token) => {
        const accepted = matcher.AcceptToken(token, false)
        if (accepted) lastByte = this.#vocabulary.tokens[token]!.slice(-1)
        return accepted
      },
      // What begins or ends within a character does not come over whole, so `accept` must still be asked.
      forcedText: () => matcher.FindJumpForwardString().toWellFormed().split('\ufffd', 1)[0]!,
      dispose: () => matcher.delete(),
    }
  }
}

/** The alphabet of byte-level tokenisers since GPT-2: printable bytes stand for themselves, others for what is free. */
const BYTE_CHARACTERS: readonly string[] = (() => {
  const printable = (byte: number) => (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad)
  let free = 0x100
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(printable(byte) ? byte : free++))
})()

function encode(bytes: string): string {
  return Array.from(bytes, (byte) => BYTE_CHARACTERS[byte.charCodeAt(0)]).join('')
}

/**
 * The tokens that may come after a byte, for those after which XGrammar's negated classes let through what is no
 * character: forms that are too long, and surrogates.
 */
function continuationsOf({ tokens }: GrammarVocabulary): ReadonlyMap<string, Int32Array> {
  const masks = [...STRICT_LEADS].map(([lead, second]): [string, Int32Array] => {
    const mask = new Int32Array(Math.ceil(tokens.length / 32))
    tokens.forEach((bytes, token) => {
      if (second.test(bytes)) mask[token >> 5]! |= 1 << (token & 31)
    })
    return [lead, mask]
  })
  return new Map(masks)
}

let factory: ((...parameters: unknown[]) => void) | null = null

/** Runs the library's file, which is a CommonJS module that its package declares to be something else. */
function instantiate(): Exports {
  const require = createRequire(import.meta.url)
  const path = require.resolve('@mlc-ai/web-xgrammar')
  factory ??= compile(path)
  const module = { exports: {} }
  // Without `process` it takes no interest in the process it runs in, and without `console` it cannot log what users sent.
  factory(module.exports, module, require, path, SILENT, undefined)
  return module.exports as Exports
}

function compile(path: string): (...parameters: unknown[]) => void {
  const source = readFileSync(path, 'utf8')
  if (source.split(ANCHOR).length !== 2) throw new Error('This version of @mlc-ai/web-xgrammar is not the known one.')
  return compileFunction(
    source.replace(ANCHOR, `${ANCHOR} exports.bindingOfThisInstance = () => binding;`),
    ['exports', 'module', 'require', '__filename', 'console', 'process'],
    { filename: path },
  ) as (...parameters: unknown[]) => void
}

/** `ebnf.ts` builds on how this version reads classes; another one must not misread them in silence. */
async function checkByteClasses({ Grammar, Testings }: Exports): Promise<void> {
  const ebnf = new Ebnf()
  const notA = ebnf.characters([
    [0x42, 0x7f],
    [0xe0, 0x2027],
    [0x2030, 0x10ffff],
  ])
  const grammar = await Grammar.fromEBNF(ebnf.toText(choice([notA])))
  const verdicts = ['B', 'é', '\u2030', '😀', 'A', 'ß', '\u2028', '\u202f'].map((text) =>
    Testings.isGrammarAcceptString(grammar, text),
  )
  const accepted = (await Promise.all(verdicts)).map(Number).join('')
  grammar.dispose()
  if (accepted !== '11110000') throw new Error('This version of @mlc-ai/web-xgrammar reads character classes anew.')
}
