import { COLOURS, SHAPES, type Shape } from '../../test/support/drawn-shapes.ts'

export interface Question {
  readonly name: string
  readonly instructions: string
}

export interface Thing {
  readonly kind: Shape['kind']
  readonly colour: Shape['colour']
}

export function questionsOf(things: readonly Thing[], event: object): Question[] {
  return things.map(({ kind, colour }, index) => {
    const article = colour === 'orange' ? 'an' : 'a'
    return { name: `q${index}`, type: 'predicate', instructions: `Is there ${article} ${colour} ${kind}?`, event }
  })
}

/** As many questions as wanted, about all things. */
export function predicates(count: number): object[] {
  const kinds = Object.keys(SHAPES) as Shape['kind'][]
  const colours = Object.keys(COLOURS) as Shape['colour'][]
  const things = Array.from({ length: count }, (_, index) => ({
    kind: kinds[index % kinds.length]!,
    colour: colours[(index + Math.floor(index / 18)) % colours.length]!,
  }))
  const rule = { above: 0.7, below: 0.4, for_seconds: 2, clear_seconds: 5 }
  // After each of both, all different, other words for the same.
  const isNew = (index: number) => index < kinds.length * colours.length
  return questionsOf(things, rule).map((question, index) =>
    isNew(index) ? question : { ...question, instructions: question.instructions.replace('Is there', 'Do you see') },
  )
}
