import type { Expression, Grammar } from './grammar.ts'

/** The largest product of the counts of nested repetitions. */
export function nestedRepetitions({ root, rules }: Grammar): number {
  return Math.max(...[root, ...rules.values()].map(repetitionsIn))
}

function repetitionsIn(expression: Expression): number {
  switch (expression.type) {
    case 'sequence':
      return Math.max(1, ...expression.parts.map(repetitionsIn))
    case 'choice':
      return Math.max(1, ...expression.options.map(repetitionsIn))
    case 'repeat':
      return Math.max(1, expression.max ?? expression.min) * repetitionsIn(expression.part)
    default:
      return 1
  }
}
