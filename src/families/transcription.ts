/** A client's hints about a recording. */
export interface SpeechHints {
  /** In English, e.g. `German`. */
  readonly language: string | null
  /** Preceding text, or names in the recording. */
  readonly context: string | null
}

/** How a model is asked to transcribe speech: the text around the audio. */
export interface TranscriptionForm {
  /** The system turn; none if empty. */
  system?(hints: SpeechHints): string
  /** The text after the audio; none if empty. */
  text?(hints: SpeechHints): string
  /** A mark that the model writes before the transcript. */
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

/** Writes `language English<asr_text>` before the transcript. */
export const QWEN3_ASR: TranscriptionForm = { system: ({ context }) => context ?? '', mark: '<asr_text>' }

/** The form for models that were trained with a fixed text after the audio. */
export const asksWith = (text: string): TranscriptionForm => ({ text: () => text })
