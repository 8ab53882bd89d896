/** What a client says of a recording. */
export interface SpeechHints {
  /** In English, e.g. `German`. */
  readonly language: string | null
  /** Text before it, or names in it. */
  readonly context: string | null
}

/** How a model is asked to write down speech: what it is shown beside the sound. */
export interface TranscriptionForm {
  /** Before the turn with the sound; none if empty. */
  system?(hints: SpeechHints): string
  /** After the sound; none if empty. */
  text?(hints: SpeechHints): string
  /** A mark that the model writes before what was said. */
  readonly mark?: string
}

/** The form for models that follow instructions. */
const instructs = (task: string): TranscriptionForm => ({
  text: ({ language, context }) =>
    [
      task,
      ...(language === null ? [] : [`It is in ${language}.`]),
      ...(context === null ? [] : [`Context: ${context}`]),
    ].join(' '),
})
export const TRANSCRIBES = instructs('Transcribe the speech in this recording word for word, and write nothing else.')
export const TRANSLATES = instructs('Translate the speech in this recording into English, and write nothing else.')

/** Writes `language English<asr_text>` before what was said. */
export const QWEN3_ASR: TranscriptionForm = { system: ({ context }) => context ?? '', mark: '<asr_text>' }

/** The form for models that were trained with one text after the sound. */
export const asksWith = (text: string): TranscriptionForm => ({ text: () => text })
