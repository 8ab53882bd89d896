import type { ComponentChildren } from 'preact'
import type { Failure, MediaAtFault } from '../server/failure.ts'
import { Button } from '../widgets/button.tsx'
import { FailureNotice } from '../widgets/notices/failure-notice.tsx'
import { WaitNotice } from '../widgets/notices/wait-notice.tsx'
import { millisecondsText } from '../widgets/quantities.ts'
import type { Reply } from './reply.ts'

interface ReplyViewProps {
  readonly reply: Reply
  /** Its text. */
  readonly children: ComponentChildren
  onRetry(without?: MediaAtFault): void
  /** Tools of a reply that has ended. */
  readonly tools?: ComponentChildren
  /** Ways on besides trying again. */
  waysOn?(failure: Failure): ComponentChildren
}

/** A reply with its thoughts, its calls of tools, what it cost, and what went wrong. */
export function ReplyView({ reply, children, tools, onRetry, waysOn }: ReplyViewProps) {
  const status = reply.status.value
  const failure = reply.failure.value
  const wait = reply.wait.value
  return (
    <div class="reply" aria-busy={reply.isBusy.value}>
      {reply.thoughts.value !== '' && (
        <details class="thoughts">
          <summary>{reply.text.value === '' && status === 'streaming' ? 'Thinking…' : 'Thoughts'}</summary>
          <p>{reply.thoughts.value}</p>
        </details>
      )}
      <div class="reply-text" aria-live="polite">
        {children}
        {reply.isBusy.value && wait === null && <span class="cursor" />}
      </div>
      {reply.toolCalls.value.map((call) => (
        <div class="tool-call" key={call.id}>
          <span class="tool-name">{call.function.name}</span>
          <pre>{indented(call.function.arguments)}</pre>
        </div>
      ))}
      {wait !== null && <WaitNotice wait={wait} onCancel={() => reply.stop()} />}
      {failure && <FailureNotice failure={failure} actions={waysOn?.(failure)} onRetry={onRetry} />}
      {status === 'stopped' && (
        <p class="reply-facts">
          Stopped.{' '}
          <Button kind="quiet" onClick={() => onRetry()}>
            Try again
          </Button>
        </p>
      )}
      {!reply.isBusy.value && (
        <div class="reply-end">
          {status === 'done' && <Facts reply={reply} />}
          {tools && <div class="reply-tools">{tools}</div>}
        </div>
      )}
    </div>
  )
}

const ENDS: Readonly<Record<string, string>> = {
  length: 'cut at the token limit',
  tool_limit: 'ended at the limit of looks',
  tool_error: 'ended by a look at no valid region',
  interrupted: 'ended by the server',
}

/** A whole annotation arrives at once: over a shorter time than this, tokens per second say nothing. */
const LEAST_SPAN_MS = 50

function Facts({ reply }: { readonly reply: Reply }) {
  const usage = reply.usage.value
  const [first, total] = [reply.firstMs.value, reply.totalMs.value]
  const facts: string[] = []
  if (usage) facts.push(`${usage.prompt_tokens} + ${usage.completion_tokens} tokens`)
  if (first !== null) facts.push(`first after ${millisecondsText(first)}`)
  if (usage && first !== null && total !== null && total - first > LEAST_SPAN_MS) {
    facts.push(`${((usage.completion_tokens - 1) / ((total - first) / 1000)).toFixed(0)} tokens/s`)
  }
  const end = ENDS[reply.finishReason.value ?? '']
  if (end) facts.push(end)
  return <p class="reply-facts">{facts.join(' · ')}</p>
}

/** JSON with line breaks; what is not whole yet stays as it is. */
function indented(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2)
  } catch {
    return json
  }
}
