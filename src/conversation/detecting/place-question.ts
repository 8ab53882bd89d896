import type { DecisionForms } from '../../families/decision-forms.ts'
import type { Leaf } from '../../grounding/annotation.ts'
import { sumOf } from '../../lib/sum.ts'
import { repliesFor } from '../decisions/option-names.ts'

/** A question about what is at a place, and how its replies are read. */
export interface PlaceQuestion {
  readonly text: string
  /** How its text begins, as those about all places of this kind do. */
  readonly lead: string
  readonly replies: readonly string[]
  /** How likely the object is there, from 0 to 1. @param logProbs of the replies. */
  chanceOf(logProbs: readonly number[]): number
}

/** @param written the answer in which the model would name the object at its place. */
export function placeQuestion(leaf: Leaf, forms: DecisionForms, written: string): PlaceQuestion {
  const massOf = (logProbs: readonly number[]) => sumOf(logProbs, Math.exp)
  if (forms.places !== undefined) {
    const [replies] = repliesFor([leaf.mention!], { replies: repliesOf(leaf.mention!, forms) })
    const form = forms.places[leaf.kind === 'point' ? 'point' : 'box']
    return {
      text: filled(leaf, form),
      lead: form.slice(0, Math.max(0, form.indexOf('{'))),
      replies: replies!,
      chanceOf: (logProbs) => Math.min(1, massOf(logProbs)),
    }
  }
  const { yes, no } = forms
  return {
    text: `${written}\n\nIs this right? Answer yes or no only.`,
    lead: '',
    replies: [...yes, ...no],
    chanceOf: (logProbs) => {
      const [right, wrong] = [massOf(logProbs.slice(0, yes.length)), massOf(logProbs.slice(yes.length))]
      return right + wrong === 0 ? 0 : right / (right + wrong)
    },
  }
}

/** Those that mean a thing of this name. */
function repliesOf(name: string, { replies, places }: DecisionForms): readonly string[] {
  return places!.kinds.find(({ names }) => names === undefined || names.includes(name))?.replies ?? replies
}

function filled({ kind, points: [from, to] }: Leaf, form: string): string {
  const places =
    kind === 'point' ? { x: from!.x, y: from!.y } : { left: from!.x, top: from!.y, right: to!.x, bottom: to!.y }
  return Object.entries(places).reduce((text, [name, value]) => text.replace(`{${name}}`, String(value)), form)
}
