export { addStudioFetch, type StudioFetchOptions } from './fetch.ts'
export { type PageFile, readPage } from './page-files.ts'
export { addStudio } from './studio.ts'
