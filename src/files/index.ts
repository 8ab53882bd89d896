export { contentTypeOf, JSON_LINES } from './content-type.ts'
export { isFileId, SortedIds } from './file-id.ts'
export {
  type FileQuery,
  Files,
  MAX_BATCH_FILE_BYTES,
  MAX_FILE_BYTES,
  type NewFile,
  PURPOSES,
  type Purpose,
  type StoredFile,
  UPLOAD_PURPOSES,
} from './files.ts'
