export { contentTypeOf } from './content-type.ts'
export { isFileId } from './file-id.ts'
export {
  type FileQuery,
  Files,
  MAX_FILE_BYTES,
  type NewFile,
  PURPOSES,
  type Purpose,
  type StoredFile,
} from './files.ts'
