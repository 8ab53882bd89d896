/** Turns constraints of clients into grammars, in a thread that can be ended. */
import { parentPort } from 'node:worker_threads'
import { READY } from '../../lib/guarded-worker.ts'
import type { Constraint } from '../engine.ts'
import { grammarSourceOf } from './grammar-source.ts'
import { type NodeData, NodeGraph } from './nodes.ts'
import { UnsupportedConstraint } from './unsupported-constraint.ts'
import type { GrammarSource } from './xgrammar.ts'

/** Rules are gone through here, too: what is sent is smaller and ready to be followed. */
export type WrittenSource = NodesSource | GrammarSource
export type NodesSource = { readonly type: 'nodes' } & NodeData

export type SourceVerdict =
  | { readonly type: 'written'; readonly source: WrittenSource }
  | { readonly type: 'refused'; readonly message: string; readonly path: readonly (string | number)[] }
  /** Ours. */
  | { readonly type: 'failed'; readonly message: string }

parentPort!.on('message', (constraint: Constraint) => parentPort!.postMessage(judge(constraint)))
parentPort!.postMessage(READY)

function judge(constraint: Constraint): SourceVerdict {
  try {
    const source = grammarSourceOf(constraint)
    if (source.type !== 'rules') return { type: 'written', source }
    return { type: 'written', source: { type: 'nodes', ...new NodeGraph(source).data } }
  } catch (error) {
    if (error instanceof UnsupportedConstraint) return { type: 'refused', message: error.message, path: error.path }
    return { type: 'failed', message: error instanceof Error ? (error.stack ?? error.message) : String(error) }
  }
}
