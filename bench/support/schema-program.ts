/** Answers questions about schemas of strangers, which may take any time: it runs as a `GuardedProcess`. */
import { UnsupportedConstraint } from '../../src/inference/constraints/unsupported-constraint.ts'
import { answerQuestions } from '../../src/lib/guarded/guarded-program.ts'
import { accepts, byteAutomaton, generator, randomText } from '../../test/support/byte-automaton.ts'
import { judgeOf } from '../../test/support/schema-drafts.ts'

export type SchemaQuestion =
  | { readonly ask: 'compile'; readonly schema: string }
  | { readonly ask: 'walk'; readonly schema: string; readonly seed: number }
  | { readonly ask: 'accept'; readonly schema: string; readonly values: readonly unknown[] }
  | { readonly ask: 'judge'; readonly schema: string; readonly texts: readonly string[] }

/** To `compile`: why a schema is refused, or null, and how long that took. */
export interface Compiled {
  readonly refusal: string | null
  readonly ms: number
}
/** To `walk`: a text of the grammar; null where a random one did not end. To `accept` and `judge`: for each of the given. */
export type SchemaAnswer = Compiled | string | null | readonly boolean[]

answerQuestions((question: SchemaQuestion): SchemaAnswer => {
  const schema: unknown = JSON.parse(question.schema)
  switch (question.ask) {
    case 'compile':
      return compiled(schema)
    case 'walk':
      return randomText(byteAutomaton({ type: 'json_schema', schema }), generator(question.seed))
    case 'accept': {
      const automaton = byteAutomaton({ type: 'json_schema', schema })
      const places = placesIn(question.schema)
      return question.values.map((value) =>
        [written(value, places), written(value, null)].some((form) => accepts(automaton, form)),
      )
    }
    case 'judge': {
      const isValid = judgeOf(schema)
      return question.texts.map((text) => isValid(JSON.parse(text)))
    }
  }
})

function compiled(schema: unknown): Compiled {
  const started = performance.now()
  try {
    byteAutomaton({ type: 'json_schema', schema }).createMatcher()
    return { refusal: null, ms: performance.now() - started }
  } catch (error) {
    if (!(error instanceof UnsupportedConstraint)) throw error
    return { refusal: error.message, ms: performance.now() - started }
  }
}

/** Where each name first stands in the text of a schema. */
function placesIn(schema: string): ReadonlyMap<string, number> {
  const places = new Map<string, number>()
  for (const { 0: name, index } of schema.matchAll(/"(?:[^"\\]|\\.)*"(?=\s*:)/g)) {
    const key = JSON.parse(name) as string
    if (!places.has(key)) places.set(key, index)
  }
  return places
}

/** A value in the server's form of JSON, with properties in the order of the places, or else as they are. */
function written(value: unknown, places: ReadonlyMap<string, number> | null): string {
  if (Array.isArray(value)) return `[${value.map((item) => written(item, places)).join(', ')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const place = (key: string) => places?.get(key) ?? Number.POSITIVE_INFINITY
  const members = Object.entries(value)
  if (places !== null) members.sort(([a], [b]) => (place(a) === place(b) ? 0 : place(a) - place(b)))
  return `{${members.map(([key, inner]) => `${JSON.stringify(key)}: ${written(inner, places)}`).join(', ')}}`
}
