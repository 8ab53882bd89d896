import { LRUCache } from 'lru-cache'
import { getOrMake } from '../../../lib/get-or-make.ts'
import { Automaton } from '../../constraints/automaton.ts'
import { grammarOf } from '../../constraints/constraint-grammar.ts'
import { ConstraintThreads } from '../../constraints/constraint-threads.ts'
import type { Grammar } from '../../constraints/grammar.ts'
import type { Matcher } from '../../constraints/matcher.ts'
import type { NodeData } from '../../constraints/nodes.ts'
import { refusal } from '../../constraints/refusal.ts'
import { KEYWORDS } from '../../constraints/schema/schema-keywords.ts'
import { TokenTrie } from '../../constraints/tokens/token-trie.ts'
import { UnsupportedConstraint } from '../../constraints/unsupported-constraint.ts'
import type { Constraint } from '../../contract/constraint.ts'
import { FailureError, tooMany } from '../failure.ts'
import type { Model } from '../native/model.ts'
import { readVocabulary } from './vocabulary.ts'

/** A compiled constraint, for any number of completions. */
export interface CompiledConstraint {
  createMatcher(): Matcher
}

/**
 * Maximum length, as JSON, of constraints that are compiled on this thread. The slowest take some 40 ms, because their time
 * grows with their length; intersections of automata, alternatives that multiply and counts of members or items may take a
 * second.
 */
const LONGEST_INLINE = 1024
const MULTIPLYING =
  /^(?:pattern|patternProperties|propertyNames|format|not|if|oneOf|allOf|multipleOf|contains|uniqueItems|dependentRequired|dependentSchemas|dependencies|m(?:in|ax)Properties)$/
const REFERRING = ['$ref', '$dynamicRef', '$recursiveRef', 'allOf']
/** Keywords that impose no condition beside a reference. */
const DEFINING = ['$defs', 'definitions', '$anchor', '$dynamicAnchor', '$recursiveAnchor', 'nullable']
const KEPT_CONSTRAINTS = 64

/** Compiles constraints, long ones on other threads. Keeps the most recently used. */
export class ConstraintCompiler {
  readonly #model: Model
  readonly #kept = new LRUCache<string, Promise<CompiledConstraint>>({ max: KEPT_CONSTRAINTS })
  readonly #prepared = new WeakMap<Constraint, CompiledConstraint>()
  readonly #threads = new ConstraintThreads<NodeData>(new URL('./compile-worker.ts', import.meta.url))
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
    return getOrMake(this.#kept, key, () => {
      const compiled = this.#compile(constraint, key, organisation)
      compiled.catch(() => this.#kept.delete(key))
      return compiled
    })
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
    if (key.length <= LONGEST_INLINE && !mayMultiply(constraint)) return grammarOf(constraint)
    return this.#threads.compile(constraint, organisation, (seconds) =>
      tooMany('Too many constraints are being compiled.', seconds),
    )
  }
}

/** Whether it has a keyword that may multiply alternatives, or combines a reference's target with other keywords. */
function mayMultiply(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const enforced = Object.keys(value).filter(
    (key) => KEYWORDS.get(key)?.effect === 'enforced' && !DEFINING.includes(key),
  )
  if (enforced.length > 1 && enforced.some((key) => REFERRING.includes(key))) return true
  return Object.entries(value).some(([key, inner]) => {
    // Pydantic 1 wraps each reference in it.
    const isOne = key === 'allOf' && Array.isArray(inner) && inner.length === 1
    return (MULTIPLYING.test(key) && !isOne) || mayMultiply(inner)
  })
}

function failureOf(constraint: Constraint, { message, path }: UnsupportedConstraint): FailureError {
  return new FailureError({ kind: 'invalid', ...refusal(constraint, message, path) })
}
