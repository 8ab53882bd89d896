import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { selected } from '../media/attachments.ts'
import { PlacesWarning } from '../models/model-note.tsx'
import { Segments } from '../widgets/fields/segments.tsx'
import { CompareSection } from './compare/compare-section.tsx'
import { ExportBar } from './export/export-bar.tsx'
import { onKey, spokenState } from './labelling/labelling.ts'
import { SpotEditor } from './labelling/spot-editor.tsx'
import { PictureList, ReviewBar } from './picture-list.tsx'
import { ResultHead } from './result-head.tsx'
import { ResultTable } from './result-table.tsx'
import { results } from './results.ts'
import { SearchForm } from './search-form.tsx'
import { SearchProgress } from './search-progress.tsx'
import { hiddenLabels } from './stage.ts'
import { shownImage } from './targets.ts'
import { shownVideo } from './tracks.ts'
import { TracksSection } from './tracks-section.tsx'

const VIEWS = [
  { value: 'objects', title: 'Objects' },
  { value: 'export', title: 'Export' },
  { value: 'compare', title: 'Compare' },
] as const
const view = signal<(typeof VIEWS)[number]['value']>('objects')

/** Finds objects on the pictures on the stage, and lets the results be corrected, compared and exported. */
export function DetectPanel() {
  useEffect(() => {
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
  const picture = shownImage.value
  const result = picture ? results.value.get(picture.id) : undefined
  const hasResults = results.value.size > 0 && shownVideo.value === null
  return (
    <>
      <SearchForm />
      <ReviewBar />
      <div class="panel-body detect-body">
        <SearchProgress />
        <PictureList />
        <PlacesWarning />
        {shownVideo.value !== null ? (
          <TracksSection video={shownVideo.value} />
        ) : picture === null ? (
          <p class="empty">
            {selected.value === null
              ? 'Put a picture or a video on the stage. What is found on it appears there and in a table here.'
              : 'Objects are found on pictures and in videos. Choose one below the stage.'}
          </p>
        ) : (
          <ResultHead picture={picture} result={result} />
        )}
        {hasResults && (
          <Segments
            label="View"
            value={view.value}
            choices={VIEWS}
            onChoose={(value) => {
              view.value = value
            }}
          />
        )}
        {hasResults && view.value === 'export' && <ExportBar />}
        {hasResults && view.value === 'compare' && <CompareSection />}
        {picture && result && result.spots.length > 0 && view.value === 'objects' && (
          <ResultTable result={result} media={picture.id} hidden={hiddenLabels.value} />
        )}
      </div>
      <SpotEditor />
      <p class="hidden" role="status" aria-label="Chosen">
        {spokenState.value}
      </p>
    </>
  )
}
