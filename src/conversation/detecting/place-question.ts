import type { DecisionForms } from '../../families/decision-forms.ts'
import type { Leaf } from '../../grounding/annotation.ts'
import { sumOf } from '../../lib/sum.ts'
import { repliesFor } from '../decisions/option-names.ts'

/** A question about what is at a place, and how its replies are read. */
export interface PlaceQuestion {
  readonly text: string
  readonly replies: readonly string[]
  /** Whether the replies count regardless of how the model would continue. */
  readonly goesOn: boolean
  /** The probability that the object is there, from 0 to 1. @param logProbs of the replies. */
  chanceOf(logProbs: readonly number[]): number
}

/** @param written the answer in which the model would give the object and its place. */
export function placeQuestion(leaf: Leaf, forms: DecisionForms, written: string): PlaceQuestion {
  const massOf = (logProbs: readonly number[]) => sumOf(logProbs, Math.exp)
  if (forms.places !== undefined) {
    const [replies] = repliesFor([leaf.mention!], { replies: repliesOf(leaf.mention!, forms) })
    return {
      text: filled(leaf, forms.places),
      replies: replies!,
      goesOn: forms.places.goesOn,
      chanceOf: (logProbs) => Math.min(1, massOf(logProbs)),
    }
  }
  const { yes, no } = forms
  return {
    text: `${written}\n\nIs this right? Answer yes or no only.`,
    replies: [...yes, ...no],
    goesOn: false,
    chanceOf: (logProbs) => {
      const [right, wrong] = [massOf(logProbs.slice(0, yes.length)), massOf(logProbs.slice(yes.length))]
      return right + wrong === 0 ? 0 : right / (right + wrong)
    },
  }
}

/** The replies that mean an object of this name. */
function repliesOf(name: string, { replies, places }: DecisionForms): readonly string[] {
  return places!.kinds.find(({ names }) => names.includes(name))?.replies ?? places!.replies ?? replies
}

function filled({ kind, points: [from, to] }: Leaf, { box, point }: NonNullable<DecisionForms['places']>): string {
  if (kind === 'point') return point.replace('{x}', String(from!.x)).replace('{y}', String(from!.y))
  const corners = { left: from!.x, top: from!.y, right: to!.x, bottom: to!.y }
  return Object.entries(corners).reduce((text, [name, value]) => text.replace(`{${name}}`, String(value)), box)
}
