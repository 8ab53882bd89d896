import { counted, countText } from '../widgets/quantities.ts'
import { type LookFacts, sharingOf } from './look-facts.ts'

/** Prompt tokens that were computed, beside those of as many separate calls. */
export function Sharing({ facts: known }: { readonly facts: LookFacts }) {
  const sharing = sharingOf(known)
  if (sharing === null) return null
  const { all, computed } = sharing
  return (
    <div class="look-sharing">
      <div class="look-bar" aria-hidden="true">
        <span style={{ width: `${(computed / all) * 100}%` }} />
      </div>
      <p>
        Asked one by one: {counted(all, 'prompt token')}. Here {countText(computed)} were computed,{' '}
        {(all / computed).toFixed(1)} times fewer.
      </p>
    </div>
  )
}
