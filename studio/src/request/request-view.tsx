import { signal } from '@preact/signals'
import { key } from '../server/connection.ts'
import type { Exchange } from '../server/exchanges.ts'
import { Button } from '../widgets/button.tsx'
import { CopyButton } from '../widgets/copy-button.tsx'
import { download } from '../widgets/download.ts'
import { Segments } from '../widgets/fields/segments.tsx'
import { countText } from '../widgets/quantities.ts'
import { MediaRef, mediaOf } from './media-ref.ts'
import { LANGUAGES, type Language, writeSnippet } from './snippet.ts'

const language = signal<Language>('curl')
const CHOICES = LANGUAGES.map(({ language: value, title }) => ({ value, title }))

/** Longer texts are cut on the screen; the copy has all of them. */
const MOST_SHOWN = 4000

/** A request as a program that sends it again. */
export function RequestView({ exchange }: { readonly exchange: Exchange }) {
  const { method, path, accept, body } = exchange
  const write = (shownBody: unknown, shownKey: string) =>
    writeSnippet(language.value, {
      origin: location.origin,
      method,
      path,
      accept,
      body: shownBody ?? undefined,
      key: shownKey,
    })
  const own = [...mediaOf(body).values()].filter(({ media }) => media.path === null)
  return (
    <>
      <div class="drawer-tools">
        <Segments
          label="Language"
          value={language.value}
          choices={CHOICES}
          onChoose={(value) => {
            language.value = value
          }}
        />
        <CopyButton title="Copy it with the key" text={() => write(body, key.value ?? '')} />
      </div>
      {own.map(({ media, fileName }) => (
        <p class="drawer-note" key={fileName}>
          It reads <code>{fileName}</code> from the current folder.{' '}
          <Button kind="quiet" icon="download" onClick={() => download(media.blob, fileName)}>
            Save it
          </Button>
        </p>
      ))}
      <pre class="code" tabIndex={0} role="region" aria-label="The request, with the key masked">
        {write(shortened(body), masked(key.value ?? ''))}
      </pre>
    </>
  )
}

/** Enough to tell which key it is. */
function masked(given: string): string {
  return given.length < 16 ? '…' : `${given.slice(0, 3)}…${given.slice(-4)}`
}

function shortened(value: unknown): unknown {
  if (typeof value === 'string') {
    return value.length <= MOST_SHOWN
      ? value
      : `${value.slice(0, 200)}… (${countText(value.length - 200)} more characters)`
  }
  if (value === null || typeof value !== 'object' || value instanceof MediaRef) return value
  if (Array.isArray(value)) return value.map(shortened)
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, shortened(member)]))
}
