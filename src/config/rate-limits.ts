/** The classes of endpoints by which requests are counted, and how many an organisation may make per minute in each. */
export const REQUESTS_PER_MINUTE = {
  chat: 300,
  multilook: 150,
  decisions: 150,
  embeddings: 300,
  stored_responses: 300,
  /** Ten per second: frames of a camera arrive one by one. */
  detect: 600,
  models: 30,
  file_upload: 60,
  file_list: 100,
  file_retrieve: 100,
  file_content: 30,
  file_delete: 100,
  batches: 60,
  watches: 60,
  media_fetch: 60,
} as const
export type Bucket = keyof typeof REQUESTS_PER_MINUTE
export const BUCKETS = Object.keys(REQUESTS_PER_MINUTE) as readonly Bucket[]

/** The limits that differ from `REQUESTS_PER_MINUTE`. */
export type LimitChanges = Readonly<Partial<Record<Bucket, number>>>
