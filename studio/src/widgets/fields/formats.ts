/** What answers mark places with; none for text. */
export type AnnotationFormat = '' | 'point' | 'box' | 'polygon' | 'clip'

export const FORMATS: readonly { readonly value: AnnotationFormat; readonly title: string }[] = [
  { value: '', title: 'Text' },
  { value: 'point', title: 'Points' },
  { value: 'box', title: 'Boxes' },
  { value: 'polygon', title: 'Polygons' },
  { value: 'clip', title: 'Clips' },
]
