import type { EngineStatus } from './status-body.ts'

const STATES: Readonly<Record<EngineStatus['state'], string>> = {
  unloaded: 'not loaded',
  starting: 'loading',
  ready: 'loaded',
  restarting: 'restarting',
  closed: 'closed',
}

/** What an engine's state means to who wants to use its model. */
export function stateText(state: EngineStatus['state']): string {
  return STATES[state] ?? state
}
