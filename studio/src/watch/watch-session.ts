import { CAMERA_TYPES } from '../../../src/media/live/camera-source.ts'
import { keepInSessions } from '../session/registry.ts'
import { finiteOf, listOf, orNull, recordOf, textOf } from '../session/shape.ts'
import { clearDraft, FPS, fps, name, questions, type Rule, stopCreating } from './draft.ts'
import { PUSHED, type SourceDraft, source } from './source/camera-draft.ts'
import { chosen, chosenId, titleOf } from './watches.ts'

/** The chosen watch and the draft of another. The watches themselves are the server's. */
keepInSessions({
  name: 'watch',
  save() {
    const list = questions.all.value.map(({ text, find, rule }) => ({ text, find, rule }))
    // A session may be given to others.
    const { password, ...shown } = source.value
    const isPlain = name.value === '' && fps.value === FPS && source.value === PUSHED
    const isEmpty = isPlain && list.every(({ text, find }) => text === '' && find === '')
    if (isEmpty && chosenId.value === null) return undefined
    return {
      chosen: chosenId.value,
      draft: isEmpty ? null : { name: name.value, fps: fps.value, source: shown, questions: list },
    }
  },
  restore(saved) {
    stopCreating()
    clearDraft()
    chosenId.value = null
    if (saved === undefined) return
    const { chosen, draft } = recordOf(saved)
    const id = orNull(chosen, textOf)
    const read = orNull(draft, (one) => {
      const { name, fps, source, questions } = recordOf(one)
      return {
        name: textOf(name),
        fps: orNull(fps, finiteOf),
        source: orNull(source, readSource) ?? PUSHED,
        questions: listOf(questions, readQuestion),
      }
    })
    chosenId.value = id
    if (read === null) return
    name.value = read.name
    fps.value = read.fps
    source.value = read.source
    questions.replace(read.questions.map(({ text }) => text))
    for (const [index, one] of questions.all.value.entries()) questions.change(one.id, read.questions[index]!)
  },

  title: () => {
    const watch = chosenId.value === null ? null : chosen.value
    return watch === null ? questions.all.value[0]!.text.trim() || null : titleOf(watch)
  },
})

function readSource(value: unknown): SourceDraft {
  const { type, camera, url, username, certificate = '', records = false } = recordOf(value)
  const known = (['push', 'camera', ...CAMERA_TYPES] as const).find((one) => one === type)
  if (known === undefined) throw new Error('expected a source')
  const texts = { camera: textOf(camera), url: textOf(url), username: textOf(username), password: '' }
  return { type: known, ...texts, certificate: textOf(certificate), records: records === true }
}

function readQuestion(value: unknown): { readonly text: string; readonly find: string; readonly rule: Rule } {
  const { text, find, rule } = recordOf(value)
  const { above, below, for_seconds, clear_seconds } = recordOf(rule)
  return {
    text: textOf(text),
    find: textOf(find),
    rule: {
      above: orNull(above, finiteOf),
      below: orNull(below, finiteOf),
      for_seconds: orNull(for_seconds, finiteOf),
      clear_seconds: orNull(clear_seconds, finiteOf),
    },
  }
}
