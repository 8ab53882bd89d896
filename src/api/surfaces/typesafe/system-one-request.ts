import { setImmediate } from 'node:timers/promises'
import type { Content, DecisionRequest, Level, Question } from '../../../conversation/request/decision-request.ts'
import type { PlacedMessage } from '../../../conversation/request/message.ts'
import type { ServedModel } from '../../../inference/catalog/registry.ts'
import type { Path } from '../../../lib/errors/param.ts'
import { AssetPlaces, assetOf, type Parts } from './system-one-content.ts'
import type { SystemOneContentBody, SystemOneQuestionBody, SystemOneRequestBody } from './wire/system-one.ts'

/** Characters that are searched for placeholders before other requests get their turn. They take a few milliseconds. */
const SEARCHED_AT_ONCE = 128 * 1024

/** Converts a request, and keeps the order of its questions. @throws ApiError 400 for an asset without an image. */
export async function toDecisionRequest(
  { state, questions, assets }: SystemOneRequestBody,
  parts: Parts,
  { contextTokens, engine }: ServedModel,
): Promise<DecisionRequest> {
  const places = new AssetPlaces(assets ?? {}, parts, contextTokens * engine.info.longestTokenBytes)
  const shown = places.fill(state, ['state'])
  const asked: Question[] = []
  for (const [id, question] of Object.entries(questions)) {
    if (places.searched > SEARCHED_AT_ONCE) {
      await setImmediate()
      places.searched = 0
    }
    asked.push(toQuestion(question, questionParam(id), places))
  }
  return { input: shown.length === 0 ? [] : [userTurn(shown)], questions: asked, calibrated: true, names: paramName }
}

/** Returns the names of the images in the state, in order. */
export function assetsIn({ input }: DecisionRequest): string[] {
  return input.flatMap(({ places }) => (places ?? []).flatMap((param) => assetOf(param) ?? []))
}

export function questionParam(id: string): Path {
  return ['questions', id]
}

/** Errors about an image name the asset as a whole. */
function paramName(path: Path): Path {
  const [first, ...rest] = path
  if (first === 'input') return ['state', ...rest]
  // Log-probabilities of the reply rate the places found, so a model without them is at fault.
  if (first === 'logprobs') return ['model']
  return first === 'assets' ? path.slice(0, 2) : path
}

function userTurn(content: Content): PlacedMessage {
  return {
    message: { role: 'user', content: content.map(({ part }) => part) },
    param: ['state'],
    places: content.map(({ param }) => param),
  }
}

function toQuestion(question: SystemOneQuestionBody, param: Path, places: AssetPlaces): Question {
  if (question.type === 'box') return { type: 'box', param, instructions: question.instructions }
  const instructions = places.fill(question.instructions, [...param, 'instructions'])
  const described = (value: SystemOneContentBody | undefined, key: string | number) => {
    return places.fill(value, [...param, 'criteria', key])
  }
  switch (question.type) {
    case 'noul': {
      const { true: yes, false: no } = question.criteria ?? {}
      return { type: 'predicate', param, instructions, yes: described(yes, 'true'), no: described(no, 'false') }
    }
    case 'choice':
      return {
        type: 'choice',
        param,
        instructions,
        options: Object.entries(question.criteria).map(([value, text]) => ({
          value,
          description: described(text, value),
        })),
      }
    case 'score':
      return {
        type: 'score',
        param,
        instructions,
        levels: question.criteria.map((text, index) => toLevel(described(text, index), index)),
      }
  }
}

/** A level that is one text is its own label. Otherwise its content describes it, and an empty level is a number. */
function toLevel(content: Content, index: number): Level {
  const [only] = content
  if (content.length === 1 && only?.part.type === 'text') return { label: only.part.text, description: [] }
  return { label: content.length === 0 ? String(index) : '', description: content }
}
