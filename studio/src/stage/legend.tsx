import { ROLE_COLOURS } from '../marks/colours.ts'
import type { Mark, Role } from '../marks/mark.ts'

const MEANINGS: Readonly<Record<Role, string>> = {
  positive: 'example to look for',
  negative: 'shows none of them',
  matched: 'found, as in the file',
  missed: 'in the file, not found',
  extra: 'found, not in the file',
  unsure: 'hidden: less sure',
}

/** What the lines mean, where some are more than what a model found. */
export function Legend({ marks }: { readonly marks: readonly Mark[] }) {
  const present = new Set(marks.map(({ role }) => role))
  const roles = (Object.keys(MEANINGS) as Role[]).filter((role) => present.has(role))
  if (roles.length === 0) return null
  return (
    <ul class="legend" aria-label="Legend">
      {roles.map((role) => (
        <li key={role}>
          <svg
            class={`swatch ${role}`}
            width="24"
            height="14"
            style={{ '--mark': swatchColour(role) }}
            aria-hidden="true"
          >
            <rect class="shape" x="1.5" y="1.5" width="21" height="11" />
          </svg>
          {MEANINGS[role]}
        </li>
      ))}
    </ul>
  )
}

function swatchColour(role: Role): string {
  return ROLE_COLOURS[role]?.fill ?? 'var(--text)'
}
