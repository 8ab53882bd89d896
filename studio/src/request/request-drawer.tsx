import { signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { type Exchange, exchanges } from '../server/exchanges.ts'
import { IconButton } from '../widgets/button.tsx'
import { Segments } from '../widgets/fields/segments.tsx'
import { RequestView } from './request-view.tsx'
import { outcomeOf, ResponseView } from './response-view.tsx'

export const drawerIsOpen = signal(false)

type Side = 'request' | 'response'
const side = signal<Side>('request')
/** Null follows the latest. */
const chosenId = signal<number | null>(null)

const SIDES = [
  { value: 'request', title: 'Request' },
  { value: 'response', title: 'Response' },
] as const

/** What had the focus before the drawer opened. */
let before: Element | null = null

export function toggleDrawer(): void {
  if (drawerIsOpen.value) closeDrawer()
  else {
    before = document.activeElement
    drawerIsOpen.value = true
  }
}

function closeDrawer(): void {
  drawerIsOpen.value = false
  if (before instanceof HTMLElement && before.isConnected) before.focus()
}

/** The latest requests and their responses, as they were sent. */
export function RequestDrawer() {
  return drawerIsOpen.value ? <Drawer /> : null
}

function Drawer() {
  const aside = useRef<HTMLElement>(null)
  useEffect(() => aside.current?.focus(), [])
  const all = exchanges.value
  const exchange = all.find(({ id }) => id === chosenId.value) ?? all[0]
  return (
    <aside
      ref={aside}
      class="drawer"
      aria-label="Request and response"
      tabIndex={-1}
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return
        event.stopPropagation()
        closeDrawer()
      }}
    >
      <header>
        <Segments
          label="Show"
          value={side.value}
          choices={SIDES}
          onChoose={(value) => {
            side.value = value
          }}
        />
        {exchange && <ExchangeChoice all={all} chosen={exchange} />}
        <IconButton icon="close" label="Close" onClick={closeDrawer} />
      </header>
      {exchange === undefined ? (
        <p class="empty">Nothing has been sent yet. Ask something to see the request here.</p>
      ) : side.value === 'request' ? (
        <RequestView exchange={exchange} />
      ) : (
        <ResponseView exchange={exchange} />
      )}
    </aside>
  )
}

function ExchangeChoice({ all, chosen }: { readonly all: readonly Exchange[]; readonly chosen: Exchange }) {
  return (
    <select
      aria-label="Which request"
      value={chosenId.value === null ? '' : String(chosen.id)}
      onChange={(event) => {
        const { value } = event.currentTarget
        chosenId.value = value === '' ? null : Number(value)
      }}
    >
      <option value="">Latest</option>
      {all.map((one) => (
        <option key={one.id} value={String(one.id)}>
          {`${one.sentAt.toLocaleTimeString()} · ${one.path.replace('/v1/', '')} · ${outcomeOf(one)}`}
        </option>
      ))}
    </select>
  )
}
