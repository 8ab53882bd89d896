import { FairQueue } from '../../../lib/fair-queue.ts'
import { sumOf } from '../../../lib/sum.ts'
import { PRIORITIES, type Priority } from '../../contract/priority.ts'

interface Queued {
  readonly id: number
  readonly organisation: string
  readonly priority: Priority
  /** Whether a step has computed any of it. */
  readonly hasStarted: boolean
}

/** A fair queue for each priority. */
export class WorkQueue<T extends Queued> {
  readonly #queues: Readonly<Record<Priority, FairQueue<T>>> = {
    interactive: new FairQueue(),
    live: new FairQueue(),
    background: new FairQueue(),
  }

  of(priority: Priority): FairQueue<T> {
    return this.#queues[priority]
  }

  get isEmpty(): boolean {
    return this.head === undefined
  }

  /** The next of the most urgent ones. */
  get head(): T | undefined {
    for (const priority of PRIORITIES) {
      const { head } = this.of(priority)
      if (head !== undefined) return head
    }
    return undefined
  }

  get items(): readonly T[] {
    return PRIORITIES.flatMap((priority) => this.of(priority).items)
  }

  /** Requests that have not started. */
  get waiting(): number {
    return sumOf(PRIORITIES, (priority) => this.waitingOf(priority))
  }

  /** The same of one priority. */
  waitingOf(priority: Priority): number {
    return this.of(priority).items.filter(({ hasStarted }) => !hasStarted).length
  }
}
