/** Compiles the constraints of clients in a thread that can be terminated. */
import { parentPort } from 'node:worker_threads'
import { READY } from '../../../lib/guarded/guarded-worker.ts'
import { grammarOf } from '../../constraints/constraint-grammar.ts'
import { type NodeData, NodeGraph } from '../../constraints/nodes.ts'
import { UnsupportedConstraint } from '../../constraints/unsupported-constraint.ts'
import type { Constraint } from '../../contract/constraint.ts'

export type CompileResult =
  /** The grammar in the form that the automaton uses, which is smaller than its rules. */
  | { readonly type: 'compiled'; readonly graph: NodeData }
  | { readonly type: 'unsupported'; readonly message: string; readonly path: readonly (string | number)[] }
  /** A bug in the server. */
  | { readonly type: 'failed'; readonly message: string }

parentPort!.on('message', (constraint: Constraint) => parentPort!.postMessage(compile(constraint)))
parentPort!.postMessage(READY)

function compile(constraint: Constraint): CompileResult {
  try {
    return { type: 'compiled', graph: new NodeGraph(grammarOf(constraint)).data }
  } catch (error) {
    if (error instanceof UnsupportedConstraint) return { type: 'unsupported', message: error.message, path: error.path }
    return { type: 'failed', message: error instanceof Error ? (error.stack ?? error.message) : String(error) }
  }
}
