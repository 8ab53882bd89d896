import { draft, turns } from '../ask/conversation.ts'
import { focusDraft } from '../keyboard/shortcuts.ts'
import { attachments, bring } from '../media/attachments.ts'
import { bringSample } from '../media/samples.ts'
import { modeId } from '../mode-choice.ts'
import { chooseModel, models } from '../server/connection.ts'
import { beginSession } from '../session/sessions.ts'
import { catalogue } from './catalogue.ts'
import { newModel } from './examination.ts'

/**
 * A photograph for models that know photographs: by Rachel Michetti, in the public domain (CC0), from scikit-image, where it
 * is called `coffee`.
 */
const PHOTOGRAPH = { name: 'coffee.jpg', path: '/studio/samples/coffee.jpg' }

const QUESTIONS: Readonly<Record<string, string>> = {
  image: 'What is in this picture?',
  video: 'What happens in this video?',
  audio: 'What is said?',
}

/**
 * Chooses a model and makes a first question ready: about the user's own media where the model takes it, else about a
 * photograph. A conversation with another model becomes a session of its own, whose answers the new one does not read.
 */
export async function beginWith(id: string): Promise<void> {
  const modalities = models.value.find((one) => one.id === id)?.modalities ?? []
  const own = attachments.value.filter(({ path, kind }) => path === null && modalities.includes(kind))
  const asked = own.length > 0 ? turns.value.at(-1)?.question : undefined
  if (turns.value.length > 0 || own.length < attachments.value.length) {
    await beginSession()
    if (attachments.value.length === 0) await bring(own.map(({ blob, name }) => ({ blob, name })))
  }
  if (attachments.value.length === 0 && modalities.includes('image')) await bringSample(PHOTOGRAPH)
  chooseModel(id)
  newModel.value = id
  const { prompt } = catalogue.value?.data.find((one) => id.startsWith(`${one.repository}:`)) ?? {}
  const shown = attachments.value.at(-1)?.kind
  if (draft.value.trim() === '') {
    draft.value = prompt ?? asked ?? (shown ? QUESTIONS[shown] : undefined) ?? 'What can you help me with?'
  }
  modeId.value = 'ask'
  requestAnimationFrame(focusDraft)
}
