import type { EngineEvent } from '../../contract/generation.ts'
import { joinTexts } from '../../contract/join-texts.ts'
import type { FromEngine, RequestEvents } from '../protocol.ts'
import type { QueueForecast } from './queue-forecast.ts'
import type { SequenceGroup } from './sequences/sequence-group.ts'

/**
 * Maximum time to hold text, in ms: with a small model, a message for every token costs time on both sides. With steps of
 * this length or more, text is sent at once.
 */
const HOLD_MS = 5

/**
 * Sends the events of all groups in one message. It owns the groups whose text is held. The scheduler calls it after each
 * step.
 */
export class EventSender {
  readonly #send: (message: FromEngine) => void
  readonly #forecast: QueueForecast
  readonly #ended: (group: SequenceGroup) => void
  readonly #held = new Set<SequenceGroup>()
  #heldSince = 0

  /**
   * @param forecast learns from every completion that ends.
   * @param ended called for each group whose last event was sent.
   */
  constructor(send: (message: FromEngine) => void, forecast: QueueForecast, ended: (group: SequenceGroup) => void) {
    this.#send = send
    this.#forecast = forecast
    this.#ended = ended
  }

  /** Sends the events of a step, or holds them for a moment. A group's first and last events are sent at once. */
  hold(groups: ReadonlySet<SequenceGroup>, stepMs: number): void {
    if (groups.size === 0 && this.#held.size === 0) return
    const now = performance.now()
    if (this.#held.size === 0) this.#heldSince = now
    for (const group of groups) this.#held.add(group)
    const isDue = now - this.#heldSince + stepMs > HOLD_MS || [...groups].some((group) => isUrgent(group))
    if (isDue) this.flush()
  }

  /** Sends the held events. */
  flush(): void {
    this.sendNow([...this.#held])
  }

  sendNow(groups: Iterable<SequenceGroup>): void {
    const batch: RequestEvents[] = []
    for (const group of groups) {
      this.#held.delete(group)
      const { isFinished } = group
      if (group.events.length === 0 && !isFinished) continue
      const events = group.takeEvents()
      for (const event of events) {
        if (event.type === 'finish') this.#forecast.ended(event.completionTokens, event.reason === 'stop')
      }
      batch.push({ id: group.id, events: joined(events), last: isFinished })
      if (isFinished) this.#ended(group)
    }
    if (batch.length > 0) this.#send({ type: 'events', requests: batch })
  }

  /** Drops the held events of a group. */
  forget(group: SequenceGroup): void {
    this.#held.delete(group)
  }
}

/** Whether to send these events at once: the first of a group, its last, and all but text. */
function isUrgent({ isFinished, hasSpoken, events }: SequenceGroup): boolean {
  return isFinished || !hasSpoken || events.some(({ type }) => type !== 'text')
}

/** Joins the texts of each completion, unless another event is between them. */
function joined(events: readonly EngineEvent[]): EngineEvent[] {
  const out: EngineEvent[] = []
  const open = new Map<string, number>()
  for (const event of events) {
    if (event.type !== 'text') {
      open.clear()
      out.push(event)
      continue
    }
    const key = `${event.branch} ${event.completion}`
    const at = open.get(key)
    if (at === undefined) open.set(key, out.push(event) - 1)
    else out[at] = joinTexts(out[at]!, event)!
  }
  return out
}
