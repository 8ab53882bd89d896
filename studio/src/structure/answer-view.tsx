import { signal } from '@preact/signals'
import { ReplyView } from '../chat/reply-view.tsx'
import { Button } from '../widgets/button.tsx'
import { CopyButton } from '../widgets/copy-button.tsx'
import { Segments } from '../widgets/fields/segments.tsx'
import { Icon } from '../widgets/icon.tsx'
import { Notice } from '../widgets/notices/notice.tsx'
import { type Table, tableOf } from './answer-table.ts'
import { type AskedStructure, askStructured, fault, faultsToShow, kind, refusal } from './structure.ts'
import { ValueTree } from './value-tree.tsx'

type View = 'text' | 'tree' | 'table'

/** What the user chose; another kind of answer may not have it. */
const chosen = signal<View | null>(null)

/** The answer as it arrives, and when it is whole, as a tree or a table. */
export function AnswerView({ asked }: { readonly asked: AskedStructure }) {
  const { reply } = asked
  const text = reply.text.value
  const value = reply.status.value === 'done' && asked.kind === 'schema' ? parsed(text) : undefined
  const table = tableOf(value)
  const views: View[] = ['text']
  if (typeof value === 'object' && value !== null) views.push('tree')
  if (table !== null) views.push('table')
  const view = chosen.value !== null && views.includes(chosen.value) ? chosen.value : views.at(-1)!
  return (
    <section class="structured-answer" data-view={view} aria-label="Answer">
      <div class="answer-head">
        <p class="question">{asked.question}</p>
        <div class="answer-tools">
          {views.length > 1 && (
            <Segments
              label="Show the answer as"
              value={view}
              choices={views.map((one) => ({ value: one, title: TITLES[one] }))}
              onChoose={(one) => {
                chosen.value = one
              }}
            />
          )}
          {text !== '' && <CopyButton text={() => text} title="Copy the answer" />}
        </div>
      </div>
      {view === 'tree' && <ValueTree value={value} />}
      {view === 'table' && table !== null && <AnswerTable table={table} />}
      {refusal.value?.asked === asked ? (
        <RefusalNotice />
      ) : (
        <ReplyView reply={reply} onRetry={() => void askStructured()}>
          {text}
        </ReplyView>
      )}
      <Validity asked={asked} />
    </section>
  )
}

/** The editor says what is wrong, at its place. */
function RefusalNotice() {
  const isShown = fault.value !== null
  const what = kind.value === 'schema' ? 'schema' : 'regular expression'
  return (
    <Notice
      tone="error"
      actions={
        isShown ? (
          <Button onClick={() => faultsToShow.value++}>Go to the error</Button>
        ) : (
          <Button onClick={() => void askStructured()}>Ask again</Button>
        )
      }
    >
      {isShown ? `The server cannot enforce this ${what}.` : `The ${what} has been changed.`}
    </Notice>
  )
}

const TITLES: Readonly<Record<View, string>> = { text: 'Text', tree: 'Tree', table: 'Table' }

/** What is known of a whole answer: that it has the form that was asked for, and no more. */
function Validity({ asked: { reply, kind: form } }: { readonly asked: AskedStructure }) {
  if (reply.status.value !== 'done') return null
  if (reply.finishReason.value === 'length') {
    return (
      <Notice tone="wait">
        Cut at the token limit: this is the beginning of a valid answer, not all of it. Allow more tokens in the
        settings.
      </Notice>
    )
  }
  return (
    <p class="validity">
      <Icon name="check" />
      {form === 'schema'
        ? 'Valid against the schema. Its content is not checked.'
        : 'Matches the expression. Its content is not checked.'}
    </p>
  )
}

function AnswerTable({ table: { columns, rows } }: { readonly table: Table }) {
  return (
    <div class="answer-table" tabIndex={0} role="region" aria-label={`Table of ${rows.length} rows`}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column} scope="col">
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index}>
              {columns.map((column) => (
                <td key={column} class={typeof row[column] === 'number' ? 'number' : ''}>
                  {written(row[column])}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function written(value: unknown): string {
  if (value === undefined) return ''
  if (Array.isArray(value)) return value.map(written).join(', ')
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** Undefined for text that is not JSON: an answer that was cut. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
