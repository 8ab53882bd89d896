import { Dialog } from '../widgets/dialog.tsx'
import { SHORTCUTS, shortcutsAreShown } from './shortcuts.ts'

export function ShortcutsDialog() {
  if (!shortcutsAreShown.value) return null
  return (
    <Dialog
      title="Keyboard"
      onClose={() => {
        shortcutsAreShown.value = false
      }}
    >
      <dl class="shortcuts">
        {SHORTCUTS.map(({ keys, what }) => (
          <div key={what}>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  )
}
