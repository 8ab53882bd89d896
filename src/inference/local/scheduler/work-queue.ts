import { FairQueue } from '../../../lib/fair-queue.ts'

interface Queued {
  readonly id: number
  readonly organisation: string
  readonly isBackground: boolean
  /** Whether a step has computed any of it. */
  readonly hasStarted: boolean
}

/** Two fair queues: background requests get their turn when no other request waits. */
export class WorkQueue<T extends Queued> {
  readonly foreground = new FairQueue<T>()
  readonly background = new FairQueue<T>()

  /** The queue of a request's class. */
  of({ isBackground }: Pick<Queued, 'isBackground'>): FairQueue<T> {
    return isBackground ? this.background : this.foreground
  }

  get isEmpty(): boolean {
    return this.foreground.isEmpty && this.background.isEmpty
  }

  get head(): T | undefined {
    return this.foreground.head ?? this.background.head
  }

  get items(): readonly T[] {
    return [...this.foreground.items, ...this.background.items]
  }

  /** Requests that have not started. */
  get waiting(): number {
    return waitingIn(this.foreground) + this.waitingBackground
  }

  get waitingBackground(): number {
    return waitingIn(this.background)
  }
}

function waitingIn({ items }: FairQueue<Queued>): number {
  return items.reduce((count, { hasStarted }) => (hasStarted ? count : count + 1), 0)
}
