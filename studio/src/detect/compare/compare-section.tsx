import { useRef } from 'preact/hooks'
import type { Score } from '../../../../src/exports/box-matching.ts'
import { Button, IconButton } from '../../widgets/button.tsx'
import { Notice } from '../../widgets/notices/notice.tsx'
import { counted } from '../../widgets/quantities.ts'
import { comparisons, knownFile, knownFileError, leastIou, openKnownFile } from './comparison.ts'

/** Compares what was found with boxes that are known, from a COCO file. */
export function CompareSection() {
  const input = useRef<HTMLInputElement>(null)
  const compared = comparisons.value
  return (
    <section class="compare" aria-label="Compare">
      <div class="compare-head">
        <input
          ref={input}
          type="file"
          class="hidden"
          accept=".json,application/json"
          aria-label="COCO file"
          tabIndex={-1}
          onChange={async ({ currentTarget }) => {
            const [file] = currentTarget.files ?? []
            if (file) await openKnownFile(file)
            currentTarget.value = ''
          }}
        />
        {knownFile.value === null ? (
          <>
            <p class="empty">Compare with known boxes: each box is then matched, missed or extra.</p>
            <Button icon="upload" onClick={() => input.current?.click()}>
              Open a COCO file
            </Button>
          </>
        ) : (
          <>
            <span class="compare-name">{knownFile.value.name}</span>
            <IconButton
              icon="close"
              label="End the comparison"
              onClick={() => {
                knownFile.value = null
              }}
            />
          </>
        )}
      </div>
      {knownFileError.value && <Notice tone="error">{knownFileError.value}</Notice>}
      {compared && (
        <>
          <label class="slider">
            Same object at IoU
            <input
              type="range"
              min={0.05}
              max={0.95}
              step={0.05}
              value={leastIou.value}
              onInput={({ currentTarget }) => {
                leastIou.value = currentTarget.valueAsNumber
              }}
            />
            <output>{leastIou.value.toFixed(2)}</output>
          </label>
          {compared.outcomes.size > 0 && <ScoreTable labels={compared.labels} total={compared.total} />}
          {compared.outcomes.size + compared.ambiguous.length === 0 && (
            <p class="empty">
              No searched picture has a name from this file. Pictures are matched by their file names.
            </p>
          )}
          {compared.ambiguous.length > 0 && (
            <Notice tone="wait">
              Not compared, because several pictures have the same name: {compared.ambiguous.join(', ')}.
            </Notice>
          )}
          {compared.outcomes.size > 0 && compared.absent > 0 && (
            <p class="empty">
              {counted(compared.absent, 'picture')} of the file {compared.absent === 1 ? 'is' : 'are'} not on the stage,
              or not searched yet.
            </p>
          )}
          {compared.otherSizes.length > 0 && (
            <Notice tone="wait">
              The file has another size for {compared.otherSizes.join(', ')}. Its boxes may be in the wrong places.
            </Notice>
          )}
        </>
      )}
    </section>
  )
}

function ScoreTable({ labels, total }: { readonly labels: readonly Score[]; readonly total: Score }) {
  return (
    <table class="scores" aria-label="Agreement">
      <thead>
        <tr>
          <th scope="col">Label</th>
          <th scope="col">Matched</th>
          <th scope="col">Missed</th>
          <th scope="col">Extra</th>
          <th scope="col">Precision</th>
          <th scope="col">Recall</th>
          <th scope="col">IoU</th>
        </tr>
      </thead>
      <tbody>
        {labels.map((score) => (
          <ScoreRow key={score.label} score={score} />
        ))}
      </tbody>
      {labels.length > 1 && (
        <tfoot>
          <ScoreRow score={total} />
        </tfoot>
      )}
    </table>
  )
}

function ScoreRow({ score }: { readonly score: Score }) {
  const { label, known, found, matched, precision, recall, meanIou } = score
  const part = (value: number | null) => (value === null ? '–' : value.toFixed(2))
  return (
    <tr>
      <th scope="row">{label}</th>
      <td>{matched}</td>
      <td>{known - matched}</td>
      <td>{found - matched}</td>
      <td>{part(precision)}</td>
      <td>{part(recall)}</td>
      <td>{part(meanIou)}</td>
    </tr>
  )
}
