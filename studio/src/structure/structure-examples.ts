export type StructureKind = 'schema' | 'regex'

export interface StructureExample {
  readonly title: string
  readonly kind: StructureKind
  readonly question: string
  /** JSON of a schema, or a regular expression. */
  readonly text: string
}

const COLOURS = ['red', 'green', 'blue', 'yellow', 'orange', 'purple', 'pink', 'brown', 'black', 'white', 'gray']
const PLACES = ['top left', 'top center', 'top right', 'bottom left', 'bottom center', 'bottom right']

/** What the shipped model answers rightly about the sample picture (test/weights/studio-examples.test.ts). */
export const STRUCTURE_EXAMPLES: readonly StructureExample[] = [
  {
    title: 'A list',
    kind: 'schema',
    question: 'What is in this image?',
    text: schemaOf({ objects: { type: 'array', items: { type: 'string', maxLength: 40 } } }),
  },
  {
    title: 'A sentence',
    kind: 'schema',
    question: 'Describe the image.',
    text: schemaOf({ description: { type: 'string', maxLength: 200 } }),
  },
  {
    title: 'A colour',
    kind: 'schema',
    question: 'What colour is the heart?',
    text: schemaOf({ colour: { enum: COLOURS } }),
  },
  {
    title: 'A place',
    kind: 'schema',
    question: 'Where is the blue star?',
    text: schemaOf({ place: { enum: PLACES } }),
  },
  {
    title: 'A count',
    kind: 'schema',
    question: 'How many squares are there?',
    text: schemaOf({ count: { type: 'integer' } }),
  },
  {
    title: 'True or false',
    kind: 'schema',
    question: 'Is there a red circle?',
    text: schemaOf({ answer: { type: 'boolean' } }),
  },
  { title: 'A number', kind: 'regex', question: 'How many squares are there?', text: '[0-9]{1,2}' },
  {
    title: 'A colour and a shape',
    kind: 'regex',
    question: 'What is in the top left corner?',
    text: '(red|green|blue|orange|purple) (circle|square|triangle|star|heart)',
  },
]

/** Schema of an object with these properties and no others. */
function schemaOf(properties: Readonly<Record<string, object>>): string {
  return written({ type: 'object', properties, required: Object.keys(properties), additionalProperties: false })
}

/** Indented, with short lists on one line. */
function written(schema: object): string {
  return JSON.stringify(schema, null, 2).replace(/\[[^[\]{}]*\]/g, (list) => {
    const line = list
      .replace(/\s*\n\s*/g, ' ')
      .replace('[ ', '[')
      .replace(' ]', ']')
    return line.length <= 60 ? line : list
  })
}
