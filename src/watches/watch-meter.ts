import type { EventType } from './events/watch-events.ts'
import type { DeliveryResult } from './webhooks/webhook-sender.ts'

/** Measures what the watches of a server do, all together. */
export interface WatchMeter {
  /** @param result `looked`, `failed`, or why the frame was dropped. */
  frameEnded(result: string): void
  /** @param ms from the arrival of the frame until the findings of its look are stored. */
  looked(ms: number): void
  eventTold(type: EventType): void
  webhookSent(result: DeliveryResult): void
}
