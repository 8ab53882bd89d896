import type { Mode } from '../modes.ts'
import { Dialog } from '../widgets/dialog.tsx'
import type { Shortcut } from './shortcut.ts'
import { helpIsShown, SHORTCUTS } from './shortcuts.ts'

/** The keys of the page and of the open mode, and where to read more. */
export function HelpDialog({ mode: { title, keys } }: { readonly mode: Mode }) {
  if (!helpIsShown.value) return null
  return (
    <Dialog
      title="Help"
      onClose={() => {
        helpIsShown.value = false
      }}
    >
      <p>
        {/* In a tab of its own: an answer may be on its way here. */}
        <a href="/docs/guide/studio.html" target="_blank" rel="noopener">
          About the Studio
        </a>
        {' · '}
        <a href="/docs/guide/index.html" target="_blank" rel="noopener">
          All documentation
        </a>
        {' · '}
        <a href="/docs" target="_blank" rel="noopener">
          Reference of the API
        </a>
      </p>
      {keys && keys.value.length > 0 && (
        <>
          <h3>Keys in {title}</h3>
          <Keys keys={keys.value} />
        </>
      )}
      <h3>Keys</h3>
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
