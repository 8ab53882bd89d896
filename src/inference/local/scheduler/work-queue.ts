import { FairQueue } from '../../../lib/fair-queue.ts'

interface Queued {
  readonly id: number
  readonly organisation: string
  readonly isBackground: boolean
  /** Whether any of it was ever computed. */
  readonly hasStarted: boolean
}

/** Requests in fair order, apart from those in the background, which have their turn when no other is there. */
export class WorkQueue<T extends Queued> {
  readonly foreground = new FairQueue<T>()
  readonly background = new FairQueue<T>()

  /** Where a request has its place. */
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

  /** Requests of which nothing was computed. */
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
