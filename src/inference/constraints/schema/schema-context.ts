import type { Notation } from '../../contract/constraint.ts'
import type { GrammarBuilder } from '../grammar.ts'
import { UnsupportedConstraint } from '../unsupported-constraint.ts'
import { JSON_STYLE, PYTHON_STYLE, ValueText } from '../value-text.ts'
import type { Refuse } from './keyword-reader.ts'
import type { Conjunction, Path } from './schema-conjunction.ts'
import { SchemaOptions } from './schema-options.ts'
import { memberTypes, type ValueTypes } from './value-types.ts'

/**
 * How a value is written: in the notation's normal form, as the members or keywords of the outermost object, as an
 * unquoted string or null, or as an unquoted string.
 */
export type Form = 'plain' | 'members' | 'keywords' | 'bare' | 'text'

/** The types that a form can express; absent for all types. */
export const WRITABLE: Readonly<Partial<Record<Form, readonly string[]>>> = {
  members: ['object'],
  keywords: ['object'],
  bare: ['string', 'null'],
  text: ['string'],
}

/** Where a value is written. */
export interface Place {
  readonly depth: number
  readonly form: Form
}

/** What the writers of a schema's values share: the schema, the notation, and the handling of unsupported keywords. */
export class SchemaContext {
  readonly options: SchemaOptions
  readonly builder: GrammarBuilder
  readonly isLenient: boolean
  readonly plain: ValueText
  readonly bare: ValueText
  readonly member: Notation['member']
  readonly outermost: Form
  readonly typesOfMember: (name: string) => ValueTypes

  constructor(root: unknown, builder: GrammarBuilder, isLenient: boolean, notation: Partial<Notation> = {}) {
    const { quote, without = [], member, keywords = false } = notation
    this.isLenient = isLenient
    this.options = new SchemaOptions(root, this.refuse, isLenient)
    this.builder = builder
    const base = keywords ? PYTHON_STYLE : JSON_STYLE
    const style = { ...base, ...(quote === undefined ? {} : { comma: ',', colon: ':' }), without }
    this.plain = new ValueText({ ...style, quote: quote ?? null }, builder)
    this.bare = new ValueText({ ...style, quote: '' }, builder)
    this.member = member
    this.outermost = keywords ? 'keywords' : member === undefined ? 'plain' : 'members'
    this.typesOfMember = member === undefined ? () => null : memberTypes(root)
  }

  readonly refuse: Refuse = (message, path) => {
    if (!this.isLenient) throw new UnsupportedConstraint(message, path)
  }

  /** Records why nothing is allowed. */
  nothing(message: string, path: Path): null {
    this.options.nothing = new UnsupportedConstraint(message, path)
    return null
  }

  text({ form }: Place): ValueText {
    return form === 'bare' || form === 'text' ? this.bare : this.plain
  }

  /** Whether no value is valid, so that only required members are written, as well as possible. */
  isImpossible(parts: Conjunction): boolean {
    if (!this.isLenient) return false
    const options = this.options.of(parts)
    return options.length > 0 && !options.some((plain) => this.options.isSatisfiable(plain))
  }
}

/** Whether a value can only be written as the outermost object. */
export function isObjectOnly({ form }: Place): boolean {
  return form === 'members' || form === 'keywords'
}
