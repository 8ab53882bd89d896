import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { AnnotatedText } from '../marks/annotated-text.tsx'
import type { ReplyPiece } from '../marks/reply-text.ts'
import { loadForSessions } from '../session/registry.ts'
import type { MarkdownView } from './markdown/markdown-view.tsx'

const loaded = signal<typeof MarkdownView | null>(null)

/** Never rejects: without its code, Markdown is shown as the model wrote it. */
const loadMarkdown = () =>
  import('./markdown/markdown-view.tsx').then(
    (module) => {
      loaded.value = module.MarkdownView
    },
    () => {},
  )

// What a session shows does not change its form after the first paint.
loadForSessions('ask', loadMarkdown)

/** A reply's text: Markdown, with annotations as chips. @param isOpen whether more of it may arrive. */
export function FormattedText({
  pieces,
  isOpen,
}: {
  readonly pieces: readonly ReplyPiece[]
  readonly isOpen: boolean
}) {
  useEffect(() => void loadMarkdown(), [])
  const View = loaded.value
  return View ? <View pieces={pieces} isOpen={isOpen} /> : <AnnotatedText pieces={pieces} />
}
