export { examine, IMAGES } from './examination.ts'
export { type Finding, isIll, overall } from './finding.ts'
