import { sumOf } from '../lib/sum.ts'
import type { Call } from './call/call.ts'
import { checkDecisions } from './call/capability-checks.ts'
import { DecisionRun, type Reading } from './decision-run.ts'
import type { Answer, DecisionReply } from './decisions/decision-reply.ts'
import { wordingOf } from './decisions/wording.ts'
import { framesPerVideo, loadMedia } from './prompt/media-parts.ts'
import { withPages } from './prompt/pages.ts'
import { type DecisionRequest, isFind } from './request/decision-request.ts'

const FIND_KINDS = ['box', 'point', 'clip'] as const

/**
 * Answers all questions about one input, which is computed once. An engine failure at one question fails only that one.
 * @throws ApiError when the request is invalid, or when the engine fails as a whole or at every question.
 */
export async function decide(request: DecisionRequest, call: Call): Promise<DecisionReply> {
  const { model } = call
  const readings = request.questions.flatMap((question, index): Reading[] => {
    if (isFind(question)) return []
    const { content, replies } = wordingOf(question, model.card.decision)
    const message = { role: 'user', content: content.map(({ part }) => part) } as const
    const placed = { message, param: question.param, places: content.map(({ param }) => param) }
    return [{ question, index, placed, replies }]
  })
  checkDecisions(
    request,
    readings.map(({ placed }) => placed),
    model,
  )
  const messages = await withPages([...request.input, ...readings.map(({ placed }) => placed)], call)
  const input = messages.slice(0, request.input.length)
  const shown = readings.map((reading, index) => ({ ...reading, placed: messages[input.length + index]! }))
  const media = await loadMedia(messages, { ...call, withSound: false, maxFrames: framesPerVideo(messages) })
  call.held.dispose()
  const run = new DecisionRun({ ...request, input }, media, call)
  const answers: Answer[] = []
  const found = FIND_KINDS.flatMap((kind) => {
    const questions = request.questions.flatMap((question, index) =>
      question.type === kind ? [{ question, index }] : [],
    )
    return questions.length === 0 ? [] : [run.find(kind, questions, answers)]
  })
  const usages = await Promise.all([...(readings.length === 0 ? [] : [run.read(shown, answers)]), ...found])
  const failed = answers.filter((answer) => answer.type === 'none' && answer.error !== null)
  if (failed.length === answers.length) throw (failed[0] as Extract<Answer, { type: 'none' }>).error
  return {
    answers: answers.map((answer) =>
      answer.type === 'none' ? { ...answer, error: call.named(answer.error) } : answer,
    ),
    usage: {
      promptTokens: sumOf(usages, ({ promptTokens }) => promptTokens),
      cachedTokens: sumOf(usages, ({ cachedTokens }) => cachedTokens),
      completionTokens: sumOf(usages, ({ completionTokens }) => completionTokens),
    },
  }
}
