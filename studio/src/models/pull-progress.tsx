import { Button } from '../widgets/button.tsx'
import { bytesText, durationText } from '../widgets/quantities.ts'
import { cancelPull, type FileProgress } from './pull.ts'

/** How far a pull is, file by file. */
export function PullProgress({ model, files }: { readonly model: string; readonly files: readonly FileProgress[] }) {
  return (
    <>
      <p role="status">
        Fetching <strong>{model}</strong>
        {files.at(-1)?.stage === 'checking' ? ', verifying the files' : ''}
      </p>
      <ul class="pull-files">
        {files.map((one, index) => (
          <FileRow key={one.file} file={one} isLast={index === files.length - 1} />
        ))}
      </ul>
      <div class="pull-actions">
        <Button icon="stop" onClick={cancelPull}>
          Cancel
        </Button>
        <span class="small-fact">Closing this page stops it. The next attempt resumes where it stopped.</span>
      </div>
    </>
  )
}

function FileRow({ file, isLast }: { readonly file: FileProgress; readonly isLast: boolean }) {
  return (
    <li>
      <span class="pull-file" title={file.file}>
        {file.file}
      </span>
      {file.total > 0 && <progress aria-label={`Progress of ${file.file}`} value={file.done} max={file.total} />}
      <span class="small-fact">{factsOf(file, isLast)}</span>
    </li>
  )
}

function factsOf({ stage, done, total, bytesPerSecond, secondsLeft }: FileProgress, isLast: boolean): string {
  if (stage === 'found') return 'on the disk'
  if (stage === 'checking') return isLast ? `${bytesText(total)}, checking…` : bytesText(total)
  return [
    `${bytesText(done)} of ${bytesText(total)}`,
    ...(bytesPerSecond > 0 ? [`${bytesText(bytesPerSecond)}/s`] : []),
    ...(secondsLeft === null || done === total ? [] : [`${durationText(secondsLeft)} left`]),
  ].join(' · ')
}
