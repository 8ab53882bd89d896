import { model } from '../../server/connection.ts'
import { type AnnotationFormat, FORMATS } from './formats.ts'
import { Segments } from './segments.tsx'

interface FormatChoiceProps {
  readonly value: AnnotationFormat
  onChoose(format: AnnotationFormat): void
}

/** What answers mark places with, of what the model can. */
export function FormatChoice({ value, onChoose }: FormatChoiceProps) {
  const known = new Set(model.value?.output_formats ?? [])
  const offered = FORMATS.filter((one) => one.value === '' || known.has(one.value) || known.has(`${one.value}s`))
  return <Segments label="Answer with" value={value} choices={offered} onChoose={onChoose} />
}
