import { GuardedPool } from '../../lib/guarded-pool.ts'
import type { Constraint } from '../engine.ts'
import { FailureError, tooMany } from '../local/failure.ts'
import type { Model } from '../local/native/model.ts'
import { type GrammarVocabulary, readGrammarVocabulary } from '../local/sampling/vocabulary.ts'
import { Automaton } from './automaton.ts'
import { Trial } from './compile-probe.ts'
import { grammarSourceOf, type RulesSource, withoutLenientSchemas } from './grammar-source.ts'
import type { GrammarThread } from './grammar-thread.ts'
import type { SourceVerdict, WrittenSource } from './source-worker.ts'
import { TokenTrie } from './token-trie.ts'
import { UnsupportedConstraint } from './unsupported-constraint.ts'
import { type Grammar, type Matcher, XGrammar } from './xgrammar.ts'

/** A constraint that is ready to be followed, any number of times. */
export interface CompiledConstraint {
  createMatcher(): Matcher
}

/** Time that a constraint may take to compile, in ms. The engine stands still for less than `slowMs` of it. */
const COMPILE_LIMITS = { limitMs: 3_000, slowMs: 50 }
const WRITER_FILE = new URL('./source-worker.ts', import.meta.url)
/** As JSON. Up to here the worst takes some 30 ms. */
const LONGEST_INLINE = 2048
/** Constraints of one organisation that may wait. */
const MOST_WAITING = 64
const KEPT_CONSTRAINTS = 64
/** Each slow constraint has a thread of its own, with all of the vocabulary. */
const MOST_THREADS = 4
/** When one of them may be free: a reply takes some seconds. */
const SLOW_RETRY_SECONDS = 5

/**
 * Compiles constraints. Rules are followed as they are. A grammar for XGrammar is compiled first in another thread, which
 * may fail or take too long, then in this one, because a compiled grammar cannot cross. One that is slow to compile stays
 * where it is. Those used last are kept.
 */
export class Constraints {
  readonly #model: Model
  readonly #kept = new Map<string, Promise<CompiledConstraint>>()
  readonly #prepared = new WeakMap<Constraint, CompiledConstraint>()
  /** Grammars are freed when neither this cache nor a work holds them any more. */
  readonly #unused = new FinalizationRegistry<Grammar>((grammar) => grammar.dispose())
  /** By the key of their constraints, least recently used first. */
  readonly #threads = new Map<string, GrammarThread>()
  readonly #writers = new GuardedPool<Constraint, SourceVerdict>(WRITER_FILE, {
    threads: 2,
    limitMs: COMPILE_LIMITS.limitMs,
  })
  #trial: Trial | null = null
  #vocabulary: GrammarVocabulary | null = null
  #trie: TokenTrie | null = null
  #xgrammar: Promise<XGrammar> | null = null

  constructor(model: Model) {
    this.#model = model
  }

  /**
   * Compiles a constraint for `prepared` to give.
   * @param organisation whose turn it is when it takes long.
   * @throws FailureError that names the input at fault when it is not supported.
   */
  async prepare(constraint: Constraint, organisation: string): Promise<void> {
    try {
      this.#prepared.set(constraint, await this.#compiled(constraint, organisation))
    } catch (error) {
      throw error instanceof UnsupportedConstraint ? failureOf(constraint, error) : error
    }
  }

  /** @param constraint the very object that was prepared. */
  prepared(constraint: Constraint): CompiledConstraint {
    const compiled = this.#prepared.get(constraint)
    if (compiled === undefined) throw new Error('A constraint was not prepared.')
    return compiled
  }

  #compiled(constraint: Constraint, organisation: string): Promise<CompiledConstraint> {
    const key = JSON.stringify({ ...constraint, param: undefined })
    const thread = this.#threads.get(key)
    if (thread !== undefined) {
      this.#threads.delete(key)
      if (thread.isClosed) this.#kept.delete(key)
      else this.#threads.set(key, thread)
    }
    let compiled = this.#kept.get(key)
    // A Map keeps insertion order: the first is the one unused for longest.
    this.#kept.delete(key)
    compiled ??= this.#compile(constraint, key, organisation)
    this.#kept.set(key, compiled)
    compiled.catch(() => this.#kept.delete(key))
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= KEPT_CONSTRAINTS) break
      this.#kept.delete(oldest)
    }
    return compiled
  }

  async #compile(constraint: Constraint, key: string, organisation: string): Promise<CompiledConstraint> {
    const source = await this.#write(constraint, key, organisation)
    this.#vocabulary ??= readGrammarVocabulary(this.#model)
    if (this.#vocabulary.stopTokens.length === 0)
      throw new UnsupportedConstraint('this model has no token to end a reply with')
    if (source.type === 'rules' || source.type === 'nodes') {
      this.#trie ??= new TokenTrie(this.#vocabulary)
      return new Automaton(source, this.#trie)
    }
    this.#trial ??= new Trial(this.#vocabulary, COMPILE_LIMITS)
    let thread: GrammarThread | null
    try {
      thread = await this.#trial.run(source)
    } catch (error) {
      const simpler = error instanceof UnsupportedConstraint ? withoutLenientSchemas(constraint) : null
      if (simpler === null) throw error
      return this.#compile(simpler, key, organisation)
    }
    if (thread !== null) return this.#keepThread(thread, key)
    this.#xgrammar ??= XGrammar.create(this.#vocabulary)
    try {
      const xgrammar = await this.#xgrammar
      const grammar = await xgrammar.compile(source)
      const compiled = { createMatcher: () => xgrammar.createMatcher(grammar) }
      this.#unused.register(compiled, grammar)
      return compiled
    } catch (error) {
      // What went well in the trial does not fail here, unless the instance is broken. Those in use keep theirs.
      this.#xgrammar = null
      this.#kept.clear()
      throw error
    }
  }

  /** A short constraint takes less time than it would take to another thread. */
  async #write(constraint: Constraint, key: string, organisation: string): Promise<RulesSource | WrittenSource> {
    if (key.length <= LONGEST_INLINE) return grammarSourceOf(constraint)
    if (this.#writers.waiting(organisation) >= MOST_WAITING) {
      throw tooMany('Too many constraints are being compiled.', this.#writers.waitMs(organisation) / 1000)
    }
    const verdict = await this.#writers.ask(organisation, constraint)
    if (verdict?.type === 'written') return verdict.source
    if (verdict?.type === 'refused') throw new UnsupportedConstraint(verdict.message, verdict.path)
    if (verdict?.type === 'failed') throw new Error(verdict.message)
    const simpler = withoutLenientSchemas(constraint)
    if (simpler !== null) return this.#write(simpler, key, organisation)
    throw new UnsupportedConstraint(`it takes longer than ${COMPILE_LIMITS.limitMs / 1000} s to compile`)
  }

  /** Owns the thread from now on; another one is ended for it, unless all are in use. */
  #keepThread(thread: GrammarThread, key: string): CompiledConstraint {
    this.#threads.get(key)?.close()
    this.#threads.delete(key)
    for (const [other, { openMatchers }] of this.#threads) {
      if (this.#threads.size < MOST_THREADS) break
      if (openMatchers === 0) this.#endThread(other)
    }
    if (this.#threads.size >= MOST_THREADS) {
      thread.close()
      throw tooMany('Too many constraints that are slow to compile are in use.', SLOW_RETRY_SECONDS)
    }
    this.#threads.set(key, thread)
    return { createMatcher: () => thread.createMatcher() }
  }

  #endThread(key: string): void {
    this.#threads.get(key)?.close()
    this.#threads.delete(key)
    this.#kept.delete(key)
  }
}

const NAMES: Readonly<Record<Constraint['type'], { what: string; code: string | null }>> = {
  json_schema: { what: 'JSON schema', code: 'invalid_response_format' },
  regex: { what: 'regular expression', code: 'invalid_regex' },
  grammar: { what: 'grammar', code: null },
  triggered_tags: { what: 'constraint', code: null },
}

function failureOf(constraint: Constraint, refusal: UnsupportedConstraint): FailureError {
  const { what, code } = NAMES[constraint.type]
  return new FailureError({
    kind: 'invalid',
    message: `The ${what} is not supported: ${refusal.message}`,
    param: (constraint.param ?? '') + refusal.suffix || null,
    code,
  })
}
