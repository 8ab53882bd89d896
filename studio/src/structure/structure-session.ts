import { Reply, type SavedReply } from '../chat/reply.ts'
import { keepInSessions } from '../session/registry.ts'
import { optionsOf, orNull, recordOf, textOf } from '../session/shape.ts'
import {
  type AskedStructure,
  asked,
  DEFAULT_TEXTS,
  kind,
  NO_OPTIONS,
  options,
  question,
  texts,
  undoSteps,
} from './structure.ts'
import type { StructureKind } from './structure-examples.ts'

keepInSessions({
  name: 'structure',

  save() {
    const isPlain = kind.value === 'schema' && texts.value === DEFAULT_TEXTS && options.value === NO_OPTIONS
    if (isPlain && question.value === '' && asked.value === null) return undefined
    const last = asked.value
    return {
      kind: kind.value,
      texts: texts.value,
      question: question.value,
      options: options.value,
      asked: last && { kind: last.kind, text: last.text, question: last.question, reply: last.reply.save() },
    }
  },

  restore(saved) {
    asked.value?.reply.stop()
    asked.value = null
    undoSteps.value = []
    kind.value = 'schema'
    texts.value = DEFAULT_TEXTS
    question.value = ''
    options.value = NO_OPTIONS
    if (saved === undefined) return
    const given = recordOf(saved)
    const written = recordOf(given.texts)
    const restored = { schema: textOf(written.schema), regex: textOf(written.regex) }
    const last = orNull(given.asked, readAsked)
    question.value = textOf(given.question)
    kind.value = readKind(given.kind)
    texts.value = restored
    options.value = optionsOf(given.options, NO_OPTIONS)
    asked.value = last
  },

  title: () => asked.value?.question || question.value || null,
})

function readKind(value: unknown): StructureKind {
  return value === 'regex' ? 'regex' : 'schema'
}

function readAsked(value: unknown): AskedStructure {
  const { kind: form, text, question: asks, reply } = recordOf(value)
  return { kind: readKind(form), text: textOf(text), question: textOf(asks), reply: Reply.restore(readReply(reply)) }
}

/** The answer without its figures. */
function readReply(value: unknown): SavedReply {
  const { text, thoughts, finishReason } = recordOf(value)
  return {
    text: textOf(text),
    thoughts: textOf(thoughts),
    toolCalls: [],
    finishReason: orNull(finishReason, textOf),
    usage: null,
    firstMs: null,
    totalMs: null,
  }
}
