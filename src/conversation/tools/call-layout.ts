import type {
  ConstrainedTag,
  JsonSchemaConstraint,
  Notation,
  RegexConstraint,
  TriggeredTagsConstraint,
} from '../../inference/contract/constraint.ts'
import { argumentsSchema, type Tool } from '../request/tool.ts'

/** How the calls of a reply are laid out, as constraints write them. */
export interface CallLayout {
  /** The mark that announces calls. Text after it must follow the layout. */
  readonly trigger: string
  /** The text around and between all calls; absent if each call stands alone. */
  readonly section?: { readonly begin: string; readonly between: string; readonly end: string }
  /** The parts before the arguments of a call. The first part is a text. */
  head(name: string): readonly [string, ...(string | RegexConstraint)[]]
  readonly tail: string
  /** The notation of the arguments, if it is not JSON. */
  readonly notation?: Notation
}

/** Allows free text and calls of these tools; with `single`, the text ends with the first call. */
export function callConstraint(
  { trigger, section, head, tail, notation }: CallLayout,
  tools: readonly Tool[],
  single: boolean,
): TriggeredTagsConstraint {
  const tags = tools.map((tool): ConstrainedTag => {
    const [begin, ...more] = head(tool.name)
    const values: JsonSchemaConstraint = {
      type: 'json_schema',
      schema: argumentsSchema(tool),
      lenient: true,
      ...(notation === undefined ? {} : { notation }),
    }
    const content = more.length === 0 ? values : ({ type: 'sequence', parts: [...more, values] } as const)
    return { begin, content, end: tail }
  })
  const common = { type: 'triggered_tags', triggers: [trigger], stopAfterFirst: single } as const
  if (section === undefined) return { ...common, tags }
  const { begin, between, end } = section
  return { ...common, tags: [{ begin, content: { type: 'tag_list', tags, between, single }, end }] }
}

/** The numbers that some syntaxes count calls with. */
export const COUNTER: RegexConstraint = { type: 'regex', pattern: '0|[1-9][0-9]{0,2}' }
