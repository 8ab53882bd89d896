export { drawMarks, PICTURE_FORMATS, type PictureFormat, pictureSize } from './draw.ts'
export type { Mark } from './mark.ts'
export { Palette } from './palette.ts'
