export { examine, FIRST_CHECKS, IMAGES } from './examination.ts'
export { Examiner } from './examiner.ts'
export { brief, type Finding, isIll, listed, overall } from './finding.ts'
export { ended, keepExamining, newExamination, Superseded, withFindings } from './keep.ts'
