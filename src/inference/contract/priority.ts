/**
 * Who waits for the answer, most urgent first: a person; a camera, whose next frame will arrive soon; no client. Live
 * work gets a bounded share of the time beside interactive work. Background work yields to all other work and uses the
 * capacity that is left.
 */
export const PRIORITIES = ['interactive', 'live', 'background'] as const
export type Priority = (typeof PRIORITIES)[number]

/** Whether work of one priority yields to work of another. */
export function yieldsTo(priority: Priority, other: Priority): boolean {
  return PRIORITIES.indexOf(priority) > PRIORITIES.indexOf(other)
}
