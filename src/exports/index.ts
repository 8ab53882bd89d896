export { toCoco } from './coco.ts'
export { csvLine } from './csv.ts'
export type { DetectedBox, DetectedPicture } from './detected-picture.ts'
export { toYolo, yoloName } from './yolo.ts'
