import { signal } from '@preact/signals'
import { Button } from '../../widgets/button.tsx'
import { download } from '../../widgets/download.ts'
import { Segments } from '../../widgets/fields/segments.tsx'
import { Notice } from '../../widgets/notices/notice.tsx'
import { counted, shareText } from '../../widgets/quantities.ts'
import { results } from '../results.ts'
import { leastConfidence, sureSpots } from '../sureness.ts'
import { searchable, shownImage } from '../targets.ts'
import { EXPORT_FORMATS, type ExportFormat } from './export-files.ts'

const exported = signal<'one' | 'all'>('all')
const failure = signal<string | null>(null)

/** The results as a file, in the formats of the usual tools. */
export function ExportBar() {
  const all = searchable.value.filter(({ id }) => results.value.has(id))
  const one = all.filter(({ id }) => id === shownImage.value?.id)
  const pictures = exported.value === 'one' && one.length > 0 ? one : all
  if (pictures.length === 0) return null
  const hasBoxes = pictures.some(({ id }) => results.value.get(id)!.spots.some(({ kind }) => kind === 'box'))
  const unsure = pictures.reduce((sum, { id }) => {
    const result = results.value.get(id)!
    return sum + result.spots.length - sureSpots(result).length
  }, 0)
  const run = async ({ toFile }: ExportFormat) => {
    failure.value = null
    try {
      const file = await toFile(pictures)
      download(file, file.name)
    } catch (error) {
      failure.value = (error as Error).message
    }
  }
  return (
    <section class="export-bar" aria-label="Export">
      <p class="empty">
        {pictures.length === 1 ? pictures[0]!.name : `${pictures.length} pictures`}, with all edits
        {unsure > 0 && `, without ${counted(unsure, 'object')} below ${shareText(leastConfidence.value)}`}.
      </p>
      {all.length > 1 && one.length > 0 && (
        <Segments
          label="What to export"
          value={exported.value}
          choices={[
            { value: 'one', title: 'This picture' },
            { value: 'all', title: `All ${all.length}` },
          ]}
          onChoose={(value) => {
            exported.value = value
          }}
        />
      )}
      <div class="export-formats">
        {EXPORT_FORMATS.map((format) => (
          <Button
            key={format.title}
            disabled={format.isBoxesOnly === true && !hasBoxes}
            onClick={() => void run(format)}
          >
            {format.title}
          </Button>
        ))}
      </div>
      {failure.value && <Notice tone="error">{failure.value}</Notice>}
    </section>
  )
}
