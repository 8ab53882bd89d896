/** The formats in which pictures are drawn, by the endings of their files. */
export const PICTURE_FORMATS = { '.png': 'png', '.jpg': 'jpeg', '.jpeg': 'jpeg', '.webp': 'webp' } as const
export type PictureFormat = (typeof PICTURE_FORMATS)[keyof typeof PICTURE_FORMATS]
