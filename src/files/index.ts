export { contentTypeOf, isDeclaredMedia, JSON_LINES } from './content-type.ts'
export { isFileId, SortedIds } from './file-id.ts'
export {
  addStored,
  type FileQuery,
  Files,
  type HeldFile,
  lockStored,
  MAX_BATCH_FILE_BYTES,
  MAX_FILE_BYTES,
  type NewFile,
  PURPOSES,
  type Purpose,
  type StoredFile,
  UPLOAD_PURPOSES,
} from './files.ts'
