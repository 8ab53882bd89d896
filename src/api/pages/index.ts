export { addStudioFetch, type StudioFetchOptions } from './fetch.ts'
export { type PageFiles, readPage } from './page-files.ts'
export { addReference } from './reference.ts'
export { addStudio } from './studio.ts'
