import { keepInSessions } from '../session/registry.ts'
import { listOf, numberOf, optionsOf, orNull, recordOf, textOf } from '../session/shape.ts'
import { FORMATS } from '../widgets/fields/formats.ts'
import { facts, forgetLook, rows } from './look.ts'
import { readFacts } from './look-facts.ts'
import { DEFAULT_LOOK, lookOptions, MOST_COMPLETIONS, withCompletions } from './look-options.ts'
import { questions } from './questions.ts'
import { type Answer, Row, type SavedRow } from './row.ts'

keepInSessions({
  name: 'multilook',

  save() {
    const isEmpty = questions.all.value.every(({ text }) => text === '') && lookOptions.value === DEFAULT_LOOK
    if (isEmpty) return undefined
    const list = questions.all.value.map(({ id, text }) => ({ text, row: rows.value.get(id)?.save() ?? null }))
    return { questions: list, options: lookOptions.value, facts: facts.value }
  },

  restore(saved) {
    forgetLook()
    questions.replace([''])
    lookOptions.value = DEFAULT_LOOK
    if (saved === undefined) return
    const { questions: list, options, facts: took } = recordOf(saved)
    const read = listOf(list, (one) => {
      const { text, row } = recordOf(one)
      return { text: textOf(text), row: orNull(row, readRow) }
    }).slice(0, questions.most)
    const known = readOptions(options)
    const figures = orNull(took, readFacts)
    questions.replace(read.map(({ text }) => text))
    lookOptions.value = known
    rows.value = new Map(
      read.flatMap(({ row }, index) =>
        row === null ? [] : [[questions.all.value[index]!.id, Row.restore(row)] as const],
      ),
    )
    facts.value = figures
  },

  title: () => questions.all.value.find(({ text }) => text.trim() !== '')?.text ?? null,
})

function readOptions(value: unknown): typeof DEFAULT_LOOK {
  const options = optionsOf(value, DEFAULT_LOOK)
  const n = Math.min(MOST_COMPLETIONS, Math.max(1, Math.floor(options.n)))
  const isKnown = FORMATS.some((one) => one.value === options.format)
  return withCompletions({ ...options, format: isKnown ? options.format : '' }, n)
}

function readRow(value: unknown): SavedRow {
  const { question, sent, model, answers, tokens } = recordOf(value)
  return {
    question: textOf(question),
    sent: listOf(sent, textOf),
    model: orNull(model, textOf),
    answers: listOf(answers, readAnswer),
    tokens: orNull(tokens, numberOf),
  }
}

function readAnswer(value: unknown): Answer {
  const { text, thoughts, finishReason } = recordOf(value)
  return { text: textOf(text), thoughts: textOf(thoughts), finishReason: orNull(finishReason, textOf) }
}
