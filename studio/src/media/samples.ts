import { bring } from './attachments.ts'

export interface Sample {
  readonly name: string
  readonly path: string
  /** What it shows, for the button. */
  readonly title: string
  /** A question that the shipped model answers well. */
  readonly question: string
}

/** There to try, so that the first answer takes one click. */
export const SAMPLES: readonly Sample[] = [
  { name: 'shapes.png', path: '/studio/samples/shapes.png', title: 'Six shapes', question: 'Detect all objects.' },
]

/** Puts a sample on the stage. */
export async function bringSample({ name, path }: Sample): Promise<void> {
  const response = await fetch(path)
  await bring([{ blob: await response.blob(), name, path }])
}
