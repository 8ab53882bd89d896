export type StructureKind = 'schema' | 'regex'

export interface StructureExample {
  readonly title: string
  readonly kind: StructureKind
  readonly question: string
  /** JSON of a schema, or a regular expression. */
  readonly text: string
}

const COLOURS = ['red', 'green', 'blue', 'yellow', 'orange', 'purple', 'pink', 'brown', 'black', 'white', 'gray']

/** For the sample picture, and most others. */
export const STRUCTURE_EXAMPLES: readonly StructureExample[] = [
  {
    title: 'A form',
    kind: 'schema',
    question: 'Describe the image.',
    text: schemaOf({ description: { type: 'string' }, objects: { type: 'array', items: { type: 'string' } } }),
  },
  {
    title: 'A table of objects',
    kind: 'schema',
    question: 'Detect all objects.',
    text: listOf({
      object: { type: 'string' },
      bbox_2d: { type: 'array', items: { type: 'integer' }, minItems: 4, maxItems: 4 },
    }),
  },
  {
    title: 'Colours and counts',
    kind: 'schema',
    question: 'Which objects are there, and how many of each?',
    text: listOf({
      colour: { enum: COLOURS },
      object: { type: 'string', maxLength: 20 },
      count: { type: 'integer', minimum: 1, maximum: 20 },
    }),
  },
  {
    title: 'Yes or no',
    kind: 'schema',
    question: 'Is there a red circle?',
    text: schemaOf({ answer: { enum: ['yes', 'no'] } }),
  },
  { title: 'A number', kind: 'regex', question: 'How many squares are there?', text: '[0-9]{1,2}' },
  {
    title: 'A colour and a shape',
    kind: 'regex',
    question: 'What is in the top left corner?',
    text: '(red|green|blue|orange|purple) (circle|square|triangle|star|heart)',
  },
]

function schemaOf(properties: Readonly<Record<string, object>>): string {
  return written(objectOf(properties))
}

function listOf(properties: Readonly<Record<string, object>>): string {
  return written({ type: 'array', items: objectOf(properties) })
}

function objectOf(properties: Readonly<Record<string, object>>): object {
  return { type: 'object', properties, required: Object.keys(properties), additionalProperties: false }
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
