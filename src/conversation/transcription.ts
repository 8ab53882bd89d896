import { FAMILIES } from '../families/families.ts'
import type { Family } from '../families/family.ts'
import { type SpeechHints, TRANSCRIBES, TRANSLATES, type TranscriptionForm } from '../families/transcription.ts'
import { invalidRequest } from '../lib/errors/errors.ts'
import type { ModelCard } from '../models/card.ts'
import type { ContentPart, Message } from './request/message.ts'

/** A conversation whose reply is a transcript. */
interface TranscriptionChat {
  readonly messages: readonly Message[]
  /** Ends the text that the model writes before the transcript; null for a model that writes only the transcript. */
  readonly mark: string | null
}

/** Whether to write down the speech, or its translation into English. */
export type SpeechTask = 'transcription' | 'translation'

/**
 * Asks a model to transcribe or translate speech, in the way its family was trained.
 * @throws ApiError 400 naming `model` for one that was not trained to translate.
 */
export function transcriptionChat(
  task: SpeechTask,
  sound: ContentPart,
  hints: SpeechHints,
  { family }: ModelCard,
): TranscriptionChat {
  const known: Family | null = family === null ? null : FAMILIES[family]
  const form = known?.[task]
  if (form === null) throw invalidRequest(`Models of the family '${family}' transcribe, but do not translate`, 'model')
  return chatOf(form ?? (task === 'translation' ? TRANSLATES : TRANSCRIBES), sound, hints)
}

function chatOf(form: TranscriptionForm, sound: ContentPart, hints: SpeechHints): TranscriptionChat {
  const [system, text] = [form.system?.(hints) ?? '', form.text?.(hints) ?? '']
  return {
    messages: [
      ...(system === '' ? [] : [{ role: 'system', content: system } as const]),
      { role: 'user', content: [sound, ...(text === '' ? [] : [{ type: 'text', text } as const])] },
    ],
    mark: form.mark ?? null,
  }
}
