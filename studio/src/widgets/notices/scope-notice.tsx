import type { ComponentChildren } from 'preact'
import { useKey } from '../../server/connection.ts'
import { Button } from '../button.tsx'
import { CopyButton } from '../copy-button.tsx'

interface ScopeNoticeProps {
  /** As the command takes them. */
  readonly scopes: string
  readonly title: string
  /** The way on; the command follows it. */
  readonly children: ComponentChildren
}

/** What the page's key may not do, and how to get one that may. Nothing went wrong, so it is no error. */
export function ScopeNotice({ scopes, title, children }: ScopeNoticeProps) {
  const command = `npx lookout keys create --scopes ${scopes}`
  return (
    <aside class="scope-notice" aria-label="What this key may not do">
      <p>{title}</p>
      <p class="small-fact">{children}</p>
      <code>{command}</code>
      <div class="scope-actions">
        <CopyButton text={() => command} />
        <Button icon="key" onClick={() => useKey(null)}>
          Enter another key
        </Button>
      </div>
    </aside>
  )
}
