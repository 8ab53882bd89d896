import type { Usage } from '../server/wire.ts'
import { listOf, numberOf, orNull, recordOf, textOf } from '../session/shape.ts'
import type { SavedReply } from './reply.ts'

/** A saved reply of any origin. @throws Error for another shape */
export function readSavedReply(value: unknown): SavedReply {
  const { text, thoughts, toolCalls, finishReason, usage, firstMs, totalMs } = recordOf(value)
  return {
    text: textOf(text),
    thoughts: textOf(thoughts),
    toolCalls: listOf(toolCalls, (one) => {
      const call = recordOf(one)
      const { name, arguments: given } = recordOf(call.function)
      return { id: textOf(call.id), type: 'function', function: { name: textOf(name), arguments: textOf(given) } }
    }),
    finishReason: orNull(finishReason, textOf),
    usage: orNull(usage, (given) => {
      const counts = recordOf(given)
      return {
        prompt_tokens: numberOf(counts.prompt_tokens),
        completion_tokens: numberOf(counts.completion_tokens),
        total_tokens: numberOf(counts.total_tokens),
        ...detailsOf(counts.prompt_tokens_details),
      }
    }),
    firstMs: orNull(firstMs, numberOf),
    totalMs: orNull(totalMs, numberOf),
  }
}

function detailsOf(value: unknown): Pick<Usage, 'prompt_tokens_details'> {
  if (value === null || value === undefined) return {}
  const counts = Object.entries(recordOf(value)).filter(([, count]) => typeof count === 'number')
  return { prompt_tokens_details: Object.fromEntries(counts) }
}
