import { type Family, PLAIN } from './family.ts'
import { asksWith, QWEN3_ASR } from './transcription.ts'

// Families that take audio but no images. The cost of audio depends on the encoder: `audio-encoders.ts`.

export const qwen2Audio: Family = { ...PLAIN, title: 'Qwen2-Audio', projectors: ['qwen2a'] }
export const qwen3Asr: Family = {
  ...PLAIN,
  title: 'Qwen3-ASR',
  projectors: ['qwen3a'],
  transcription: QWEN3_ASR,
  translation: null,
}
/** Its language models come from several families. */
export const ultravox: Family = { ...PLAIN, title: 'Ultravox', projectors: ['ultravox'] }
export const voxtral: Family = { ...PLAIN, title: 'Voxtral', projectors: ['voxtral'] }
export const glmAsr: Family = {
  ...PLAIN,
  title: 'GLM-ASR',
  projectors: ['glma'],
  transcription: asksWith('Please transcribe this audio into text'),
  translation: null,
}
export const meralion: Family = {
  ...PLAIN,
  title: 'MERaLiON',
  projectors: ['meralion'],
  transcription: asksWith('Please transcribe this speech.'),
  translation: asksWith('Can you please translate this speech into written English?'),
}
export const musicFlamingo: Family = { ...PLAIN, title: 'Music Flamingo', projectors: ['musicflamingo'] }
export const lfm2Audio: Family = {
  ...PLAIN,
  title: 'LFM2-Audio',
  projectors: ['lfm2a'],
  transcription: { system: () => 'Perform ASR.' },
  translation: null,
}
export const graniteSpeech: Family = {
  ...PLAIN,
  title: 'Granite Speech',
  projectors: ['granite_speech'],
  transcription: asksWith('can you transcribe the speech into a written format?'),
  translation: asksWith('translate the speech to English'),
}
