import type { ComponentType } from 'preact'
import { useId } from 'preact/hooks'

interface TabsProps<Id extends string> {
  readonly label: string
  readonly tabs: readonly { readonly id: Id; readonly title: string; readonly Content: ComponentType }[]
  readonly chosen: Id
  onChoose(id: Id): void
}

/** Sections of a panel, of which one is there. Arrow keys, Home and End go from tab to tab. */
export function Tabs<Id extends string>({ label, tabs, chosen, onChoose }: TabsProps<Id>) {
  const own = useId()
  const index = tabs.findIndex(({ id }) => id === chosen)
  const { Content } = tabs[index]!
  const move = (event: KeyboardEvent) => {
    const targets: Readonly<Record<string, number>> = {
      ArrowRight: (index + 1) % tabs.length,
      ArrowLeft: (index + tabs.length - 1) % tabs.length,
      Home: 0,
      End: tabs.length - 1,
    }
    const target = targets[event.key]
    if (target === undefined) return
    event.preventDefault()
    onChoose(tabs[target]!.id)
    ;(event.currentTarget as HTMLElement).querySelectorAll('button')[target]?.focus()
  }
  return (
    <>
      <div class="tabs" role="tablist" aria-label={label} onKeyDown={move}>
        {tabs.map(({ id, title }) => (
          <button
            key={id}
            type="button"
            role="tab"
            id={`${own}-${id}`}
            aria-selected={id === chosen}
            aria-controls={`${own}-panel`}
            tabIndex={id === chosen ? 0 : -1}
            onClick={() => onChoose(id)}
          >
            {title}
          </button>
        ))}
      </div>
      <div class="panel-body" role="tabpanel" id={`${own}-panel`} aria-labelledby={`${own}-${chosen}`} tabIndex={0}>
        <Content />
      </div>
    </>
  )
}
