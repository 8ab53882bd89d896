import { GuardedPool } from '../../../lib/guarded/guarded-pool.ts'
import { Automaton } from '../../constraints/automaton.ts'
import { grammarOf, withoutLenientSchemas } from '../../constraints/constraint-grammar.ts'
import type { Grammar } from '../../constraints/grammar.ts'
import type { Matcher } from '../../constraints/matcher.ts'
import type { NodeData } from '../../constraints/nodes.ts'
import { refusal } from '../../constraints/refusal.ts'
import { TokenTrie } from '../../constraints/token-trie.ts'
import { UnsupportedConstraint } from '../../constraints/unsupported-constraint.ts'
import type { Constraint } from '../../contract/constraint.ts'
import { FailureError, tooMany } from '../failure.ts'
import type { Model } from '../native/model.ts'
import type { CompileResult } from './compile-worker.ts'
import { readVocabulary } from './vocabulary.ts'

/** A compiled constraint, for any number of completions. */
export interface CompiledConstraint {
  createMatcher(): Matcher
}

const WORKER_FILE = new URL('./compile-worker.ts', import.meta.url)
const THREADS = 2
/** Maximum time to compile a constraint, in ms. */
const LIMIT_MS = 3_000
/**
 * Maximum length, as JSON, of constraints that are compiled on this thread. The slowest take some 40 ms; intersections of
 * automata may take a second.
 */
const LONGEST_INLINE = 2048
const MAY_INTERSECT = /"(?:pattern|patternProperties|propertyNames|format|not|if|oneOf|multipleOf)"/
/** Maximum waiting constraints of one organisation. */
const MOST_WAITING = 64
const KEPT_CONSTRAINTS = 64

/** Compiles constraints, long ones on other threads. Keeps the most recently used. */
export class ConstraintCompiler {
  readonly #model: Model
  readonly #kept = new Map<string, Promise<CompiledConstraint>>()
  readonly #prepared = new WeakMap<Constraint, CompiledConstraint>()
  readonly #threads = new GuardedPool<Constraint, CompileResult>(WORKER_FILE, { threads: THREADS, limitMs: LIMIT_MS })
  #trie: TokenTrie | null = null

  constructor(model: Model) {
    this.#model = model
  }

  /**
   * Compiles a constraint, which `prepared` then returns.
   * @param organisation takes turns with others if compilation is slow.
   * @throws FailureError that names the input if it is not supported.
   */
  async prepare(constraint: Constraint, organisation: string): Promise<void> {
    try {
      this.#prepared.set(constraint, await this.#compiled(constraint, organisation))
    } catch (error) {
      throw error instanceof UnsupportedConstraint ? failureOf(constraint, error) : error
    }
  }

  /** @param constraint the same object that was prepared. */
  prepared(constraint: Constraint): CompiledConstraint {
    const compiled = this.#prepared.get(constraint)
    if (compiled === undefined) throw new Error('A constraint was not prepared.')
    return compiled
  }

  #compiled(constraint: Constraint, organisation: string): Promise<CompiledConstraint> {
    const key = JSON.stringify({ ...constraint, param: undefined })
    let compiled = this.#kept.get(key)
    // A Map keeps insertion order, so the first is the least recently used.
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
    const grammar = await this.#grammarOf(constraint, key, organisation)
    this.#trie ??= new TokenTrie(readVocabulary(this.#model))
    if (this.#trie.vocabulary.stopTokens.length === 0)
      throw new UnsupportedConstraint('this model has no token to end a reply with')
    return new Automaton(grammar, this.#trie)
  }

  /** A short constraint compiles faster than it would reach another thread. */
  async #grammarOf(constraint: Constraint, key: string, organisation: string): Promise<Grammar | NodeData> {
    if (key.length <= LONGEST_INLINE && !MAY_INTERSECT.test(key)) return grammarOf(constraint)
    if (this.#threads.waiting(organisation) >= MOST_WAITING) {
      throw tooMany('Too many constraints are being compiled.', this.#threads.waitMs(organisation) / 1000)
    }
    const result = await this.#threads.ask(organisation, constraint)
    if (result?.type === 'compiled') return result.graph
    if (result?.type === 'unsupported') throw new UnsupportedConstraint(result.message, result.path)
    if (result?.type === 'failed') throw new Error(result.message)
    const simpler = withoutLenientSchemas(constraint)
    if (simpler !== null) return this.#grammarOf(simpler, JSON.stringify(simpler), organisation)
    throw new UnsupportedConstraint(`it takes longer than ${LIMIT_MS / 1000} s to compile`)
  }
}

function failureOf(constraint: Constraint, { message, path }: UnsupportedConstraint): FailureError {
  return new FailureError({ kind: 'invalid', ...refusal(constraint, message, path) })
}
