import { keepInSessions } from '../session/registry.ts'
import { listOf, numberOf, orNull, recordOf, textOf } from '../session/shape.ts'
import { clearDraft, fps, name, questions, type Rule } from './draft.ts'
import { chosen, chosenId, titleOf } from './watches.ts'

/** The chosen watch and the draft of another. The watches themselves are the server's. */
keepInSessions({
  name: 'watch',
  save() {
    const list = questions.all.value.map(({ text, find, rule }) => ({ text, find, rule }))
    const isEmpty = name.value === '' && list.every(({ text, find }) => text === '' && find === '')
    if (isEmpty && chosenId.value === null) return undefined
    return { chosen: chosenId.value, draft: isEmpty ? null : { name: name.value, fps: fps.value, questions: list } }
  },
  restore(saved) {
    clearDraft()
    chosenId.value = null
    if (saved === undefined) return
    const { chosen, draft } = recordOf(saved)
    const id = orNull(chosen, textOf)
    const read = orNull(draft, (one) => {
      const { name, fps, questions } = recordOf(one)
      return { name: textOf(name), fps: orNull(fps, numberOf), questions: listOf(questions, readQuestion) }
    })
    chosenId.value = id
    if (read === null) return
    name.value = read.name
    fps.value = read.fps
    questions.replace(read.questions.map(({ text }) => text))
    for (const [index, one] of questions.all.value.entries()) questions.change(one.id, read.questions[index]!)
  },

  title: () => {
    const watch = chosenId.value === null ? null : chosen.value
    return watch === null ? questions.all.value[0]!.text.trim() || null : titleOf(watch)
  },
})

function readQuestion(value: unknown): { readonly text: string; readonly find: string; readonly rule: Rule } {
  const { text, find, rule } = recordOf(value)
  const { above, below, for_seconds, clear_seconds } = recordOf(rule)
  return {
    text: textOf(text),
    find: textOf(find),
    rule: {
      above: orNull(above, numberOf),
      below: orNull(below, numberOf),
      for_seconds: orNull(for_seconds, numberOf),
      clear_seconds: orNull(clear_seconds, numberOf),
    },
  }
}
