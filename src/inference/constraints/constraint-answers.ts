import { parentPort } from 'node:worker_threads'
import { READY } from '../../lib/guarded/guarded-worker.ts'
import type { Constraint } from '../contract/constraint.ts'
import type { ConstraintResult } from './constraint-threads.ts'
import { UnsupportedConstraint } from './unsupported-constraint.ts'

/** Makes this thread compile the constraints that `ConstraintThreads` sends it. */
export function answerConstraints<Output>(compile: (constraint: Constraint) => Output): void {
  const resultOf = (constraint: Constraint): ConstraintResult<Output> => {
    try {
      return { type: 'done', output: compile(constraint) }
    } catch (error) {
      if (error instanceof UnsupportedConstraint)
        return { type: 'unsupported', message: error.message, path: error.path }
      return { type: 'failed', message: error instanceof Error ? (error.stack ?? error.message) : String(error) }
    }
  }
  parentPort!.on('message', (constraint: Constraint) => parentPort!.postMessage(resultOf(constraint)))
  parentPort!.postMessage(READY)
}
