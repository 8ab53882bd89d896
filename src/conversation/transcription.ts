import { FAMILIES } from '../families/families.ts'
import type { Family } from '../families/family.ts'
import { type SpeechHints, TRANSCRIBES } from '../families/transcription.ts'
import type { ModelCard } from '../models/card.ts'
import type { ContentPart, Message } from './request/message.ts'

/** A conversation whose reply is a transcript. */
interface TranscriptionChat {
  readonly messages: readonly Message[]
  /** What the model writes before the transcript ends with this; null for a model that writes nothing else. */
  readonly mark: string | null
}

/** Asks a model to write down what is said, as its family was trained to. */
export function transcriptionChat(sound: ContentPart, hints: SpeechHints, { family }: ModelCard): TranscriptionChat {
  const known: Family | null = family === null ? null : FAMILIES[family]
  const form = known?.transcription ?? TRANSCRIBES
  const [system, text] = [form.system?.(hints) ?? '', form.text?.(hints) ?? '']
  return {
    messages: [
      ...(system === '' ? [] : [{ role: 'system', content: system } as const]),
      { role: 'user', content: [sound, ...(text === '' ? [] : [{ type: 'text', text } as const])] },
    ],
    mark: form.mark ?? null,
  }
}
