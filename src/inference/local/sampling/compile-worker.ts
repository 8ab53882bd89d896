/** Compiles the constraints of clients in a thread that can be terminated. */
import { answerConstraints } from '../../constraints/constraint-answers.ts'
import { grammarOf } from '../../constraints/constraint-grammar.ts'
import { type NodeData, NodeGraph } from '../../constraints/nodes.ts'

// The grammar in the form that the automaton uses is smaller than its rules.
answerConstraints((constraint): NodeData => new NodeGraph(grammarOf(constraint)).data)
