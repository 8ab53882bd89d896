export { contentTypeOf } from './content-type.ts'
export { isFileId } from './file-id.ts'
export {
  addStored,
  type FileQuery,
  Files,
  type HeldFile,
  lockStored,
  MAX_FILE_BYTES,
  type NewFile,
  PURPOSES,
  type Purpose,
  type StoredFile,
} from './files.ts'
