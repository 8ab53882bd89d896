/**
 * By who waits for the answer, the most urgent first: a person; a camera, whose next frame is about to come; no client. Live
 * work has a bounded share of the time beside interactive work. Background work gives way to all other work, and uses the
 * capacity that is left.
 */
export const PRIORITIES = ['interactive', 'live', 'background'] as const
export type Priority = (typeof PRIORITIES)[number]

/** Whether work of a priority gives way to work of another. */
export function yieldsTo(priority: Priority, other: Priority): boolean {
  return PRIORITIES.indexOf(priority) > PRIORITIES.indexOf(other)
}
