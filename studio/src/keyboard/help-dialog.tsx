import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { Mode } from '../modes.ts'
import { Dialog } from '../widgets/dialogs/dialog.tsx'
import type { Shortcut } from './shortcut.ts'
import { helpIsShown, SHORTCUTS } from './shortcuts.ts'

/** What `GET /` says of the documentation: a server may have none. */
interface Links {
  readonly docs?: string
  readonly guide?: string
}

/** The keys of the page and of the open mode, and where to read more. */
export function HelpDialog({ mode }: { readonly mode: Mode }) {
  return helpIsShown.value ? <Help mode={mode} /> : null
}

function Help({ mode: { title, keys } }: { readonly mode: Mode }) {
  const links = useSignal<Links>({})
  useEffect(() => {
    // Without an answer, there is nothing to link to either.
    fetch('/', { headers: { accept: 'application/json' } })
      .then(async (response) => {
        links.value = ((await response.json()) as { links: Links }).links
      })
      .catch(() => {})
  }, [])
  const { docs, guide } = links.value
  return (
    <Dialog
      title="Help"
      onClose={() => {
        helpIsShown.value = false
      }}
    >
      {guide && docs && (
        <p>
          {/* In a tab of its own: an answer may be on its way here. */}
          <a href={new URL('studio.html', new URL(guide, location.href)).href} target="_blank" rel="noopener">
            About the Studio
          </a>
          {' · '}
          <a href={guide} target="_blank" rel="noopener">
            All documentation
          </a>
          {' · '}
          <a href={docs} target="_blank" rel="noopener">
            API reference
          </a>
        </p>
      )}
      {keys && keys.value.length > 0 && (
        <>
          <h3>Keys in {title}</h3>
          <Keys keys={keys.value} />
        </>
      )}
      <h3>Keys in all modes</h3>
      <Keys keys={SHORTCUTS} />
    </Dialog>
  )
}

function Keys({ keys }: { readonly keys: readonly Shortcut[] }) {
  return (
    <dl class="shortcuts">
      {keys.map(({ keys: pressed, what }) => (
        <div key={what}>
          <dt>
            {pressed.map((key) => (
              <kbd key={key}>{key}</kbd>
            ))}
          </dt>
          <dd>{what}</dd>
        </div>
      ))}
    </dl>
  )
}
