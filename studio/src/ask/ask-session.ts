import { Reply } from '../chat/reply.ts'
import { readSavedReply } from '../chat/saved-reply.ts'
import { keepInSessions } from '../session/registry.ts'
import { listOf, optionsOf, recordOf, textOf } from '../session/shape.ts'
import { FORMATS } from '../widgets/fields/formats.ts'
import { clearTurns, DEFAULT_OPTIONS, draft, options, pickedTurn, type Turn, turnOf, turns } from './conversation.ts'

keepInSessions({
  name: 'ask',

  save(keep) {
    const isEmpty = draft.value === '' && turns.value.length === 0 && options.value === DEFAULT_OPTIONS
    if (isEmpty) return undefined
    const saved = turns.value.map(({ id, question, media, sent, reply }) => {
      return { id, question, media: media.map(keep), sent, reply: reply.save() }
    })
    return { draft: draft.value, options: options.value, turns: saved, shown: pickedTurn.value }
  },

  restore(saved, find) {
    clearTurns()
    draft.value = ''
    options.value = DEFAULT_OPTIONS
    if (saved === undefined) return
    const { draft: text, options: given, turns: list, shown } = recordOf(saved)
    const read = (value: unknown): Turn => {
      const { id, question, media, sent, reply } = recordOf(value)
      return turnOf({
        id: textOf(id),
        question: textOf(question),
        media: listOf(media, textOf).flatMap((one) => find(one) ?? []),
        sent: listOf(sent, textOf),
        reply: Reply.restore(readSavedReply(reply)),
      })
    }
    turns.value = listOf(list, read)
    draft.value = textOf(text)
    const own = optionsOf(given, DEFAULT_OPTIONS)
    options.value = FORMATS.some(({ value }) => value === own.format) ? own : { ...own, format: '' }
    pickedTurn.value = typeof shown === 'string' ? shown : null
  },

  title: () => turns.value[0]?.question || draft.value || null,
})
