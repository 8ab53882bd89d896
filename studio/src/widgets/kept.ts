import type { VNode } from 'preact'
import { useRef } from 'preact/hooks'

/** Elements that are rendered again only when what they show has changed: Preact passes over an element that is the same. */
export function useKept<State>() {
  const kept = useRef(new Map<string, { state: State; element: VNode }>())
  const before = kept.current
  const now: typeof before = new Map()
  kept.current = now
  return (id: string, state: State, render: () => VNode): VNode => {
    const known = before.get(id)
    const entry = known?.state === state ? known : { state, element: render() }
    now.set(id, entry)
    return entry.element
  }
}
