import { attachments, restoreAttachments, select, selected } from '../media/attachments.ts'
import { sendsSound } from '../media/soundtrack.ts'
import { modeId } from '../mode-choice.ts'
import { MODES } from '../modes.ts'
import { keepInSessions } from './registry.ts'
import { listOf, recordOf, textOf } from './shape.ts'

/** The media on the stage. The questions of modes make the better titles. */
keepInSessions({
  name: 'stage',
  titlesLast: true,
  save(keep) {
    if (attachments.value.length === 0) return undefined
    return { media: attachments.value.map(keep), selected: selected.value?.id ?? null, sound: sendsSound.value }
  },
  restore(saved, find) {
    const { media, selected: id, sound } = recordOf(saved ?? { media: [] })
    restoreAttachments(listOf(media, textOf).flatMap((one) => find(one) ?? []))
    if (typeof id === 'string') select(id)
    sendsSound.value = sound === true
  },
  title: () => attachments.value[0]?.name ?? null,
})

keepInSessions({
  name: 'mode',
  isAside: true,
  save: () => modeId.value,
  restore(saved) {
    if (MODES.some(({ id }) => id === saved)) modeId.value = saved as string
  },
})
