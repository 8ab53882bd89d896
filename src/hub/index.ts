/** Models of others: fetches them, keeps cards of them, removes them. */

export { type StoredCard, storedCards } from './cache/model-store.ts'
export { HubError } from './hub-error.ts'
export { readHubSettings } from './hub-settings.ts'
export { addModel, encodersBeside } from './local-file.ts'
export { pull } from './pull.ts'
export type { Choice, PullEvent, Report } from './pull-event.ts'
export { removeModel } from './remove.ts'
export { TUNING } from './tuning.ts'
export { formatBytes, formatSeconds } from './units.ts'
