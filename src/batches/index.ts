export { openBatchPlace } from './batch-place.ts'
export { BatchRunner, type BatchRunnerOptions, type LineCall } from './batch-runner.ts'
export { type Batch, Batches, isBatchId, type NewBatch } from './batches.ts'
export type { LineResponse } from './output-writer.ts'
