import sharp from 'sharp'
import { COLOURS, drawing, SHAPES } from '../../test/support/drawn-shapes.ts'
import type { FreshText } from './prompts.ts'

/** A question about a picture whose answer is yes or no. */
interface KnownQuestion {
  readonly question: string
  readonly answer: boolean
}

export interface KnownPicture {
  /** Data URL of a PNG. */
  readonly url: string
  /** As many as were asked for, all different; every other one is answered with yes. */
  readonly questions: readonly KnownQuestion[]
}

const KINDS = Object.keys(SHAPES) as (keyof typeof SHAPES)[]
const NAMES = Object.keys(COLOURS) as (keyof typeof COLOURS)[]
const OBJECTS = 5
const SIDE = 256
const COLUMNS = 3

/** Phrasings that the shipped model has learnt. */
const ABOUT_ONE = [
  'Is there {a}?',
  'Is there {a} in the picture?',
  'Do you see {a}?',
  'Can you see {a}?',
  'Does the picture show {a}?',
  'Does the image contain {a}?',
  'Is there {a} here?',
  'Did you find {a}?',
  'Have you seen {a}?',
  'Is there {a} anywhere?',
  'Does the photo show {a}?',
  'Is there {a} in the image?',
  'Does this picture have {a}?',
  'Is there {a} to be seen?',
  'Can {a} be seen?',
  'Do you see {a} in this picture?',
]
const ABOUT_COLOUR = [
  'Is there anything {}?',
  'Is anything {}?',
  'Do you see anything {}?',
  'Is something {} in the picture?',
  'Is there something {} in this picture?',
  'Are there any {} objects?',
  'Are there {} things?',
  'Does the picture show anything {}?',
]

/** A new picture, with objects of different kinds and colours, and questions about it. */
export async function knownPicture(fresh: FreshText, questions: number): Promise<KnownPicture> {
  const kinds = shuffled(fresh, KINDS)
  const colours = shuffled(fresh, NAMES)
  const cells = shuffled(fresh, [...Array(COLUMNS ** 2).keys()])
  const drawn = kinds.slice(0, OBJECTS).map((kind, i) => {
    const step = SIDE / COLUMNS
    const [x, y] = [cells[i]! % COLUMNS, Math.floor(cells[i]! / COLUMNS)].map((at) => (at + 0.5) * step)
    return { kind, colour: colours[i]!, x: x!, y: y!, scale: (45 + fresh.next(25)) / 100 }
  })
  const svg = drawing(SIDE, `hsl(${fresh.next(360)} 20% 93%)`, drawn)
  const png = await sharp(Buffer.from(svg)).png().toBuffer()

  const present = kinds.slice(0, OBJECTS).map((kind, i) => `${colours[i]} ${kind}`)
  const absent = NAMES.flatMap((colour) => KINDS.map((kind) => `${colour} ${kind}`)).filter(
    (name) => !present.includes(name),
  )
  const [here, away] = [colours.slice(0, OBJECTS), colours.slice(OBJECTS)]
  const yes = shuffled(fresh, [
    ...asked(ABOUT_ONE, [...present, ...kinds.slice(0, OBJECTS)], true),
    ...asked(ABOUT_COLOUR, here, true),
  ])
  const no = shuffled(fresh, [...asked(ABOUT_ONE, absent, false), ...asked(ABOUT_COLOUR, away, false)])
  const half = Math.ceil(questions / 2)
  if (yes.length < half) throw new Error(`There are only ${yes.length} questions whose answer is yes.`)
  const mixed = yes.slice(0, half).flatMap((question, i) => [question, no[i]!])
  return { url: `data:image/png;base64,${png.toString('base64')}`, questions: mixed.slice(0, questions) }
}

function asked(phrasings: readonly string[], names: readonly string[], answer: boolean): KnownQuestion[] {
  return phrasings.flatMap((phrasing) =>
    names.map((name) => {
      const article = /^[aeiou]/.test(name) ? 'an' : 'a'
      return { question: phrasing.replace('{a}', `${article} ${name}`).replace('{}', name), answer }
    }),
  )
}

function shuffled<Item>(fresh: FreshText, items: readonly Item[]): Item[] {
  const mixed = [...items]
  for (let last = mixed.length - 1; last > 0; last--) {
    const other = fresh.next(last + 1)
    ;[mixed[last], mixed[other]] = [mixed[other]!, mixed[last]!]
  }
  return mixed
}
