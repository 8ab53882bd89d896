/** Writes the constraints of clients as grammars, in a thread that can be ended. */
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
 * XGrammar follows every way in which a text can be read: with `(a{1,9}[a-z ]{0,90}){0,60}` a server would take seconds for a
 * token, and hold up all others. Counts of such a grammar are compared here.
 */
const MOST_READINGS = 64
const SEARCHED_BYTES = 48
/** In characters. XGrammar takes much memory for each part: 5,000 labels cost 760 MB. */
const LONGEST_GRAMMAR = 64_000
/** llama.cpp refuses repetitions within each other that come to 2,000 rules; a group counts as more than one. */
const MOST_REPETITIONS = 1000

export interface WrittenGrammar {
  readonly ebnf: string
  /** The same for llama.cpp, whose GBNF is a part of that notation; with fewer counts where it would not take them. */
  readonly gbnf: string
  /** False where the EBNF lets more through than the constraint: a text must be compared with the graph then. */
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
