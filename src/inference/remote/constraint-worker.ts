/** Writes clients' constraints as grammars, on a thread that can be terminated. */
import { Automaton } from '../constraints/automaton.ts'
import { answerConstraints } from '../constraints/constraint-answers.ts'
import { grammarOf } from '../constraints/constraint-grammar.ts'
import { toEbnf } from '../constraints/ebnf.ts'
import { type NodeData, NodeGraph } from '../constraints/nodes.ts'
import { nestedRepetitions } from '../constraints/repetitions.ts'
import { BYTES } from '../constraints/tokens/byte-trie.ts'
import { UnsupportedConstraint } from '../constraints/unsupported-constraint.ts'
import type { Constraint } from '../contract/constraint.ts'

/**
 * XGrammar follows every reading of a text: with `(a{1,9}[a-z ]{0,90}){0,60}`, a server would take seconds per token
 * and delay all other requests. For such a grammar, counts are checked here instead.
 */
const MOST_READINGS = 64
const SEARCHED_BYTES = 48
/** In characters. XGrammar takes much memory for each part: 5,000 labels take 760 MB. */
const LONGEST_GRAMMAR = 64_000
/** llama.cpp rejects nested repetitions that expand to 2,000 rules; a group counts as more than one. */
const MOST_REPETITIONS = 1000

export interface WrittenGrammar {
  readonly ebnf: string
  /** The same for llama.cpp, whose GBNF is a subset of that notation; with fewer counts if it would not accept them. */
  readonly gbnf: string
  /** False if the EBNF allows more than the constraint: the text must then be checked against the graph. */
  readonly exact: boolean
  readonly graph: NodeData
}

answerConstraints(write)

function write(constraint: Constraint): WrittenGrammar {
  const grammar = grammarOf(constraint)
  const graph = new NodeGraph(grammar).data
  const isClear = new Automaton(graph, BYTES).mostReadings(SEARCHED_BYTES) <= MOST_READINGS
  const { text, exact } = toEbnf(grammar, { counted: isClear })
  if (text.length > LONGEST_GRAMMAR) throw new UnsupportedConstraint('it is too large for the servers of this model')
  const gbnf = nestedRepetitions(grammar) < MOST_REPETITIONS ? text : toEbnf(grammar, { counted: false }).text
  return { ebnf: text, gbnf, exact, graph }
}
