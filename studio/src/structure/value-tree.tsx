import { counted } from '../widgets/quantities.ts'

/** Lists and objects with more members than this are closed at first, but for the outermost. */
const MOST_OPEN = 20

/** A JSON value, to fold and unfold. */
export function ValueTree({ value }: { readonly value: unknown }) {
  return (
    <div class="value-tree">
      <Value value={value} isOuter />
    </div>
  )
}

interface ValueProps {
  readonly name?: string
  readonly value: unknown
  readonly isOuter?: boolean
}

function Value({ name, value, isOuter = false }: ValueProps) {
  const label = name === undefined ? null : <span class="tree-name">{name}: </span>
  if (typeof value !== 'object' || value === null) {
    return (
      <div class="tree-leaf">
        {label}
        <span class={`tree-${value === null ? 'null' : typeof value}`}>{JSON.stringify(value)}</span>
      </div>
    )
  }
  const isList = Array.isArray(value)
  const members = Object.entries(value)
  const count = isList ? counted(members.length, 'item') : ''
  if (members.length === 0) {
    return (
      <div class="tree-leaf">
        {label}
        {isList ? '[]' : '{}'}
      </div>
    )
  }
  return (
    <details open={isOuter || members.length <= MOST_OPEN}>
      <summary>
        {label}
        <span class="tree-count">{isList ? count : '{ }'}</span>
      </summary>
      {members.map(([key, member]) => (
        <Value key={key} name={key} value={member} />
      ))}
    </details>
  )
}
