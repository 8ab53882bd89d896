export interface Sample {
  readonly name: string
  readonly path: string
  /** What it shows, for the button. */
  readonly title: string
  readonly icon: 'image' | 'video' | 'audio'
  /** Questions that the shipped model answers rightly (test/weights/studio-examples.test.ts). */
  readonly questions: readonly SampleQuestion[]
}

interface SampleQuestion {
  readonly question: string
  /** What to answer with; text by default. */
  readonly format?: 'box' | 'point' | 'clip'
  /** Whether it is about the soundtrack of the video. */
  readonly sound?: boolean
}

/** There to try, so that the first answer takes one click. `npm run samples` makes the video and the sound. */
export const SAMPLES: readonly Sample[] = [
  {
    name: 'shapes.png',
    path: '/studio/samples/shapes.png',
    title: 'Six shapes',
    icon: 'image',
    questions: [
      { question: 'Detect all objects.' },
      { question: 'Point to the purple heart.', format: 'point' },
      { question: 'Where is the blue star?' },
    ],
  },
  {
    name: 'shapes.webm',
    path: '/studio/samples/shapes.webm',
    title: 'Moving shapes',
    icon: 'video',
    questions: [
      { question: 'When does the red circle appear?', format: 'clip' },
      { question: 'What happens?' },
      { question: 'Which way does the blue star move?' },
      { question: 'What is said?', sound: true },
    ],
  },
  {
    name: 'words.mp3',
    path: '/studio/samples/words.mp3',
    title: 'A voice',
    icon: 'audio',
    questions: [
      { question: 'What is said?' },
      { question: 'What is the last word?' },
      { question: 'How many words are said?' },
    ],
  },
]
