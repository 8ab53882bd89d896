import { signal } from '@preact/signals'
import { exchanges } from '../server/exchanges.ts'
import { IconButton } from '../widgets/button.tsx'

export const drawerIsOpen = signal(false)

/** The latest request and its response, as they were sent. */
export function RequestDrawer() {
  if (!drawerIsOpen.value) return null
  const [exchange] = exchanges.value
  return (
    <aside class="drawer" aria-label="Request">
      <header>
        <h2>Request</h2>
        <IconButton icon="close" label="Close" onClick={() => (drawerIsOpen.value = false)} />
      </header>
      {exchange === undefined ? (
        <p class="empty">Nothing was sent yet.</p>
      ) : (
        <pre>{JSON.stringify(exchange.body, shorten, 2)}</pre>
      )}
    </aside>
  )
}

function shorten(_key: string, value: unknown): unknown {
  return typeof value === 'string' && value.length > 200 ? `${value.slice(0, 60)}… (${value.length} characters)` : value
}
